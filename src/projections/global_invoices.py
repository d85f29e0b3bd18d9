"""A global invoice: its document, its rows, pages of them, and the orders that one may state.

A page and its total are read by one statement, so that both show the same snapshot.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from functools import cache, partial
from typing import Annotated, Any, Final
from uuid import UUID

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from ledger.domain.invoices.global_invoices.periods import days_of
from ledger.domain.money import ZERO, shortest
from ledger.domain.orders.global_invoices.state import GlobalInvoice
from ledger.domain.orders.invoices.terms import IEPS, ISR, IVA, InvoiceTerms, Periodicity
from ledger.journal.inline import InlineTable, Row
from projections.binary import micros
from projections.formats import Amount, Currency, Moment, encode, moment
from projections.lists.cursor import Cursor
from projections.lists.paging import Pagination, cursor_behind, page_parameters, paginated
from projections.orders.invoices import CancellationDocument, cancellation_document

_WRITE: Final = """
insert into global_invoice (merchant_id, global_invoice_id, version, status, issued_at, created_at, total, iva, ieps,
                            iva_withheld, isr_withheld, doc)
select merchant_id, global_invoice_id, version, status, issued_at, created_at, total, iva, ieps, iva_withheld,
       isr_withheld, doc from {rows}
on conflict (merchant_id, global_invoice_id) do update set
  version = excluded.version, status = excluded.status, issued_at = excluded.issued_at, doc = excluded.doc
"""

# Which orders a global invoice states. They are written with its announcement, and again with their release.
_WRITE_ORDERS: Final = """
insert into global_invoice_order (merchant_id, order_id, global_invoice_id, included_at, is_stated)
select merchant_id, order_id, global_invoice_id, included_at, is_stated from {rows}
on conflict (merchant_id, order_id, global_invoice_id) do update set is_stated = excluded.is_stated
"""

TABLE: Final = InlineTable(
    "global_invoice",
    (
        ("merchant_id", "uuid"),
        ("global_invoice_id", "uuid"),
        ("version", "int4"),
        ("status", "text"),
        ("issued_at", "timestamptz"),
        ("created_at", "timestamptz"),
        ("total", "int8"),
        ("iva", "int8"),
        ("ieps", "int8"),
        ("iva_withheld", "int8"),
        ("isr_withheld", "int8"),
        ("doc", "bytea"),
    ),
    _WRITE,
    is_rare=True,
)
ORDERS: Final = InlineTable(
    "global_invoice_order",
    (
        ("merchant_id", "uuid"),
        ("order_id", "uuid"),
        ("global_invoice_id", "uuid"),
        ("included_at", "timestamptz"),
        ("is_stated", "int4"),
    ),
    _WRITE_ORDERS,
    is_rare=True,
)

_BEYOND: Final = "and (created_at, global_invoice_id) < (%(after_at)s, %(after_id)s)"

# One page, newest first, and the number of global invoices on all pages.
_PAGE: Final = """
with counted as (select count(*) as total from global_invoice where merchant_id = %(merchant_id)s)
select t.total, p.created_at, p.global_invoice_id, p.doc
  from counted t left join lateral (
    select created_at, global_invoice_id, doc from global_invoice where merchant_id = %(merchant_id)s {beyond}
     order by created_at desc, global_invoice_id desc offset %(offset)s limit %(limit)s) p on true
 order by p.created_at desc, p.global_invoice_id desc
"""

# Orders that may have been paid in a period and are not invoiced: the order itself decides. A split order that was
# paid in full and refunded in part is PARTIALLY_PAID again.
_CANDIDATES: Final = """
select created_at, order_id from payment_order o
 where merchant_id = %(merchant_id)s and created_at >= %(since)s and created_at < %(end)s {beyond}
   and updated_at >= %(begin)s and currency = 'MXN' and status in ('COMPLETED', 'PARTIALLY_REFUNDED', 'PARTIALLY_PAID')
   and (head = ''::bytea or position(convert_to('"invoiceType":null', 'UTF8') in head) > 0)
   and not exists (select from global_invoice_order g
                    where g.merchant_id = o.merchant_id and g.order_id = o.order_id and g.is_stated = 1)
 order by created_at, order_id limit %(limit)s
