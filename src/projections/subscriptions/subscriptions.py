"""A subscription: its document, its row, and pages of subscriptions.

Read the plan with the subscription, never from its row: a subscription shows its plan as it is now.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import cache
from typing import Annotated, Any, Final, Literal
from uuid import UUID

import msgspec
from msgspec import Meta, Raw, Struct

from ledger.domain.ids import parse_uuid
from ledger.domain.money import plain
from ledger.domain.subscriptions.events import InvoiceLine
from ledger.domain.subscriptions.state import Invoice, Subscription
from ledger.journal.inline import InlineTable, Row
from ledger.postgres.arrays import ENCODE_ARRAY
from projections.binary import micros, text
from projections.formats import Moment, moment, moment_or_null
from projections.lists.cursor import Cursor
from projections.lists.paging import Pagination, cursor_behind, page_parameters, paginated
from projections.subscriptions.plans import PlanSummaryDocument, summary_in

SubscriptionStatusName = Literal["TRIALING", "ACTIVE", "PAST_DUE", "CANCELED", "UNPAID"]

# Writes the subscription's row as it is after the commit. Its customer and its ids never change.
_WRITE: Final = """
insert into subscription
  (merchant_id, subscription_id, version, external_id, customer_id, plan_id, status, created_at, doc, metadata)
select merchant_id, subscription_id, version, external_id, customer_id, plan_id, status, created_at, doc, metadata
  from {rows}
on conflict (merchant_id, subscription_id) do update set
  version = excluded.version, plan_id = excluded.plan_id, status = excluded.status, doc = excluded.doc,
  metadata = excluded.metadata
"""

TABLE: Final = InlineTable(
    "subscription",
    (
        ("merchant_id", "uuid"),
        ("subscription_id", "uuid"),
        ("version", "int4"),
        ("external_id", "text"),
        ("customer_id", "uuid"),
        ("plan_id", "uuid"),
        ("status", "text"),
        ("created_at", "timestamptz"),
        ("doc", "bytea"),
        ("metadata", "bytea"),
    ),
    _WRITE,
    is_rare=True,
)

# The documents of subscriptions by service id, else by external id, with their plans. Each row begins with the number
# of the key that it answers.
FIND: Final = """
select q.n, s.doc, s.metadata, p.summary
  from unnest(%s::int4[], %s::uuid[], %s::uuid[], %s::text[]) as q(n, merchant_id, subscription_id, reference)
  left join lateral (
    select doc, metadata, plan_id from subscription
     where merchant_id = q.merchant_id and subscription_id = q.subscription_id limit 1) own on true
  left join lateral (
    select doc, metadata, plan_id from subscription
     where own.doc is null and merchant_id = q.merchant_id and external_id = q.reference limit 1) named on true
 cross join lateral (
    select coalesce(own.doc, named.doc) as doc, coalesce(own.metadata, named.metadata) as metadata,
           coalesce(own.plan_id, named.plan_id) as plan_id) s
  join lateral (
    select summary from plan where merchant_id = q.merchant_id and plan_id = s.plan_id limit 1) p on true
"""

_CUSTOMERS: Final = "and customer_id = any(%(customers)s::uuid[])"
_PLANS: Final = "and plan_id = any(%(plans)s::uuid[])"
_STATUSES: Final = "and status = any(%(statuses)s::text[])"
_BEYOND: Final = "and (created_at, subscription_id) < (%(after_at)s, %(after_id)s)"

# One page, newest first, and the number of subscriptions on all pages.
_PAGE: Final = """
with counted as (select count(*) as total from subscription where merchant_id = %(merchant_id)s {filters})
select t.total, s.created_at, s.subscription_id, s.doc, s.metadata, p.summary
  from counted t left join lateral (
    select created_at, subscription_id, plan_id, doc, metadata from subscription
     where merchant_id = %(merchant_id)s {filters} {beyond}
     order by created_at desc, subscription_id desc offset %(offset)s limit %(limit)s) s on true
  left join lateral (
    select summary from plan where merchant_id = %(merchant_id)s and plan_id = s.plan_id limit 1) p on true
 order by s.created_at desc, s.subscription_id desc
"""


class PendingLineDocument(Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """A line that waits for a subscription's next invoice."""

    description: Annotated[str, Meta(description="What is charged or credited.")]
    amount: Annotated[
        str, Meta(description="In minor units of the plan's currency; negative for a credit.", examples=["-12967"])
    ]
    period_start: Annotated[
        Moment | None, Meta(description="The start of the time that the line settles; null for a rest of an invoice.")
    ]
    period_end: Annotated[Moment | None, Meta(description="The end of it.")]


