"""The deliveries to merchants' webhook endpoints, which the worker writes: pages of them, and what is counted."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Final, Literal
from uuid import UUID

import msgspec
from msgspec import Meta, Struct

from projections.formats import Moment, moment

# A page of an endpoint's deliveries, newest first: one row more than the page holds, each with the person whom
# receivers' answers may repeat.
PAGE: Final = """
select d.id, d.event_id, d.kind, d.sequence, d.status, d.next_attempt_at, d.attempts::text, d.customer_id
  from webhook_delivery d
 where d.merchant_id = %(merchant_id)s and d.endpoint_id = %(endpoint_id)s
   and (%(before)s::uuid is null or d.id < %(before)s::uuid)
   and (%(status)s::text is null or d.status = %(status)s::text)
   and (%(kinds)s::text[] is null or d.kind = any(%(kinds)s::text[])) {of_stream}
 order by d.id desc limit %(limit)s
"""
_OF_STREAM: Final = "and d.stream_id = %(stream_id)s::uuid"

# Those of these persons who were erased: receivers' answers are left out then.
ERASED: Final = """
select customer_id from data_key
 where merchant_id = %(merchant_id)s and customer_id = any(%(customers)s) and destroyed_at is not null
"""

# The endpoints of all merchants by status.
BY_STATUS: Final = "select status, count(*) from webhook_endpoint where status <> 'DELETED' group by status"

# How many events wait for the enabled endpoints of all merchants: those behind a cursor, and deliveries that have a
# row. Since when the oldest waits, in real time. What is on Citus' coordinator is read before it is joined.
WAITING: Final = """
with c as materialized (select merchant_id, endpoint_id, sequence from webhook_cursor where sequence is not null),
d as materialized (
  select merchant_id, endpoint_id, count(*) as number, min(recorded_at) as since from webhook_delivery
   where status = 'PENDING' group by merchant_id, endpoint_id)
select coalesce(sum(number), 0)::int8, min(since) from (
  select f.sequence - c.sequence as number, s.recorded_at as since
    from webhook_endpoint e
    join c on c.merchant_id = e.merchant_id and c.endpoint_id = e.endpoint_id
    join event_feed f on f.merchant_id = e.merchant_id
    left join lateral (
      select v.recorded_at from public_event p
        join event v on v.merchant_id = p.merchant_id and v.position = p.position
       where p.merchant_id = e.merchant_id and p.sequence > c.sequence order by p.sequence limit 1) s on true
   where e.status = 'ENABLED' and c.sequence < f.sequence
  union all
  select d.number, d.since
    from webhook_endpoint e join d on d.merchant_id = e.merchant_id and d.endpoint_id = e.endpoint_id
   where e.status = 'ENABLED') w
"""


class DeliveryQuery(Struct, frozen=True, kw_only=True):
    """A page of an endpoint's deliveries: those before the delivery `before`, with a status, of kinds of events."""

    limit: int
    status: str | None = None
    kinds: frozenset[str] | None = None
    before: UUID | None = None


class DeliveryAttemptDocument(Struct, frozen=True, kw_only=True, rename="camel"):
    """An attempt to deliver an event."""

    at: Annotated[Moment, Meta(description="When it ended, by the merchant's clock.")]
    duration_ms: Annotated[int, Meta(description="How long it took, in milliseconds.")]
    response_status: Annotated[
        int | None, Meta(description="The status of the receiver's answer, if there was one.")
    ] = None
    response_body: Annotated[
        str | None, Meta(description="The first 1,024 bytes of the answer; null after an erasure.")
    ] = None
    error: Annotated[str | None, Meta(description="What was wrong, for people; null if it was accepted.")] = None


class DeliveryDocument(Struct, frozen=True, kw_only=True, rename="camel"):
    """The delivery of an event to an endpoint."""

    id: Annotated[UUID, Meta(description="The service's id of the delivery.")]
    event_id: Annotated[UUID, Meta(description="The event.")]
    type: Annotated[str, Meta(description="The kind of the event.", examples=["payment.captured"])]
    sequence: Annotated[int, Meta(description="The number of the event.")]
    status: Annotated[
        Literal["PENDING", "SUCCEEDED", "FAILED", "SKIPPED"],
        Meta(
            description="FAILED: ten attempts were not accepted. SKIPPED: the endpoint gets no events of the kind any more."
        ),
    ]
    next_attempt_at: Annotated[
        Moment | None, Meta(description="When the next attempt is due, by the merchant's clock.")
    ]
    attempts: Annotated[list[DeliveryAttemptDocument], Meta(description="The attempts, oldest first.")]


class DeliveryPagination(Struct, frozen=True, kw_only=True, rename="camel"):
    """The position of a page in the deliveries."""

    limit: Annotated[int, Meta(description="The greatest number of deliveries on a page.")]
    count: Annotated[int, Meta(description="The number of deliveries on this page.")]
    has_more: Annotated[bool, Meta(description="Whether there is another page.")]
    next_cursor: Annotated[str | None, Meta(description="Send it as cursor to read the next page.")]


class DeliveryPage(Struct, frozen=True, kw_only=True):
    """A page of deliveries."""

    data: Annotated[list[DeliveryDocument], Meta(description="The deliveries, newest first.")]
    pagination: Annotated[DeliveryPagination, Meta(description="The position of the page.")]


class _StoredAttempt(Struct, frozen=True, kw_only=True, rename="camel"):
    """An attempt as the worker stores it."""

    at: datetime
    duration_ms: int
    response_status: int | None = None
    response_body: str | None = None
    error: str | None = None


_decode: Final = msgspec.json.Decoder(list[_StoredAttempt]).decode


def page_statement(
    merchant_id: UUID, endpoint_id: UUID, query: DeliveryQuery, stream_id: UUID | None
) -> tuple[str, dict[str, Any]]:
    """Returns the statement of a page, of one stream unless that is None, and its parameters."""
    values = {
        "merchant_id": merchant_id,
        "endpoint_id": endpoint_id,
        "before": query.before,
        "status": query.status,
        "kinds": None if query.kinds is None else sorted(query.kinds),
        "stream_id": stream_id,
        "limit": query.limit + 1,
    }
    return PAGE.format(of_stream="" if stream_id is None else _OF_STREAM), values


def delivery_page(rows: Sequence[tuple[Any, ...]], limit: int) -> DeliveryPage:
    """Returns a page from the rows of its statement."""
    documents = [_document(row) for row in rows[:limit]]
    has_more = len(rows) > limit
    cursor = str(documents[-1].id) if has_more else None
    pagination = DeliveryPagination(limit=limit, count=len(documents), has_more=has_more, next_cursor=cursor)
    return DeliveryPage(data=documents, pagination=pagination)


def _document(row: Sequence[Any]) -> DeliveryDocument:
    delivery_id, event_id, kind, sequence, status, next_at, attempts, is_erased = row
    tried = [
        DeliveryAttemptDocument(
            at=moment(each.at),
            duration_ms=each.duration_ms,
            response_status=each.response_status,
            response_body=None if is_erased else each.response_body,
            error=each.error,
        )
        for each in _decode(attempts)
    ]
    return DeliveryDocument(
        id=delivery_id,
        event_id=event_id,
        type=kind,
        sequence=sequence,
        status=status,
        next_attempt_at=None if next_at is None else moment(next_at),
        attempts=tried,
    )
