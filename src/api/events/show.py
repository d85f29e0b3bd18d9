"""GET /v1/events/{id}: one public event."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from api import operation
from api.http.dependencies import Dependencies
from api.http.endpoint import EVENTS, ScopedOperation
from api.http.request import ApiRequest
from api.openapi.parameters import EVENT_ID
from api.operation import ANY, OperationSpec, codes_of
from api.response import ApiResponse
from ledger.domain.ids import parse_uuid
from ledger.domain.rejections import EventNotFound
from projections.events.bodies import EventDocument


async def show(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """GET /v1/events/{id}: the event, in the same bytes as in a page."""
    text = request.path_id("id")
    event_id = None if text is None else parse_uuid(text)
    body = None if event_id is None else await _body(deps, request.principal.merchant_id, event_id)
    if body is None:
        raise EventNotFound("The merchant has no event with this id.")
    return ApiResponse(200, body)


async def _body(deps: Dependencies, merchant_id: UUID, event_id: UUID) -> bytes | None:
    """Returns the event's body, after the feed has caught up if it is none of those that are numbered."""
    body = await deps.events.one(merchant_id, event_id)
    if body is None:
        await deps.feed.catch_up(merchant_id)
        body = await deps.events.one(merchant_id, event_id)
    return body


SHOW_EVENT: Final = ScopedOperation(
    show,
    EVENTS,
    OperationSpec(
        name="getEvent",
        summary="Get an event",
        description="The event, in the same bytes as in a page of events.",
        parameters=(EVENT_ID,),
        answers={200: ("The event.", EventDocument)},
        codes=codes_of(ANY, {404: ("EVENT_NOT_FOUND",), 503: ("FEED_BEHIND",)}),
        tag=operation.EVENTS,
    ),
)