class MissedInvoiceDocument(Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """A draft of a period that began while the subscription was UNPAID."""

    id: Annotated[UUID, Meta(description="The service's id of the invoice.")]
    number: Annotated[str, Meta(description="The invoice's number, for people.")]
    amount: Annotated[str, Meta(description="In minor units of the plan's currency.", examples=["38900"])]
    period_start: Annotated[Moment, Meta(description="The start of the time that the invoice is for.")]
    period_end: Annotated[Moment, Meta(description="The end of it.")]


class _OwnDocument(Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    id: Annotated[UUID, Meta(description="The service's id of the subscription.")]
    merchant_id: Annotated[UUID, Meta(description="The merchant.")]
    external_id: Annotated[str | None, Meta(description="The merchant's id of the subscription.")]
    customer_id: Annotated[UUID, Meta(description="The service's id of the customer who pays.")]
    plan_id: Annotated[UUID, Meta(description="The plan.")]
    payment_method_id: Annotated[UUID, Meta(description="The saved card that is charged.")]
    status: Annotated[SubscriptionStatusName, Meta(description="The status.")]
    current_period_start: Annotated[Moment, Meta(description="The start of the current period, or of the trial.")]
    current_period_end: Annotated[Moment, Meta(description="The end of it, and the start of the next period.")]
    cancel_at_period_end: Annotated[bool, Meta(description="Whether it ends with the current period.")]
    next_billing_date: Annotated[
        Moment | None, Meta(description="When the next charge is due, or the next retry; null where none will be.")
    ]
    pending_lines: Annotated[
        tuple[PendingLineDocument, ...],
        Meta(description="The lines that the next invoice takes over: of changes of plan, and of credit. At most 100."),
    ]
    missed_invoices: Annotated[
        tuple[MissedInvoiceDocument, ...],
        Meta(
            description="The drafts of periods that it missed while it was UNPAID: `retry` with `all: true` charges "
            "them, and nothing else does."
        ),
    ]
    trial_start: Annotated[Moment | None, Meta(description="The start of the trial; null for none.")]
    trial_end: Annotated[Moment | None, Meta(description="The end of the trial, when the first charge is due.")]
    canceled_at: Annotated[Moment | None, Meta(description="When it was cancelled, also at the end of its period.")]
    ended_at: Annotated[Moment | None, Meta(description="When it ended.")]
    created_at: Moment
    updated_at: Moment


class SubscriptionDocument(_OwnDocument, frozen=True, kw_only=True, rename="camel", gc=False):
    """A customer who is charged for a plan, period by period."""

    metadata: Annotated[
        Annotated[Raw, Meta(extra_json_schema={"type": "object"})] | None,
        Meta(description="JSON object, as the merchant sent it; null once the customer is erased."),
    ]
    plan: PlanSummaryDocument


class SubscriptionPage(Struct, rename="camel"):
    """A page of the merchant's subscriptions, the newest first."""

    data: Annotated[list[SubscriptionDocument], Meta(description="The subscriptions.")]
    pagination: Pagination


class SubscriptionQuery(Struct, frozen=True, kw_only=True):
    """The filters of a list, and one page of it. No status means all; with a cursor, the page continues after it.

    `customer` and `plan` are service ids or external ids. `as_of` asks for the list of a time; None is the present.
    """

    customer: str | None = None
    plan: str | None = None
    statuses: tuple[str, ...] = ()
    limit: int = 20
    offset: int = 0
    cursor: Cursor | None = None
    as_of: datetime | None = None


_encode: Final = msgspec.json.Encoder().encode


def render_subscription(merchant_id: UUID, subscription: Subscription) -> bytes:
    """Returns the JSON object of a subscription that has started, without its metadata and its plan."""
    assert subscription.status is not None, "a subscription is shown once it has started"
    return _encode(
        _OwnDocument(
            id=subscription.subscription_id,
            merchant_id=merchant_id,
            external_id=subscription.external_id,
            customer_id=subscription.customer_id,
            plan_id=subscription.plan_id,
            payment_method_id=subscription.payment_method_id,
            status=subscription.status.value,
            current_period_start=moment(subscription.current_period_start),
            current_period_end=moment(subscription.current_period_end),
            cancel_at_period_end=subscription.cancel_at_period_end,
            next_billing_date=moment_or_null(subscription.next_billing_at),
            pending_lines=tuple(_pending(line) for line in subscription.carried),
            missed_invoices=tuple(_missed(invoice) for invoice in subscription.drafts),
            trial_start=moment_or_null(subscription.trial_start),
            trial_end=moment_or_null(subscription.trial_end),
            canceled_at=moment_or_null(subscription.canceled_at),
            ended_at=moment_or_null(subscription.ended_at),
            created_at=moment(subscription.created_at),
            updated_at=moment(subscription.updated_at),
        )
    )


def _pending(line: InvoiceLine) -> PendingLineDocument:
    return PendingLineDocument(
        description=line.description,
        amount=plain(line.amount),
        period_start=moment_or_null(line.period_start),
        period_end=moment_or_null(line.period_end),
    )


def _missed(invoice: Invoice) -> MissedInvoiceDocument:
    return MissedInvoiceDocument(
        id=invoice.invoice_id,
        number=invoice.number,
        amount=plain(invoice.amount),
        period_start=moment(invoice.period_start),
        period_end=moment(invoice.period_end),
    )


def whole(document: bytes, metadata: bytes | Raw | None, summary: bytes) -> bytes:
    """Returns the JSON object of a subscription from the stored one, its metadata, and what it shows of its plan."""
    return b'%b,"metadata":%b,"plan":%b}' % (document[:-1], metadata or b"null", summary)


class _Identified(Struct):
    id: UUID


_identified: Final = msgspec.json.Decoder(_Identified).decode


def subscription_id_in(document: bytes) -> UUID:
    """Returns the id of the subscription of a document."""
    return _identified(document).id


def answer(merchant_id: UUID, subscription: Subscription, plan: bytes) -> bytes:
    """Returns the JSON object of a subscription, `plan` being the document of its plan."""
    return whole(render_subscription(merchant_id, subscription), subscription.metadata, summary_in(plan))


def row(merchant_id: UUID, version: int, subscription: Subscription) -> Row:
    """Returns the row of a subscription that has started, at a version of its stream."""
    assert subscription.status is not None, "a subscription is shown once it has started"
    return (
        merchant_id.bytes,
        subscription.subscription_id.bytes,
        version,
        text(subscription.external_id),
        subscription.customer_id.bytes,
        subscription.plan_id.bytes,
        subscription.status.encode(),
        micros(subscription.created_at),
        render_subscription(merchant_id, subscription),
        None if subscription.metadata is None else bytes(subscription.metadata),
    )


def find_parameters(keys: Sequence[tuple[bytes, str]]) -> list[bytes]:
    """Returns the columns that FIND unnests, for keys of a merchant's id and a service id or external id."""
    ids = [parse_uuid(reference) for _, reference in keys]
    return [
        ENCODE_ARRAY["int4"](range(len(keys))),
        ENCODE_ARRAY["uuid"]([merchant_id for merchant_id, _ in keys]),
        ENCODE_ARRAY["uuid"]([None if one is None else one.bytes for one in ids]),
        ENCODE_ARRAY["text"]([reference.encode() for _, reference in keys]),
    ]


def found(row: Sequence[Any]) -> bytes:
    """Returns the subscription's document from a row of FIND."""
    _, document, metadata, summary = row
    return whole(document, metadata, summary)


def page_statement(
    merchant_id: UUID, query: SubscriptionQuery, customers: Sequence[UUID] | None, plans: Sequence[UUID] | None
) -> tuple[str, dict[str, Any]]:
    """Returns the statement for a page and its parameters. `customers` and `plans` are None without such a filter."""
    parameters = page_parameters(merchant_id, query) | {
        "customers": customers,
        "plans": plans,
        "statuses": list(query.statuses),
    }
    filters = (customers is not None, plans is not None, bool(query.statuses))
    return _statement(filters, query.cursor is not None), parameters


@cache
def _statement(filters: tuple[bool, bool, bool], has_cursor: bool) -> str:
    used = [text for text, is_used in zip((_CUSTOMERS, _PLANS, _STATUSES), filters, strict=True) if is_used]
    return _PAGE.format(filters=" ".join(used), beyond=_BEYOND if has_cursor else "")


def page_body(query: SubscriptionQuery, rows: Sequence[tuple[Any, ...]]) -> bytes:
    """Returns the JSON of a page from the rows of its statement."""
    shown, pagination = paginated(query, rows, lambda row, behind: cursor_behind(query, row, behind, as_of=query.as_of))
    documents: list[Any] = [Raw(whole(*stored)) for _, _, _, *stored in shown]
    return _encode(SubscriptionPage(data=documents, pagination=pagination))
