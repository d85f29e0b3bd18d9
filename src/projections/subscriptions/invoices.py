"""An invoice of a subscription: its document, its row, and pages of a subscription's invoices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import zip_longest
from typing import Annotated, Any, Final, Literal
from uuid import UUID

import msgspec
from msgspec import Meta, Raw, Struct

from ledger.domain.money import plain
from ledger.domain.subscriptions.state import Invoice, Subscription
from ledger.journal.inline import InlineTable, Row
from ledger.postgres.arrays import ENCODE_ARRAY
from projections.formats import Currency, Moment, moment, moment_or_null
from projections.lists.cursor import AnyCursor, CursorCodec, list_hash
from projections.lists.paging import Pagination, paginated

InvoiceAmount = Annotated[str, Meta(description="A decimal string in minor units (cents).", examples=["38900"])]

# Writes the invoices that changed as they are after the commit.
_WRITE: Final = """
insert into subscription_invoice (merchant_id, invoice_id, subscription_id, ordinal, doc)
select merchant_id, invoice_id, subscription_id, ordinal, doc from {rows}
on conflict (merchant_id, invoice_id) do update set doc = excluded.doc
"""

TABLE: Final = InlineTable(
    "subscription_invoice",
    (
        ("merchant_id", "uuid"),
        ("invoice_id", "uuid"),
        ("subscription_id", "uuid"),
        ("ordinal", "int4"),
        ("doc", "bytea"),
    ),
    _WRITE,
    is_rare=True,
)

# The documents of invoices by their ids. Each row begins with the number of the key that it answers.
FIND: Final = """
select q.n, i.doc
  from unnest(%s::int4[], %s::uuid[], %s::uuid[]) as q(n, merchant_id, invoice_id)
 cross join lateral (
   select doc from subscription_invoice where merchant_id = q.merchant_id and invoice_id = q.invoice_id limit 1) i
"""

# A page of a subscription's invoices, the newest first, and how many there are. With a cursor, the page begins behind
# it.
PAGE: Final = """
with counted as (
  select count(*) as total from subscription_invoice
   where merchant_id = %(merchant_id)s and subscription_id = %(subscription_id)s)
select t.total, i.ordinal, i.doc
  from counted t left join lateral (
    select ordinal, doc from subscription_invoice
     where merchant_id = %(merchant_id)s and subscription_id = %(subscription_id)s
       and (%(after)s::int4 is null or ordinal < %(after)s::int4)
     order by ordinal desc offset %(offset)s limit %(limit)s) i on true
 order by i.ordinal desc
"""


class InvoiceLineDocument(Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """A line of a subscription invoice."""

    description: Annotated[str, Meta(description="What is charged.")]
    quantity: Annotated[int, Meta(description="How many.")]
    unit_amount: Annotated[str, Meta(description="The price of one, in minor units; negative for a credit.")]
    amount: Annotated[str, Meta(description="The amount of the line, in minor units; negative for a credit.")]
    proration: Annotated[bool, Meta(description="True for the line of a change of plan within a period.")]


class SubscriptionInvoiceDocument(Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """What a subscription is charged for one period, or for a change of plan within a period."""

    id: Annotated[UUID, Meta(description="The service's id of the invoice.")]
    number: Annotated[str, Meta(description="The invoice's number, for people.")]
    subscription_id: Annotated[UUID, Meta(description="The subscription.")]
    customer_id: Annotated[UUID, Meta(description="The service's id of the customer.")]
    plan_id: Annotated[UUID, Meta(description="The plan of the invoice.")]
    payment_order_id: Annotated[
        UUID | None, Meta(description="The payment order that paid the invoice, else that of the latest attempt.")
    ]
    status: Annotated[
        Literal["DRAFT", "OPEN", "PAID", "UNCOLLECTIBLE", "VOID"],
        Meta(
            description="DRAFT is of a period that an UNPAID subscription missed, and is charged on request alone; OPEN "
            "is being collected; the others are final."
        ),
    ]
    amount: InvoiceAmount
    amount_refunded: Annotated[
        str,
        Meta(
            description="What went back of the order that paid, lost disputes included, in minor units.", examples=["0"]
        ),
    ]
    currency: Currency
    period_start: Annotated[Moment, Meta(description="The start of the time that the invoice is for.")]
    period_end: Annotated[Moment, Meta(description="The end of it.")]
    due_date: Annotated[Moment, Meta(description="When it was due.")]
    attempt_count: Annotated[int, Meta(description="How many charges were sent to the processor.")]
    next_attempt_at: Annotated[Moment | None, Meta(description="When the next retry is due; null for none.")]
    paid_at: Annotated[Moment | None, Meta(description="When it was paid.")]
    lines: Annotated[tuple[InvoiceLineDocument, ...], Meta(description="What the amount is the sum of.")]
    created_at: Moment
    updated_at: Moment


class InvoicePreviewDocument(Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """The next invoice of a subscription, if nothing changes until it is made."""

    subscription_id: Annotated[UUID, Meta(description="The subscription.")]
    customer_id: Annotated[UUID, Meta(description="The service's id of the customer.")]
    plan_id: Annotated[UUID, Meta(description="The plan of the invoice.")]
    amount: InvoiceAmount
    currency: Currency
    period_start: Annotated[Moment, Meta(description="The start of the time that the invoice is for.")]
    period_end: Annotated[Moment, Meta(description="The end of it.")]
    due_date: Annotated[Moment, Meta(description="When it will be made and due.")]
    lines: Annotated[tuple[InvoiceLineDocument, ...], Meta(description="What the amount is the sum of.")]


class SubscriptionInvoicePage(Struct, rename="camel"):
    """A page of a subscription's invoices, the newest first."""

    data: Annotated[list[SubscriptionInvoiceDocument], Meta(description="The invoices.")]
    pagination: Pagination