"""
_AFTER: Final = "and (created_at, order_id) > (%(after_at)s, %(after_id)s)"

# Some of the global invoices without an outcome: a request asks the provider about each, one after another.
_PENDING: Final = """
select global_invoice_id from global_invoice where merchant_id = %(merchant_id)s and status = 'PENDING' limit 3
"""

# The global invoices of a time, by their state, with the sums of their amounts.
_OF_MONTH: Final = """
select status, count(*), sum(total)::int8, sum(iva)::int8, sum(ieps)::int8, sum(iva_withheld)::int8,
       sum(isr_withheld)::int8
  from global_invoice where merchant_id = %(merchant_id)s and issued_at >= %(begin)s and issued_at < %(end)s
 group by status order by status
"""

# What orders received or gave back in a time, after a global invoice had stated them: by the versions of the orders,
# because the machines that date events differ.
_MOVEMENTS: Final = """
select e.topic, o.order_id, o.global_invoice_id, e.data from global_invoice_order o
  join event e on e.merchant_id = o.merchant_id and e.stream_id = o.order_id
 where o.merchant_id = %(merchant_id)s and o.is_stated = 1 and o.included_at >= %(since)s and o.included_at < %(until)s
   and e.topic = any(%(topics)s) and e.recorded_at >= %(begin)s and e.recorded_at < %(end)s
   and e.version > (select max(i.version) from event i
                     where i.merchant_id = e.merchant_id and i.stream_id = e.stream_id and i.topic = %(inclusion)s)
 order by o.order_id, e.version limit %(limit)s
"""

CANDIDATES_AT_ONCE: Final = 500
MOVEMENTS_MAX: Final = 1000
"""How many movements of stated orders one report lists."""
_OLDEST: Final = timedelta(days=400)
"""How long before its payment an order may have been created, and before a movement its global invoice."""
_SKEW: Final = timedelta(days=1)
"""How far the clock of a machine may be ahead that dates a global invoice."""
_INCLUSION: Final = "included-in-global-invoice.v1"


class GlobalInvoiceStatus(StrEnum):
    """The progress of a global invoice."""

    PENDING = "PENDING"
    EMITTED = "EMITTED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


class GlobalInvoiceDocument(Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """One document to the public in general for the orders without fiscal data of a period."""

    id: Annotated[UUID, Meta(description="The service's id of the global invoice.")]
    month: Annotated[str, Meta(description="The month of the period, or the first of two.", examples=["2026-10"])]
    periodicity: Annotated[Periodicity, Meta(description="How long the period is.")]
    first_day: Annotated[str, Meta(description="The first day of the period.", examples=["2026-10-01"])]
    last_day: Annotated[str, Meta(description="The last day of the period.", examples=["2026-10-31"])]
    status: Annotated[
        GlobalInvoiceStatus,
        Meta(
            description="PENDING, EMITTED, FAILED (refused) or CANCELLED. The orders of the last two are free again, "
            "unless a substitute states them."
        ),
    ]
    series: Annotated[str, Meta(description="The document's series.")]
    folio: Annotated[str, Meta(description="The document's folio.", examples=["G1"])]
    currency: Currency
    total: Annotated[
        Amount,
        Meta(
            description="What the orders held: captured less refunded, lost disputes included, in minor units (cents)."
        ),
    ]
    order_count: Annotated[int, Meta(description="How many orders it states.")]
    fiscal_uuid: Annotated[UUID | None, Meta(description="SAT's id of the stamped document.")]
    fiscal_invoice_id: Annotated[str | None, Meta(description="The stamping provider's id of the document.")]
    failure_code: Annotated[str | None, Meta(description="The provider's code of its refusal.")]
    failure_reason: Annotated[str | None, Meta(description="The provider's own words of its refusal.")]
    issued_at: Moment
    created_at: Moment
    updated_at: Moment
    cancellation: Annotated[
        CancellationDocument | UnsetType, Meta(description="Its latest cancellation. Absent without one.")
    ] = UNSET


class GlobalInvoicePage(Struct, rename="camel"):
    """A page of the merchant's global invoices, the newest first."""

    data: Annotated[list[GlobalInvoiceDocument], Meta(description="The global invoices.")]
    pagination: Pagination


