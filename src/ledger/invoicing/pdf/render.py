"""The PDF of a stamped document: who issued it to whom, what for, its totals, seals and QR code.

Rendering takes milliseconds of processor time: never do it in the request path of an order, or on an event loop.
"""

from __future__ import annotations

from ledger.invoicing.pdf.head import head, parties, terms
from ledger.invoicing.pdf.notes import NO_NOTES, Notes
from ledger.invoicing.pdf.page import Page
from ledger.invoicing.pdf.printable import read_printable
from ledger.invoicing.pdf.tables import concepts, payments
from ledger.invoicing.pdf.totals import seals, totals
from ledger.invoicing.pdf.words import Language


def render(xml: bytes, *, language: Language = "es", logo: bytes | None = None, notes: Notes = NO_NOTES) -> bytes:
    """Returns the PDF of a stamped document, with its labels, numbers and dates in a language.

    The same arguments give the same bytes. `logo` is a PNG; without one, the issuer's initials take its place.
    Raises XmlUnreadable if the XML is no stamped CFDI 4.0.
    """
    page = Page(read_printable(xml), language, logo, notes)
    for part in (head, parties, terms, payments if page.document.payments else concepts, totals, seals):
        part(page)
    return bytes(page.canvas.output())
