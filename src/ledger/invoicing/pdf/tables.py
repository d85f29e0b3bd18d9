"""The tables of a printed document: the concepts of an invoice, the payments of a receipt."""

from __future__ import annotations

from ledger.invoicing.pdf import words
from ledger.invoicing.pdf.canvas import FAINT, INNER, MARGIN, Column
from ledger.invoicing.pdf.catalogs import described
from ledger.invoicing.pdf.page import Page
from ledger.invoicing.pdf.printable import Line, PaymentLine


def concepts(page: Page) -> None:
    labels = page.labels
    columns = [
        Column(labels["quantity"], 15, "R"),
        Column(labels["unit"], 17, "C"),
        Column(labels["key"], 18, "C"),
        Column(labels["text"], INNER - 114),
        Column(labels["price"], 24, "R"),
        Column(labels["discount"], 18, "R"),
        Column(labels["amount"], 22, "R"),
    ]
    page.y = page.canvas.heading(columns, page.y)
    for line in page.document.lines:
        _concept(page, line, columns)
    page.y += 2


def _concept(page: Page, line: Line, columns: list[Column]) -> None:
    canvas, text_column = page.canvas, columns[3]
    canvas.pen(8)
    lines = canvas.wrapped(line.description, text_column.width)
    note = " · ".join(page.tax(tax, page.document.currency) for tax in line.taxes)
    canvas.pen(6.5)
    notes = canvas.wrapped(note, text_column.width) if note else []
    height = len(lines) * 3.6 + len(notes) * 3.0 + 2.2
    if not canvas.has_room(page.y, height):
        page.next_page()
        page.y = canvas.heading(columns, page.y)
    y = page.y + 1.2
    cells = (
        words.number(line.quantity),
        line.unit,
        line.product_key,
        None,
        words.unit_price(line.unit_price, line.quantity, line.amount),
        words.number(line.discount, decimals=2) if line.discount else "",
        words.number(line.amount, decimals=2),
    )
    x = MARGIN
    for column, text in zip(columns, cells, strict=True):
        if text:
            canvas.write_line(x, y, text, size=7.5, width=column.width, align=column.align)
        elif text is None:
            _description(page, x, y, lines, notes)
        x += column.width
    page.y += height
    canvas.rule(page.y)


def _description(page: Page, x: float, y: float, lines: list[str], notes: list[str]) -> None:
    for text in lines:
        page.canvas.write_line(x, y, text, size=8)
        y += 3.6
    for text in notes:
        page.canvas.write_line(x, y, text, size=6.5, colour=FAINT)
        y += 3.0


def payments(page: Page) -> None:
    labels = page.labels
    columns = [
        Column(labels["uuid"], INNER - 120),
        Column(labels["invoice"], 36, "C"),
        Column(labels["installment"], 10, "C"),
        Column(labels["previous"], 25, "R"),
        Column(labels["paid"], 24, "R"),
        Column(labels["remaining"], 25, "R"),
    ]
    for payment in page.document.payments:
        _payment(page, payment, columns)


def _payment(page: Page, payment: PaymentLine, columns: list[Column]) -> None:
    canvas, labels = page.canvas, page.labels
    if not canvas.has_room(page.y, 30):
        page.next_page()
    paid_at = words.moment(payment.paid_at, page.language)
    form = described("payment_form", payment.form)
    canvas.write_line(MARGIN, page.y, f"{labels['paid_at']}: {paid_at}", size=8, style="B")
    canvas.write_line(MARGIN + 95, page.y, f"{labels['form']}: {form}", size=8)
    page.y = canvas.heading(columns, page.y + 5)
    for document in payment.documents:
        canvas.pen(7.5)
        number = canvas.wrapped(document.number, columns[1].width)
        cells = (
            document.fiscal_uuid,
            None,
            document.installment,
            *(words.number(each, decimals=2) for each in (document.previous, document.paid, document.remaining)),
        )
        x = MARGIN
        for column, text in zip(columns, cells, strict=True):
            for n, each in enumerate(number if text is None else (text,)):
                y = page.y + 1.2 + n * 3.4
                canvas.write_line(x, y, each, size=7.5, width=column.width, align=column.align)
            x += column.width
        page.y += 6 + (len(number) - 1) * 3.4
        canvas.rule(page.y)
    if payment.taxes:
        note = " · ".join(page.tax(tax, payment.currency) for tax in payment.taxes)
        canvas.write_line(MARGIN, page.y + 1.5, f"{labels['taxes']}: {note}", size=7, colour=FAINT, width=INNER)
        page.y += 5
    page.y += 3
