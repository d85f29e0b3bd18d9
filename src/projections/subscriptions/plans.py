"""A plan: its document, its row, and pages of plans.

A page and its total are read by one statement, so that both show the same snapshot.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from typing import Annotated, Any, Final, Literal
from uuid import UUID

import msgspec
from msgspec import Meta, Raw, Struct

from ledger.domain.ids import parse_uuid
from ledger.domain.money import plain
from ledger.domain.orders.terms import Tax
from ledger.domain.plans.state import Plan
from ledger.journal.inline import InlineTable, Row
from ledger.postgres.arrays import ENCODE_ARRAY
from projections.binary import micros, text
from projections.formats import Currency, Moment, encode, moment
from projections.lists.cursor import Cursor
from projections.lists.paging import Pagination, cursor_behind, page_parameters, paginated

IntervalName = Literal["DAY", "WEEK", "HALF_MONTH", "MONTH", "YEAR"]
PlanStatusName = Literal["ACTIVE", "ARCHIVED"]
PlanAmount = Annotated[
    str,
    Meta(description="What one period costs: a decimal string in minor units (cents).", examples=["19900"]),
]

# Writes the plan's row as it is after the commit. Its ids and the time of its creation never change.
_WRITE: Final = """
insert into plan (merchant_id, plan_id, version, external_id, status, created_at, summary, doc)
select merchant_id, plan_id, version, external_id, status, created_at, summary, doc from {rows}
on conflict (merchant_id, plan_id) do update set
  version = excluded.version, status = excluded.status, summary = excluded.summary, doc = excluded.doc
"""

TABLE: Final = InlineTable(
    "plan",
    (
        ("merchant_id", "uuid"),
        ("plan_id", "uuid"),
        ("version", "int4"),
        ("external_id", "text"),
        ("status", "text"),
        ("created_at", "timestamptz"),
        ("summary", "bytea"),
        ("doc", "bytea"),
    ),
    _WRITE,
    is_rare=True,
)

# The documents of plans by service id, else by external id. Each row begins with the number of the key that it answers.
FIND: Final = """
select q.n, coalesce(own.doc, named.doc)
  from unnest(%s::int4[], %s::uuid[], %s::uuid[], %s::text[]) as q(n, merchant_id, plan_id, reference)
  left join lateral (
    select doc from plan where merchant_id = q.merchant_id and plan_id = q.plan_id limit 1) own on true
  left join lateral (
    select doc from plan
     where own.doc is null and merchant_id = q.merchant_id and external_id = q.reference limit 1) named on true
 where own.doc is not null or named.doc is not null
"""

_STATUS: Final = "and status = any(%(statuses)s::text[])"
_BEYOND: Final = "and (created_at, plan_id) < (%(after_at)s, %(after_id)s)"

# One page, newest first, and the number of plans on all pages.
_PAGE: Final = """
with counted as (select count(*) as total from plan where merchant_id = %(merchant_id)s {filters})
select t.total, p.created_at, p.plan_id, p.doc
  from counted t left join lateral (
    select created_at, plan_id, doc from plan where merchant_id = %(merchant_id)s {filters} {beyond}
     order by created_at desc, plan_id desc offset %(offset)s limit %(limit)s) p on true
 order by p.created_at desc, p.plan_id desc
"""


class PlanSummaryDocument(Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """The plan of a subscription."""

    id: Annotated[UUID, Meta(description="The service's id of the plan.")]
    name: Annotated[str, Meta(description="Name of the plan.")]
    amount: PlanAmount
    currency: Currency
    interval: Annotated[IntervalName, Meta(description="The unit of a period.")]
    interval_count: Annotated[int, Meta(description="The number of intervals in a period.")]


# Keep the order of the fields: `ledger restore` compares the stored rows with the log byte by byte, those of earlier
# releases too.
class PlanDocument(Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """A plan: what subscriptions to it are charged, how often, and what happens where a charge fails."""

    id: Annotated[UUID, Meta(description="The service's id of the plan: send it as planId.")]
    external_id: Annotated[str | None, Meta(description="The merchant's id of the plan.")]
    name: Annotated[str, Meta(description="Name of the plan.")]
    description: Annotated[str | None, Meta(description="Free text.")]
    amount: PlanAmount
    currency: Currency
    interval: Annotated[IntervalName, Meta(description="The unit of a period.")]
    interval_count: Annotated[int, Meta(description="The number of intervals in a period.")]
    trial_period_days: Annotated[int, Meta(description="The days before the first charge; 0 for no trial.")]
    expiry_count: Annotated[
        int | None, Meta(description="The number of periods after which a subscription ends; null for no end.")
    ]
    max_retries: Annotated[int, Meta(description="How often a charge that failed is tried again.")]
    retry_delay_hours: Annotated[int, Meta(description="The hours between two attempts.")]
    on_retries_exhausted: Annotated[
        Literal["UNPAID", "CANCEL"], Meta(description="What becomes of a subscription whose last retry failed.")
    ]
    product_key: Annotated[str | None, Meta(description="SAT c_ClaveProdServ of what is sold.")]
    unit_key: Annotated[str | None, Meta(description="SAT c_ClaveUnidad of what is sold.")]
    taxes: Annotated[
        tuple[Tax, ...] | None, Meta(description="The taxes that the amount contains; null for the usual.")
    ]
    status: Annotated[PlanStatusName, Meta(description="ARCHIVED for a plan that takes no new subscription.")]
    metadata: Annotated[
        Annotated[Raw, Meta(extra_json_schema={"type": "object"})] | None,
        Meta(description="JSON object, as the merchant sent it."),
    ]
    created_at: Moment
    updated_at: Moment


class PlanPage(Struct, rename="camel"):
    """A page of the merchant's plans, the newest first."""

    data: Annotated[list[PlanDocument], Meta(description="The plans.")]
    pagination: Pagination


