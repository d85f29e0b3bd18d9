"""A month's electronic invoices for the accountant: the documents per kind and state with their sums, from the log.

The events are folded by the orders' own fold, so that the report and the orders agree. A document belongs to the month
of its date, in the time zone of the place of issue; its state is the present one.
"""

from __future__ import annotations

import asyncio
import csv
import io
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from html import escape
from typing import Any, Final
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ledger.domain.money import ZERO
from ledger.domain.orders.invoices.events import TOPICS, DocumentCancelled
from ledger.domain.orders.invoices.evolve import evolve_invoices
from ledger.domain.orders.invoices.state import Document, Invoices
from ledger.domain.orders.invoices.terms import IEPS, ISR, IVA, InvoiceTerms
from ledger.domain.orders.state import Order
from ledger.journal.event_archive import EventArchive
from ledger.postgres.connection import Connection
from projections import global_invoices
from projections.global_invoices import MOVEMENT_COLUMNS, MOVEMENTS_MAX, GlobalMovement
from projections.orders.missing_documents import (
    COLUMNS as MISSING_COLUMNS,
)
from projections.orders.missing_documents import (
    DOCUMENTS_MAX,
    ORDERS_MAX,
    MissingDocument,
    blocked_statement,
    kind_of,
    missing_documents,
    total_of,
)
from projections.report_pages import page, table

# The events of documents, since a time, of the streams in which documents were announced before another time: each
# stream's in order. The topics are those of the partial index.
_READ: Final = """
select stream_id, topic, data from event
 where merchant_id = %(merchant_id)s and recorded_at >= %(begin)s and topic in (
  'document-announced.v1', 'stamping-requested.v1', 'document-stamped.v1', 'document-refused.v1',
  'document-cancellation-requested.v1', 'document-cancellation-pending.v1', 'document-cancelled.v1',
  'document-cancellation-refused.v1')
   and stream_id in (
     select stream_id from event
      where merchant_id = %(merchant_id)s and recorded_at >= %(begin)s and recorded_at < %(end)s
        and topic = 'document-announced.v1')
 order by stream_id, version
"""

_MARGIN: Final = timedelta(days=1)
"""How long before and after a month the events of its documents are searched: they are recorded when the document is
issued.
"""

_CENTS: Final = Decimal(100)
_GLOBAL, _PESOS = "INVOICE_GLOBAL", "MXN"


class MonthLine(Struct, frozen=True, kw_only=True, rename="camel"):
    """The documents of one kind, state and currency. Amounts in major units of the currency.

    `kind` is INVOICE_GLOBAL, INVOICE_PUE, INVOICE_PPD, REP or CREDIT_NOTE; `state` is PENDING, EMITTED, FAILED or
    CANCELLED. `total` of a REP is what it pays of its invoice.
    """

    kind: str
    state: str
    currency: str
    documents: int
    total: Decimal
    iva: Decimal
    ieps: Decimal
    iva_withheld: Decimal
    isr_withheld: Decimal


COLUMNS: Final = MonthLine.__struct_encode_fields__


class Month(Struct, frozen=True, kw_only=True):
    """A month's lines in the order of kind, state and currency, and its documents that are not stamped.

    `has_more_missing`: more documents are not stamped than one report lists. `moved` is what orders
    received or gave back in the month after a global invoice had stated them, `has_more_moved` whether there is more.
    """

    lines: list[MonthLine]
    missing: list[MissingDocument]
    has_more_missing: bool = False
    moved: list[GlobalMovement] = []
    has_more_moved: bool = False


ReadRows = Callable[[str, Mapping[str, Any]], Awaitable[Sequence[tuple[Any, ...]]]]
"""Returns the rows of a statement with its parameters, in the binary format."""