class GlobalInvoiceQuery(Struct, frozen=True, kw_only=True):
    """One page of a list. With a cursor, it continues after it."""

    limit: int = 20
    offset: int = 0
    cursor: Cursor | None = None


class MovementType(StrEnum):
    """What an order did with money after a global invoice had stated it."""

    PAYMENT = "PAYMENT"
    REFUND = "REFUND"
    CHARGEBACK = "CHARGEBACK"
    REFUND_REVERSED = "REFUND_REVERSED"


class GlobalMovement(Struct, frozen=True, kw_only=True, rename="camel"):
    """Money of an order after a global invoice stated it: `amount` in minor units, with surcharge."""

    type: MovementType
    order_id: UUID
    global_invoice_id: UUID
    amount: Decimal


MOVEMENT_COLUMNS: Final = GlobalMovement.__struct_encode_fields__

_encode: Final = msgspec.json.Encoder().encode
_TYPES: Final[Mapping[str, MovementType]] = {
    "payment-captured.v1": MovementType.PAYMENT,
    "late-capture-reported.v1": MovementType.PAYMENT,
    "deposit-received.v1": MovementType.PAYMENT,
    "payment-refunded.v1": MovementType.REFUND,
    "late-refund-reported.v1": MovementType.REFUND,
    "dispute-lost.v1": MovementType.CHARGEBACK,
    "refund-reversed.v1": MovementType.REFUND_REVERSED,
}


class _Moved(Struct):
    """What the events of all movements have."""

    amount: Decimal


_decode_moved: Final = msgspec.json.Decoder(_Moved).decode


def document_of(invoice: GlobalInvoice) -> GlobalInvoiceDocument:
    """Returns a global invoice as it is answered."""
    terms, stamp, failure = invoice.terms, invoice.stamp, invoice.failure
    assert terms.period is not None, "a global invoice has a period"
    first, after = days_of(terms.period)
    return GlobalInvoiceDocument(
        id=invoice.global_invoice_id,
        month=f"{first:%Y-%m}",
        periodicity=terms.period.periodicity,
        first_day=first.isoformat(),
        last_day=(after - timedelta(days=1)).isoformat(),
        status=_status(invoice),
        series=terms.series,
        folio=terms.folio,
        currency=terms.currency,
        total=shortest(terms.total),
        order_count=len(invoice.orders),
        fiscal_uuid=None if stamp is None else stamp.fiscal_uuid,
        fiscal_invoice_id=None if stamp is None else stamp.invoice_id,
        failure_code=None if failure is None else failure.code,
        failure_reason=None if failure is None else failure.message,
        issued_at=moment(terms.issued_at),
        created_at=moment(invoice.created_at),
        updated_at=moment(invoice.updated_at),
        cancellation=cancellation_document(invoice.cancellation) or UNSET,
    )


def row(merchant_id: UUID, version: int, invoice: GlobalInvoice) -> Row:
    """Returns the global invoice's row at a version of its stream."""
    terms = invoice.terms
    return (
        merchant_id.bytes,
        invoice.global_invoice_id.bytes,
        version,
        _status(invoice).encode(),
        micros(terms.issued_at),
        micros(invoice.created_at),
        int(terms.total),
        _tax(terms, IVA, withheld=False),
        _tax(terms, IEPS, withheld=False),
        _tax(terms, IVA, withheld=True),
        _tax(terms, ISR, withheld=True),
        encode(document_of(invoice)),
    )