class PlanQuery(Struct, frozen=True, kw_only=True):
    """The filter of a list, and one page of it. No status means all; with a cursor, the page continues after it."""

    statuses: tuple[str, ...] = ()
    limit: int = 20
    offset: int = 0
    cursor: Cursor | None = None


class _Identified(Struct):
    id: UUID


_encode: Final = msgspec.json.Encoder().encode
_decode_id: Final = msgspec.json.Decoder(_Identified).decode
_decode_summary: Final = msgspec.json.Decoder(PlanSummaryDocument).decode


def render_plan(plan: Plan) -> bytes:
    """Returns the plan's JSON object, as it is answered."""
    terms = plan.terms
    return encode(
        PlanDocument(
            id=plan.plan_id,
            external_id=plan.external_id,
            name=plan.name,
            description=plan.description,
            amount=plain(terms.amount),
            currency=terms.currency,
            interval=terms.interval.value,
            interval_count=terms.interval_count,
            trial_period_days=terms.trial_period_days,
            expiry_count=terms.expiry_count,
            max_retries=terms.max_retries,
            retry_delay_hours=terms.retry_delay_hours,
            on_retries_exhausted=terms.on_retries_exhausted.value,
            product_key=plan.product_key,
            unit_key=plan.unit_key,
            taxes=plan.taxes,
            status=plan.status.value,
            metadata=plan.metadata,
            created_at=moment(plan.created_at),
            updated_at=moment(plan.updated_at),
        )
    )


def render_summary(plan: Plan) -> bytes:
    """Returns the JSON object of the plan that a subscription contains."""
    terms = plan.terms
    return _encode(
        PlanSummaryDocument(
            id=plan.plan_id,
            name=plan.name,
            amount=plain(terms.amount),
            currency=terms.currency,
            interval=terms.interval.value,
            interval_count=terms.interval_count,
        )
    )


def row(merchant_id: UUID, version: int, plan: Plan) -> Row:
    """Returns the plan's row at a version of its stream."""
    return (
        merchant_id.bytes,
        plan.plan_id.bytes,
        version,
        text(plan.external_id),
        plan.status.encode(),
        micros(plan.created_at),
        render_summary(plan),
        render_plan(plan),
    )


def find_parameters(keys: Sequence[tuple[bytes, str]]) -> list[bytes]:
    """Returns the columns that FIND unnests, for keys of a merchant's id and a plan's service id or external id."""
    plan_ids = [parse_uuid(reference) for _, reference in keys]
    return [
        ENCODE_ARRAY["int4"](range(len(keys))),
        ENCODE_ARRAY["uuid"]([merchant_id for merchant_id, _ in keys]),
        ENCODE_ARRAY["uuid"]([None if plan_id is None else plan_id.bytes for plan_id in plan_ids]),
        ENCODE_ARRAY["text"]([reference.encode() for _, reference in keys]),
    ]


def found(row: Sequence[Any]) -> bytes:
    """Returns the plan's document from a row of FIND."""
    document: bytes = row[1]
    return document


def plan_id_in(document: bytes) -> UUID:
    """Returns the id of the plan with this document."""
    return _decode_id(document).id


def summary_in(document: bytes) -> bytes:
    """Returns the JSON object that a subscription shows of its plan, from the plan's own."""
    return _encode(_decode_summary(document))


def page_statement(merchant_id: UUID, query: PlanQuery) -> tuple[str, dict[str, Any]]:
    """Returns the statement for a page and its parameters."""
    parameters = page_parameters(merchant_id, query) | {"statuses": list(query.statuses)}
    return _statement(bool(query.statuses), query.cursor is not None), parameters


@cache
def _statement(has_statuses: bool, has_cursor: bool) -> str:
    return _PAGE.format(filters=_STATUS if has_statuses else "", beyond=_BEYOND if has_cursor else "")


def page_body(query: PlanQuery, rows: Sequence[tuple[Any, ...]]) -> bytes:
    """Returns the JSON of a page from the rows of its statement."""
    shown, pagination = paginated(query, rows, partial(cursor_behind, query))
    documents: list[Any] = [Raw(document) for _, _, _, document in shown]
    return _encode(PlanPage(data=documents, pagination=pagination))
