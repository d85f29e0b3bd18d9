"""The end of a printed document: its totals, its seals and the QR code that leads to SAT's page about it."""

from __future__ import annotations

from decimal import Decimal
from typing import Final

import qrcode
from qrcode.constants import ERROR_CORRECT_M

from ledger.invoicing.pdf import words
from ledger.invoicing.pdf.canvas import ACCENT, FAINT, INNER, MARGIN, RIGHT, WHITE
from ledger.invoicing.pdf.page import Page

_SEALS_HEIGHT: Final = 44.0
_QR: Final = 31.0


def totals(page: Page) -> None:
    canvas, document, labels = page.canvas, page.document, page.labels
    rows: list[tuple[str, Decimal]] = []
    if not document.payments:
        rows.append((labels["subtotal"], document.subtotal))
        if document.discount:
            rows.append((labels["discount"], -document.discount))
        shown = [tax for tax in document.taxes if tax.factor != "Exento"]
        rows += [(page.tax_label(tax), -tax.amount if tax.withheld else tax.amount) for tax in shown]
    if not canvas.has_room(page.y, len(rows) * 4.6 + 14):
        page.next_page()
    y = page.y + 1
    for label, amount in rows:
        canvas.write_line(RIGHT - 80, y, label, size=8, colour=FAINT, width=46, align="R")
        canvas.write_line(RIGHT - 34, y, words.number(amount, decimals=2), size=8, width=34, align="R")
        y += 4.6
    canvas.box(RIGHT - 80, y, 80, 8.5, ACCENT)
    canvas.write_line(RIGHT - 79, y + 2.2, labels["total"], size=10, style="B", colour=WHITE)
    total = words.money(document.total, document.currency)
    canvas.write_line(RIGHT - 60, y + 2, total, size=11, style="B", colour=WHITE, width=60, align="R")
    spelled = words.in_words(document.total, document.currency, page.language)
    canvas.write_block(MARGIN, page.y + 1.5, INNER - 84, spelled, size=7.5)
    page.y = y + 12.5


def seals(page: Page) -> None:
    """Draws the QR code beside the seals (Anexo 20, I.D and I.E)."""
    canvas, document, labels = page.canvas, page.document, page.labels
    if not canvas.has_room(page.y, _SEALS_HEIGHT):
        page.next_page()
    page.y = max(page.y, canvas.foot_of_page - _SEALS_HEIGHT)
    canvas.rule(page.y)
    top = page.y + 3
    canvas.modules(_modules(document.verify_url), MARGIN, top, _QR)
    x, y = MARGIN + _QR + 4, top
    facts = (
        (labels["certificate"], document.certificate),
        (labels["sat_certificate"], document.sat_certificate),
        (labels["provider"], document.provider_rfc),
    )
    for n, (label, value) in enumerate(facts):
        canvas.write_line(x + n * 50, y, label, size=6, colour=FAINT)
        canvas.write_line(x + n * 50, y + 2.8, value, size=7)
    y += 7.5
    for label, text in (
        (labels["seal"], document.seal),
        (labels["sat_seal"], document.sat_seal),
        (labels["chain"], document.chain),
    ):
        canvas.write_line(x, y, label, size=6, style="B")
        y = canvas.fixed_width(x, y + 2.9, RIGHT - x, text) + 1.2


def _modules(text: str) -> list[list[bool]]:
    """Returns the modules of a QR code. A fixed mask saves the search for the best one, which readers do not need."""
    code = qrcode.QRCode(error_correction=ERROR_CORRECT_M, border=0, mask_pattern=3)
    code.add_data(text)
    code.make(fit=True)
    return [[bool(module) for module in row] for row in code.modules]