class InvoiceCursor(AnyCursor, frozen=True):
    """The end of a page: the ordinal of its last invoice, and the number of invoices up to and including that one."""

    ordinal: int
    behind: int


INVOICE_CURSORS: Final = CursorCodec(InvoiceCursor, ordinal="i", behind="I")


class InvoiceQuery(Struct, frozen=True, kw_only=True):
    """A page of a subscription's invoices. With a cursor the page continues after it, and `offset` is ignored."""

    limit: int = 20
    offset: int = 0
    cursor: InvoiceCursor | None = None


_encode: Final = msgspec.json.Encoder().encode


def render_invoice(subscription: Subscription, invoice: Invoice) -> bytes:
    """Returns the JSON object of an invoice of the subscription."""
    return _encode(
        SubscriptionInvoiceDocument(
            id=invoice.invoice_id,
            number=invoice.number,
            subscription_id=subscription.subscription_id,
            customer_id=subscription.customer_id,
            plan_id=invoice.plan_id,
            payment_order_id=invoice.payment_order_id,
            status=invoice.status.value,
            amount=plain(invoice.amount),
            amount_refunded=plain(invoice.amount_refunded),
            currency=invoice.currency,
            period_start=moment(invoice.period_start),
            period_end=moment(invoice.period_end),
            due_date=moment(invoice.due_at),
            attempt_count=invoice.attempt_count,
            next_attempt_at=moment_or_null(invoice.next_attempt_at),
            paid_at=moment_or_null(invoice.paid_at),
            lines=_lines(invoice),
            created_at=moment(invoice.created_at),
            updated_at=moment(invoice.updated_at),
        )
    )


def render_preview(subscription: Subscription, invoice: Invoice) -> bytes:
    """Returns the JSON object of an invoice that the subscription has not made yet."""
    return _encode(
        InvoicePreviewDocument(
            subscription_id=subscription.subscription_id,
            customer_id=subscription.customer_id,
            plan_id=invoice.plan_id,
            amount=plain(invoice.amount),
            currency=invoice.currency,
            period_start=moment(invoice.period_start),
            period_end=moment(invoice.period_end),
            due_date=moment(invoice.due_at),
            lines=_lines(invoice),
        )
    )


def _lines(invoice: Invoice) -> tuple[InvoiceLineDocument, ...]:
    return tuple(
        InvoiceLineDocument(
            description=line.description,
            quantity=line.quantity,
            unit_amount=plain(line.unit_amount),
            amount=plain(line.amount),
            proration=line.proration,
        )
        for line in invoice.lines
    )


def rows(merchant_id: UUID, before: Subscription | None, after: Subscription) -> list[Row]:
    """Returns the rows of the invoices that changed from `before`; all of them if it had not started yet."""
    known = before.invoices if before is not None and before.is_shown else ()
    changed = [one for one, old in zip_longest(after.invoices, known) if one is not None and one is not old]
    return [_row(merchant_id, after, invoice) for invoice in changed]


def _row(merchant_id: UUID, subscription: Subscription, invoice: Invoice) -> Row:
    return (
        merchant_id.bytes,
        invoice.invoice_id.bytes,
        subscription.subscription_id.bytes,
        invoice.ordinal,
        render_invoice(subscription, invoice),
    )


def find_parameters(keys: Sequence[tuple[bytes, bytes]]) -> list[bytes]:
    """Returns the columns that FIND unnests, for keys of a merchant's and an invoice's id, as bytes."""
    return [
        ENCODE_ARRAY["int4"](range(len(keys))),
        ENCODE_ARRAY["uuid"]([merchant_id for merchant_id, _ in keys]),
        ENCODE_ARRAY["uuid"]([invoice_id for _, invoice_id in keys]),
    ]


def found(row: Sequence[Any]) -> bytes:
    """Returns the invoice's document from a row of FIND."""
    document: bytes = row[1]
    return document


def page_parameters(merchant_id: UUID, subscription_id: UUID, query: InvoiceQuery) -> Mapping[str, Any]:
    """Returns the parameters of PAGE, which reads one invoice more than the page holds."""
    cursor = query.cursor
    return {
        "merchant_id": merchant_id,
        "subscription_id": subscription_id,
        "limit": query.limit + 1,
        "offset": query.offset if cursor is None else 0,
        "after": None if cursor is None else cursor.ordinal,
    }


def page_body(subscription_id: UUID, query: InvoiceQuery, rows: Sequence[tuple[Any, ...]]) -> bytes:
    """Returns the JSON of a page from the rows of PAGE."""
    shown, pagination = paginated(query, rows, partial(_cursor_behind, list_hash(query, subscription_id)))
    documents: list[Any] = [Raw(document) for _, _, document in shown]
    return _encode(SubscriptionInvoicePage(data=documents, pagination=pagination))


def _cursor_behind(of_list: bytes, row: tuple[Any, ...], behind: int) -> str:
    return INVOICE_CURSORS.encode(InvoiceCursor(row[1], behind, list_hash=of_list))