async def month_of(
    read: ReadRows,
    read_order: Callable[[UUID], Awaitable[Order]],
    archive: EventArchive,
    merchant_id: UUID,
    year: int,
    month: int,
    zone: str,
) -> Month:
    """Returns a month. `read_order` reads an order of the merchant from the log. Raises what both readers raise, and
    ArchiveUnavailable.
    """
    rows = await archive.with_contents(merchant_id, await read(*month_statement(merchant_id, year, month, zone)))
    begin, end = _bounds(year, month, zone)
    blocked = [order_id for (order_id,) in await read(*blocked_statement(merchant_id, begin, end))]
    orders = [await read_order(order_id) for order_id in blocked[:ORDERS_MAX]]
    documents = await asyncio.to_thread(_documents_of, rows, begin, end)
    missing = missing_documents(documents, orders, begin, end)
    global_rows = await read(*global_invoices.month_statement(merchant_id, begin, end))
    moved_rows = await read(*global_invoices.movements_statement(merchant_id, begin, end))
    moved = global_invoices.movements_of(await archive.with_contents(merchant_id, moved_rows))
    return Month(
        lines=_with_globals(summed(each for _, each in documents), global_rows),
        missing=missing[:DOCUMENTS_MAX],
        has_more_missing=len(missing) > DOCUMENTS_MAX or len(blocked) > ORDERS_MAX,
        moved=moved[:MOVEMENTS_MAX],
        has_more_moved=len(moved) > MOVEMENTS_MAX,
    )


async def month_lines(connection: Connection, merchant_id: UUID, year: int, month: int, zone: str) -> list[MonthLine]:
    """Returns the lines of a month, in the order of kind, state and currency."""
    statement, parameters = month_statement(merchant_id, year, month, zone)
    cursor = await connection.execute(statement.encode(), parameters, binary=True)
    lines = summed(each for _, each in _documents_of(await cursor.fetchall(), *_bounds(year, month, zone)))
    statement, parameters = global_invoices.month_statement(merchant_id, *_bounds(year, month, zone))
    cursor = await connection.execute(statement.encode(), parameters, binary=True)
    return _with_globals(lines, await cursor.fetchall())


def month_statement(merchant_id: UUID, year: int, month: int, zone: str) -> tuple[str, Mapping[str, Any]]:
    """Returns the query of a month's events with its parameters."""
    begin, end = _bounds(year, month, zone)
    return _READ, {"merchant_id": merchant_id, "begin": begin - _MARGIN, "end": end + _MARGIN}


def _documents_of(rows: Iterable[tuple[Any, ...]], begin: datetime, end: datetime) -> list[tuple[UUID, Document]]:
    """Returns the documents of a month with their orders' ids. It takes long: call it in a thread."""
    return [(order_id, each) for order_id, each in _folded(rows) if begin <= each.terms.issued_at < end]