def order_rows(merchant_id: UUID, before: GlobalInvoice | None, after: GlobalInvoice) -> Sequence[Row]:
    """Returns the rows of the orders of a global invoice, if they are new or have been released."""
    is_stated = not after.has_released_orders
    if before is not None and is_stated:
        return ()
    included_at = micros(after.created_at)
    return [
        (merchant_id.bytes, each.order_id.bytes, after.global_invoice_id.bytes, included_at, int(is_stated))
        for each in after.orders
    ]


def page_statement(merchant_id: UUID, query: GlobalInvoiceQuery) -> tuple[str, dict[str, Any]]:
    """Returns the statement for a page and its parameters."""
    return _page(query.cursor is not None), page_parameters(merchant_id, query)


def page_body(query: GlobalInvoiceQuery, rows: Sequence[tuple[Any, ...]]) -> bytes:
    """Returns the JSON of a page from the rows of its statement."""
    shown, pagination = paginated(query, rows, partial(cursor_behind, query))
    documents: list[Any] = [Raw(document) for _, _, _, document in shown]
    return _encode(GlobalInvoicePage(data=documents, pagination=pagination))


def candidates_statement(
    merchant_id: UUID, begin: datetime, end: datetime, last: tuple[datetime, UUID] | None
) -> tuple[str, Mapping[str, Any]]:
    """Returns the query of the next orders that a global invoice of a time may state, after the last one."""
    after_at, after_id = (None, None) if last is None else last
    parameters = {
        "merchant_id": merchant_id,
        "since": begin - _OLDEST,
        "begin": begin,
        "end": end,
        "after_at": after_at,
        "after_id": after_id,
        "limit": CANDIDATES_AT_ONCE,
    }
    return _candidates(last is not None), parameters


def pending_statement(merchant_id: UUID) -> tuple[str, Mapping[str, Any]]:
    """Returns the query of the global invoices without an outcome."""
    return _PENDING, {"merchant_id": merchant_id}


def month_statement(merchant_id: UUID, begin: datetime, end: datetime) -> tuple[str, Mapping[str, Any]]:
    """Returns the query of the global invoices issued in a time: their state, number, total and taxes."""
    return _OF_MONTH, {"merchant_id": merchant_id, "begin": begin, "end": end}


def movements_statement(merchant_id: UUID, begin: datetime, end: datetime) -> tuple[str, Mapping[str, Any]]:
    """Returns the query of a time's movements of stated orders: one more than `MOVEMENTS_MAX` if there are more."""
    since = begin - _OLDEST
    return _MOVEMENTS, {
        "topics": list(_TYPES),
        "inclusion": _INCLUSION,
        "merchant_id": merchant_id,
        "since": since,
        "until": end + _SKEW,
        "begin": begin,
        "end": end,
        "limit": MOVEMENTS_MAX + 1,
    }


def movements_of(rows: Sequence[tuple[Any, ...]]) -> list[GlobalMovement]:
    """Returns the movements from the rows of their statement. A lost dispute of money that had gone back is none."""
    moved = ((*row, _decode_moved(data).amount) for *row, data in rows)
    return [
        GlobalMovement(type=_TYPES[topic], order_id=order_id, global_invoice_id=invoice_id, amount=amount)
        for topic, order_id, invoice_id, amount in moved
        if amount
    ]


@cache
def _page(has_cursor: bool) -> str:
    return _PAGE.format(beyond=_BEYOND if has_cursor else "")


@cache
def _candidates(has_last: bool) -> str:
    return _CANDIDATES.format(beyond=_AFTER if has_last else "")


def _status(invoice: GlobalInvoice) -> GlobalInvoiceStatus:
    return GlobalInvoiceStatus.CANCELLED if invoice.is_cancelled else GlobalInvoiceStatus(invoice.status)


def _tax(terms: InvoiceTerms, kind: str, *, withheld: bool) -> int:
    return int(sum((tax.amount for tax in terms.taxes if tax.type == kind and tax.withheld is withheld), ZERO))
