"""A month's electronic invoices for the accountant: the documents per kind and state with their sums, from the log.

The events are folded by the orders' own fold, so that the report and the orders agree. A document belongs to the month
of its date of issue in the merchant's time zone; its state is the present one.
"""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from html import escape
from typing import Any, Final
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec
from msgspec import Struct

from ledger.domain.money import ZERO
from ledger.domain.orders.invoices.events import TOPICS
from ledger.domain.orders.invoices.evolve import evolve_invoices
from ledger.domain.orders.invoices.state import Document, Invoices
from ledger.domain.orders.invoices.terms import IEPS, ISR, IVA, InvoiceTerms, ReceiptTerms
from ledger.postgres.connection import Connection

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


class MonthLine(Struct, frozen=True, kw_only=True, rename="camel"):
    """The documents of one kind, state and currency. Amounts in major units of the currency.

    `kind` is INVOICE_PUE, INVOICE_PPD, REP or CREDIT_NOTE; `state` is PENDING, EMITTED, FAILED or CANCELLED. `total` of
    a REP is what it pays of its invoice.
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


async def month_lines(connection: Connection, merchant_id: UUID, year: int, month: int, zone: str) -> list[MonthLine]:
    """Returns the lines of a month, in the order of kind, state and currency."""
    statement, parameters = month_statement(merchant_id, year, month, zone)
    cursor = await connection.execute(statement.encode(), parameters, binary=True)
    return lines_of(await cursor.fetchall(), year, month, zone)


def month_statement(merchant_id: UUID, year: int, month: int, zone: str) -> tuple[str, Mapping[str, Any]]:
    """Returns the query of a month's events with its parameters."""
    begin, end = _bounds(year, month, zone)
    return _READ, {"merchant_id": merchant_id, "begin": begin - _MARGIN, "end": end + _MARGIN}


def lines_of(rows: Iterable[tuple[Any, ...]], year: int, month: int, zone: str) -> list[MonthLine]:
    """Returns the lines of a month from the rows of its query. It takes long: call it in a thread."""
    begin, end = _bounds(year, month, zone)
    return summed(each for each in _folded(rows) if begin <= each.terms.issued_at < end)


def _bounds(year: int, month: int, zone: str) -> tuple[datetime, datetime]:
    local = ZoneInfo(zone)
    begin = datetime(year, month, 1, tzinfo=local)
    return begin.astimezone(UTC), datetime(year + month // 12, month % 12 + 1, 1, tzinfo=local).astimezone(UTC)


def summed(documents: Iterable[Document]) -> list[MonthLine]:
    """Returns the lines of these documents."""
    groups: dict[tuple[str, str, str], list[Document]] = defaultdict(list)
    for document in documents:
        groups[_kind(document), _state(document), document.terms.currency].append(document)
    return [
        MonthLine(
            kind=kind,
            state=state,
            currency=currency,
            documents=len(group),
            total=_major(sum((_total(each) for each in group), ZERO)),
            iva=_tax(group, IVA, withheld=False),
            ieps=_tax(group, IEPS, withheld=False),
            iva_withheld=_tax(group, IVA, withheld=True),
            isr_withheld=_tax(group, ISR, withheld=True),
        )
        for (kind, state, currency), group in sorted(groups.items())
    ]


def as_csv(lines: Sequence[MonthLine]) -> str:
    """Returns the lines as CSV (RFC 4180), with a heading."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(COLUMNS)
    writer.writerows(cells(line) for line in lines)
    return text.getvalue()


def as_page(lines: Sequence[MonthLine], title: str) -> str:
    """Returns the lines as a page of HTML, for a browser or a printer."""
    heading = "".join(f"<th>{escape(name)}</th>" for name in COLUMNS)
    rows = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in cells(line)) + "</tr>\n" for line in lines)
    return _PAGE.format(title=escape(title), heading=heading, rows=rows)


def cells(line: MonthLine) -> list[str]:
    """Returns the texts of a line, amounts with two decimals."""
    values = msgspec.structs.astuple(line)
    return [f"{value:.2f}" if isinstance(value, Decimal) else str(value) for value in values]


_PAGE: Final = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>{title}</title>
<style>
body {{ font: 14px/1.5 system-ui, sans-serif; margin: 2rem; color: #1c2129; }}
table {{ border-collapse: collapse; }}
th {{ background: #174e61; color: #fff; }}
th, td {{ padding: .35rem .8rem; text-align: left; border-bottom: 1px solid #d6dde2; }}
th:nth-child(n+4), td:nth-child(n+4) {{ text-align: right; font-variant-numeric: tabular-nums; }}
</style>
</head>
<body>
<h1>{title}</h1>
<table>
<thead><tr>{heading}</tr></thead>
<tbody>
{rows}</tbody>
</table>
</body>
</html>
"""


def _folded(rows: Iterable[tuple[Any, ...]]) -> list[Document]:
    """Returns the documents of these events. Those that were announced before the first event are left out."""
    invoices: dict[UUID, Invoices] = {}
    for stream_id, topic, data in rows:
        event: Any = msgspec.json.decode(data, type=TOPICS[topic])
        invoices[stream_id] = evolve_invoices(invoices.get(stream_id), event)
    return [document for each in invoices.values() for document in each.documents]


def _kind(document: Document) -> str:
    match document.terms:
        case InvoiceTerms() as terms:
            return f"INVOICE_{terms.payment_method}"
        case ReceiptTerms():
            return "REP"
        case _:
            return "CREDIT_NOTE"


def _state(document: Document) -> str:
    return "CANCELLED" if document.is_cancelled else str(document.status)


def _total(document: Document) -> Decimal:
    return document.terms.applied_amount if isinstance(document.terms, ReceiptTerms) else document.terms.total


def _tax(documents: Iterable[Document], kind: str, *, withheld: bool) -> Decimal:
    taxes = (tax for each in documents for tax in each.terms.taxes if tax.type == kind and tax.withheld is withheld)
    return _major(sum((tax.amount for tax in taxes), ZERO))


def _major(amount: Decimal) -> Decimal:
    return amount / _CENTS
