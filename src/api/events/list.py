"""GET /v1/events: the merchant's public events after a number, oldest first.

Let the feed catch up before it is read: a client that has the answer to a request finds in the next page what it did.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Final, get_args
from uuid import UUID

from msgspec import Struct
from msgspec.structs import replace

from api import operation
from api.decoding.query import described_parameters, parse_parameters, parse_text, parse_whole
from api.decoding.types import TEXT_MAX
from api.errors import conflicting, invalid
from api.fields.event_kinds import parse_kinds
from api.http.dependencies import Dependencies
from api.http.endpoint import EVENTS, ScopedOperation
from api.http.request import ApiRequest
from api.operation import ANY, Json, OperationSpec, codes_of
from api.response import ApiResponse
from ledger.domain.public_events.kinds import PATTERNS
from ledger.operations.context.event_feed import FeedBehind
from projections.events.bodies import EventPayload
from projections.events.feed import EventPage, RenderedPage
from projections.events.numbered import EventQuery
from projections.subscriptions.subscriptions import subscription_id_in

_SEQUENCE_MAX: Final = 2**53 - 1  # what every JSON parser holds exactly
_LIMIT_MAX, _LIMIT_DEFAULT = 1000, 100
_WAIT_MAX: Final = 25
_LOOK_AGAIN_S: Final = 0.2
_PAYLOADS: Final = get_args(EventPayload)

PARAMETERS: Final[Mapping[str, tuple[str, Json]]] = {
    "afterSequence": (
        "Events with a higher number than this. The `lastSequence` of the page before; 0 for the first one.",
        {"type": "integer", "minimum": 0, "maximum": _SEQUENCE_MAX, "default": 0},
    ),
    "type": (
        "One or more kinds, separated by commas; `payment_order.*` means all kinds that begin so.",
        {"type": "array", "items": {"type": "string", "enum": list(PATTERNS)}, "minItems": 1},
    ),
    "paymentOrderId": (
        "Events of this order with its payments and documents, by service id or external id.",
        {"type": "string", "minLength": 1, "maxLength": TEXT_MAX},
    ),
    "subscriptionId": (
        "Events of this subscription with its invoices, by service id or external id.",
        {"type": "string", "minLength": 1, "maxLength": TEXT_MAX},
    ),
    "payload": (
        "`FULL`, or `THIN` for events without `data`.",
        {"type": "string", "enum": list(_PAYLOADS), "default": "FULL"},
    ),
    "limit": (
        f"The number of events on a page, 1 to {_LIMIT_MAX}; default {_LIMIT_DEFAULT}.",
        {"type": "integer", "minimum": 1, "maximum": _LIMIT_MAX, "default": _LIMIT_DEFAULT},
    ),
    "wait": (
        "For how many seconds a request without an event to answer waits for one.",
        {"type": "integer", "minimum": 0, "maximum": _WAIT_MAX, "default": 0},
    ),
}


class _Asked(Struct, frozen=True):
    """What a query asks for: a page, of which order or subscription it is, and how long to wait."""

    query: EventQuery
    order: str | None
    subscription: str | None
    wait_s: int


def parse_event_query(query: bytes) -> _Asked:
    """Returns what a query string asks for. Raises ApiError (400), with every wrong parameter."""
    given, errors = parse_parameters(query, PARAMETERS, lists=("type",))
    after = errors.check(parse_whole, given, "afterSequence", 0, 0, _SEQUENCE_MAX)
    limit = errors.check(parse_whole, given, "limit", _LIMIT_DEFAULT, 1, _LIMIT_MAX)
    wait_s = errors.check(parse_whole, given, "wait", 0, 0, _WAIT_MAX)
    kinds = errors.check(parse_kinds, given)
    payload = errors.check(_payload, given)
    order, subscription = [errors.check(parse_text, given, name) for name in ("paymentOrderId", "subscriptionId")]
    if order is not None and subscription is not None:
        errors.add(conflicting("paymentOrderId", "subscriptionId", "cannot be sent together: an event is of one"))
    errors.refuse()
    page = EventQuery(after=after or 0, limit=limit or _LIMIT_DEFAULT, kinds=kinds or None, is_thin=payload == "THIN")
    return _Asked(page, order, subscription, wait_s or 0)


def _payload(given: Mapping[str, str]) -> str:
    text = given.get("payload", "FULL").upper()
    if text not in _PAYLOADS:
        raise invalid("payload", f"must be {' or '.join(_PAYLOADS)}")
    return text


async def list_events(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """GET /v1/events: a page of events; with `wait`, as soon as there is one."""
    asked = parse_event_query(request.query)
    merchant_id = request.principal.merchant_id
    head = await deps.queries.log_head(merchant_id)
    query = await _of_stream(deps, merchant_id, asked)
    page = await _page(deps, merchant_id, query)
    if page.is_empty and not page.has_more and asked.wait_s:
        page = await _awaited(deps, request, query, page, asked.wait_s, head)
    return ApiResponse(200, page.body)


async def _of_stream(deps: Dependencies, merchant_id: UUID, asked: _Asked) -> EventQuery:
    """Returns the query with the stream of the order or subscription that was asked for."""
    query = asked.query
    stream_id: UUID | None = None
    if asked.order is not None:
        row = await deps.queries.order(merchant_id, asked.order)
        stream_id = None if row is None else UUID(str(row.order_id))
    elif asked.subscription is not None:
        document = await deps.queries.subscription(merchant_id, asked.subscription)
        stream_id = None if document is None else subscription_id_in(document)
    else:
        return query
    return replace(query, stream_id=stream_id, matches_nothing=stream_id is None)


async def _page(deps: Dependencies, merchant_id: UUID, query: EventQuery) -> RenderedPage:
    """Returns the page after every event that the log holds now.

    If the log cannot be read to its end, what was numbered before is answered, and FeedBehind raised after it.
    """
    try:
        await deps.feed.catch_up(merchant_id)
    except FeedBehind as behind:
        page = await deps.events.page(merchant_id, query) if behind.is_readable else None
        if page is None or page.is_empty:
            raise
        return page
    return await deps.events.page(merchant_id, query)


async def _awaited(
    deps: Dependencies, request: ApiRequest, query: EventQuery, empty: RenderedPage, wait_s: int, head: int
) -> RenderedPage:
    """Returns the first page with an event, else an empty one when the time is over. `head` is where the log ended
    before the last look.
    """
    until_s = time.monotonic() + min(wait_s, deps.waiting.wait_max_s)
    page, merchant_id = empty, request.principal.merchant_id
    with deps.waiting.place(request.principal.key_id) as may_wait:
        while may_wait and page.is_empty and request.may_wait() and time.monotonic() < until_s:
            await asyncio.sleep(min(_LOOK_AGAIN_S, max(0.0, until_s - time.monotonic())))
            now_at = await deps.queries.log_head(merchant_id)
            if now_at > head:
                head, query = now_at, replace(query, after=page.last_sequence)
                page = await _page(deps, merchant_id, query)
    return page


LIST_EVENTS: Final = ScopedOperation(
    list_events,
    EVENTS,
    OperationSpec(
        name="listEvents",
        summary="List events",
        description="""
The merchant's public events after a number, oldest first: every change of an order, a payment, a document, a customer, a
plan, a product or a subscription. What an answered request did is in the next page. The numbers are 1, 2, 3 … for each
merchant and never change; the feed goes back to the merchant's first event.

The first request begins the numbering. For a merchant with a long past it is 503 `FEED_BEHIND` until the past is
numbered. With `wait`, a request that finds no event is answered as soon as there is one; five of a key wait at once in
each process of the service, and a further one is answered at once.
""",
        parameters=described_parameters(PARAMETERS),
        answers={200: ("A page of events.", EventPage)},
        codes=codes_of(ANY, {400: ("CONFLICTING_FIELDS",), 503: ("FEED_BEHIND",)}),
        tag=operation.EVENTS,
    ),
)
