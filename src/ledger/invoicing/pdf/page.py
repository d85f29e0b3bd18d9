"""One document while it is drawn: its canvas, its language, and how far the page is filled."""

from __future__ import annotations

from datetime import UTC, datetime

from ledger.invoicing.pdf import words
from ledger.invoicing.pdf.canvas import MARGIN, Canvas
from ledger.invoicing.pdf.notes import NO_NOTES, Notes
from ledger.invoicing.pdf.printable import Printable, Tax
from ledger.invoicing.pdf.words import Language


class Page:
    """A document and its canvas. `y` is where the next part begins."""

    def __init__(self, document: Printable, language: Language, logo: bytes | None, notes: Notes = NO_NOTES) -> None:
        self.document, self.language, self.logo, self.notes = document, language, logo, notes
        self.labels = words.LABELS[language]
        self.canvas = Canvas(self.labels["page"], self.labels["printed"], language)
        stamped_at = datetime.fromisoformat(document.stamped_at).replace(tzinfo=UTC)
        self.canvas.about(f"{self.labels[document.kind]} {document.number}", document.issuer.name, stamped_at)
        self.y = MARGIN

    def next_page(self) -> None:
        self.canvas.add_page()
        self.y = MARGIN

    def tax(self, tax: Tax, currency: str) -> str:
        """Returns a tax with its amount, and its rate if it has one: "IVA 16% $160.00 MXN"."""
        amount = "" if tax.factor == "Exento" else f" {words.money(tax.amount, currency)}"
        return f"{self.tax_label(tax)}{amount}"

    def tax_label(self, tax: Tax) -> str:
        """Returns the name of a tax with its rate: "IVA 16%", "IVA exento", "ISR ret. 10%"."""
        kind = f" {self.labels['withheld']}" if tax.withheld else ""
        if tax.factor == "Exento":
            return f"{tax.name} {self.labels['exempt']}"
        if tax.rate is None:
            return f"{tax.name}{kind}"
        rate = words.percent(tax.rate) if tax.factor == "Tasa" else words.number(tax.rate)
        return f"{tax.name}{kind} {rate}"
