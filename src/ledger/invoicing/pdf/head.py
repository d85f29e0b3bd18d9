"""The head of a printed document: its kind and number, the two parties, and its terms."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import structlog

from ledger.invoicing.logos import LogoWrong, encode_logo
from ledger.invoicing.pdf import words
from ledger.invoicing.pdf.canvas import ACCENT, FAINT, INNER, MARGIN, WARNING, WHITE
from ledger.invoicing.pdf.catalogs import described
from ledger.invoicing.pdf.file import Picture, picture_of
from ledger.invoicing.pdf.page import Page

_log = structlog.get_logger()

_LOGO: Final = 17.0
_LOGO_WIDTH_MAX: Final = 52.0
"""A logo is printed as large as fits into this width and 17 mm of height, so that a wide logo is readable too."""
_NAME_RIGHT: Final = 125.0
_NARROW: Final = 75.0
"""Beside a wide logo the name has less room than this, in mm, and is printed smaller."""
_CARD_HEIGHT: Final = 29.0
_ALERT: Final = (253, 236, 234)


def head(page: Page) -> None:
    canvas, document, labels = page.canvas, page.document, page.labels
    x = MARGIN + _mark(page) + 4
    width = _NAME_RIGHT - x
    size = 13 if width >= _NARROW else 11
    y = canvas.write_block(x, MARGIN + 1, width, document.issuer.name, size=size, style="B", lines_max=2)
    canvas.write_line(x, y + 0.6, f"RFC {document.issuer.rfc}", size=9, colour=FAINT)
    canvas.write_line(MARGIN, MARGIN, labels[document.kind], size=16, style="B", colour=ACCENT, width=INNER, align="R")
    number = f"{labels['number']} {document.number}"
    canvas.write_line(MARGIN, MARGIN + 8, number, size=10, style="B", width=INNER, align="R")
    issued = words.moment(document.issued_at, page.language)
    canvas.write_line(MARGIN, MARGIN + 13, issued, size=8, colour=FAINT, width=INNER, align="R")
    page.y = MARGIN + _LOGO + 3
    if document.is_test:
        canvas.fill(MARGIN, page.y, INNER, 6, _ALERT)
        canvas.write_line(
            MARGIN, page.y + 1.2, labels["test"], size=8, style="B", colour=WARNING, width=INNER, align="C"
        )
        page.y += 8.5


def _mark(page: Page) -> float:
    """Draws the logo, or the issuer's initials in its place. Returns its width."""
    canvas = page.canvas
    logo = None if page.logo is None else _printable(page.logo)
    if logo is not None:
        scale = min(_LOGO_WIDTH_MAX / logo.width, _LOGO / logo.height)
        width, height = logo.width * scale, logo.height * scale
        canvas.image(logo, MARGIN, MARGIN + (_LOGO - height) / 2, width, height)
        return width
    canvas.box(MARGIN, MARGIN, _LOGO, _LOGO, ACCENT)
    initials = "".join(word[0] for word in page.document.issuer.name.split()[:2]).upper()
    canvas.write_line(MARGIN, MARGIN + 5, initials, size=20, style="B", colour=WHITE, width=_LOGO, align="C")
    return _LOGO


@lru_cache(maxsize=16)
def _printable(stored: bytes) -> Picture | None:
    """Returns a stored logo, None for a picture that is none: release 0.1.0 stored the files of merchants unchecked."""
    try:
        return picture_of(encode_logo(stored).png)
    except LogoWrong as wrong:
        _log.warning("logo_not_printed", reason=str(wrong))
        return None


def parties(page: Page) -> None:
    document, labels = page.document, page.labels
    width = (INNER - 5) / 2
    issuer, receiver = document.issuer, document.receiver
    _card(page,
        MARGIN, width, labels["issuer"], issuer.name, issuer.rfc,
        [
            (labels["tax_system"], described("tax_system", issuer.tax_system)),
            (labels["place"], document.place),
        ],
    )  # fmt: skip
    _card(page,
        MARGIN + width + 5, width, labels["receiver"], receiver.name, receiver.rfc,
        [
            (labels["tax_system"], described("tax_system", receiver.tax_system)),
            (labels["zip"], receiver.zip_code),
            (labels["use"], described("cfdi_use", receiver.cfdi_use or "")),
        ],
    )  # fmt: skip
    page.y += _CARD_HEIGHT + 3


def _card(page: Page, x: float, width: float, title: str, name: str, rfc: str, facts: list[tuple[str, str]]) -> None:
    canvas, y = page.canvas, page.y
    canvas.box(x, y, width, _CARD_HEIGHT)
    canvas.write_line(x + 2, y + 2, title.upper(), size=6.5, style="B", colour=ACCENT)
    below = canvas.write_block(x + 2, y + 5.6, width - 4, name, size=9, style="B", lines_max=2)
    canvas.write_line(x + 2, below + 0.4, f"RFC {rfc}", size=8)
    for n, (label, value) in enumerate(facts):
        canvas.write_line(x + 2, y + 18 + n * 3.4, f"{label}: {value}", size=6.8, colour=FAINT, width=width - 4)


def terms(page: Page) -> None:
    """Draws the terms of the document in two columns; the fiscal UUID comes first."""
    document, labels = page.document, page.labels
    facts = [
        (labels["uuid"], document.fiscal_uuid),
        (labels["stamped"], words.moment(document.stamped_at, page.language)),
        (labels["currency"], document.currency),
    ]
    if document.exchange_rate:
        facts.append((labels["rate"], document.exchange_rate))
    if document.payment_method:
        facts.append((labels["method"], described("payment_method", document.payment_method)))
    if document.payment_form:
        facts.append((labels["form"], described("payment_form", document.payment_form)))
    if page.notes.paid_with:
        facts.append((labels["paid_with"], page.notes.paid_with))
    if document.relation:
        facts.append((labels["relation"], described("relation", document.relation)))
    facts += [(labels["related"], each) for each in document.related]
    half = INNER / 2
    for n, (label, value) in enumerate(facts):
        x, y = MARGIN + (n % 2) * half, page.y + (n // 2) * 4.2
        page.canvas.write_line(x, y, label, size=7, colour=FAINT, width=27)
        page.canvas.write_line(x + 27, y, value, size=7.5, style="B" if n == 0 else "", width=half - 28)
    page.y += (len(facts) + 1) // 2 * 4.2
    if page.notes.reason:
        page.canvas.write_line(MARGIN, page.y, labels["reason"], size=7, colour=FAINT)
        below = page.canvas.write_block(MARGIN + 35, page.y, INNER - 35, page.notes.reason, size=7.5, lines_max=3)
        page.y = max(below, page.y + 4.2)
    page.y += 2.5