def _bounds(year: int, month: int, zone: str) -> tuple[datetime, datetime]:
    local = ZoneInfo(zone)
    begin = datetime(year, month, 1, tzinfo=local)
    return begin.astimezone(UTC), datetime(year + month // 12, month % 12 + 1, 1, tzinfo=local).astimezone(UTC)


def summed(documents: Iterable[Document]) -> list[MonthLine]:
    """Returns the lines of these documents."""
    groups: dict[tuple[str, str, str], list[Document]] = defaultdict(list)
    for document in documents:
        groups[kind_of(document.terms), _state(document), document.terms.currency].append(document)
    return [
        MonthLine(
            kind=kind,
            state=state,
            currency=currency,
            documents=len(group),
            total=_major(sum((total_of(each) for each in group), ZERO)),
            iva=_tax(group, IVA, withheld=False),
            ieps=_tax(group, IEPS, withheld=False),
            iva_withheld=_tax(group, IVA, withheld=True),
            isr_withheld=_tax(group, ISR, withheld=True),
        )
        for (kind, state, currency), group in sorted(groups.items())
    ]


def _with_globals(lines: list[MonthLine], rows: Iterable[tuple[Any, ...]]) -> list[MonthLine]:
    """Returns the lines with those of the global invoices, in their place."""
    found = [
        MonthLine(
            kind=_GLOBAL,
            state=state,
            currency=_PESOS,
            documents=documents,
            total=_major(Decimal(total)),
            iva=_major(Decimal(iva)),
            ieps=_major(Decimal(ieps)),
            iva_withheld=_major(Decimal(iva_withheld)),
            isr_withheld=_major(Decimal(isr_withheld)),
        )
        for state, documents, total, iva, ieps, iva_withheld, isr_withheld in rows
    ]
    return sorted([*lines, *found], key=lambda line: (line.kind, line.state, line.currency))


def as_csv(lines: Sequence[MonthLine]) -> str:
    """Returns the lines as CSV (RFC 4180), with a heading."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(COLUMNS)
    writer.writerows(cells(line) for line in lines)
    return text.getvalue()


def as_page(month: Month, title: str) -> str:
    """Returns the month as a page of HTML, for a browser or a printer."""
    parts = [
        '<p class="note">By the dates of the documents. Amounts are in major units.</p>',
        _table(COLUMNS, month.lines, 3),
    ]
    if month.missing:
        parts += ["<h2>Not stamped</h2>", _table(MISSING_COLUMNS, month.missing, len(MISSING_COLUMNS))]
    if month.moved:
        moved = [replace(each, amount=_major(each.amount)) for each in month.moved]
        parts += ["<h2>Paid or given back after a global invoice</h2>", _table(MOVEMENT_COLUMNS, moved, 3)]
    if month.has_more_missing:
        parts.append(f"<p>{MORE_MISSING}</p>")
    return page(title, "\n".join([*parts, ""]))


MORE_MISSING: Final = "More documents are not stamped than one report lists: stamp these first."
HEADINGS: Final = {
    "kind": "Kind",
    "state": "State",
    "currency": "Currency",
    "documents": "Documents",
    "total": "Total",
    "iva": "IVA",
    "ieps": "IEPS",
    "ivaWithheld": "IVA withheld",
    "isrWithheld": "ISR withheld",
    "orderId": "Order",
    "documentId": "Document",
    "failureCode": "Code",
    "failureReason": "Reason",
    "type": "Movement",
    "globalInvoiceId": "Global invoice",
    "amount": "Amount",
}
"""The headings of the columns, for people."""


def _table(
    columns: Sequence[str], lines: Sequence[MonthLine | MissingDocument | GlobalMovement], numbers_from: int
) -> str:
    if not lines:
        return "<p>No documents.</p>"
    rows = [[escape(cell) for cell in _written(line, "{:,.2f}")] for line in lines]
    return table([HEADINGS[name] for name in columns], rows, numbers_from, "days")


def cells(line: MonthLine | MissingDocument | GlobalMovement) -> list[str]:
    """Returns the texts of a line, amounts with two decimals."""
    return _written(line, "{:.2f}")


def _written(line: MonthLine | MissingDocument | GlobalMovement, amount: str) -> list[str]:
    values = ("" if value is None else value for value in msgspec.structs.astuple(line))
    return [amount.format(value) if isinstance(value, Decimal) else str(value) for value in values]


def _folded(rows: Iterable[tuple[Any, ...]]) -> list[tuple[UUID, Document]]:
    """Returns the documents of these events with their orders' ids. Left out are those that were announced before the
    first event, and those that were never stamped and whose invoice was cancelled.
    """
    invoices: dict[UUID, Invoices] = {}
    cancelled: set[UUID] = set()
    for stream_id, topic, data in rows:
        event: Any = msgspec.json.decode(data, type=TOPICS[topic])
        invoices[stream_id] = evolve_invoices(invoices.get(stream_id), event)
        if isinstance(event, DocumentCancelled):
            cancelled.add(event.document_id)
    return [
        (order_id, document)
        for order_id, each in invoices.items()
        for document in each.documents
        if document.stamp is not None or _invoice_of(document) not in cancelled
    ]


def _invoice_of(document: Document) -> UUID | None:
    """Returns the id of the invoice that a document belongs to, None for the order's own."""
    terms = document.terms
    return terms.supplements if isinstance(terms, InvoiceTerms) else terms.invoice_id


def _state(document: Document) -> str:
    return "CANCELLED" if document.is_cancelled else str(document.status)


def _tax(documents: Iterable[Document], kind: str, *, withheld: bool) -> Decimal:
    taxes = (tax for each in documents for tax in each.terms.taxes if tax.type == kind and tax.withheld is withheld)
    return _major(sum((tax.amount for tax in taxes), ZERO))


def _major(amount: Decimal) -> Decimal:
    return amount / _CENTS
