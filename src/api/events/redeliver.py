"""POST /v1/events/{id}/redeliver: delivers one event to webhook endpoints again."""

from __future__ import annotations

from typing import Annotated, Final
from uuid import UUID

from msgspec import Meta, Struct

from api import operation
from api.decoding.bodies import BodyDecoder
from api.errors import invalid
from api.http.dependencies import Dependencies
from api.http.endpoint import WEBHOOKS, ScopedOperation
from api.http.request import ApiRequest
from api.openapi.parameters import EVENT_ID
from api.operation import ANY, BODY, OperationSpec, codes_of
from api.response import ApiResponse, json_response
from ledger.domain.ids import parse_uuid
from ledger.domain.public_events.kinds import Kind, matches
from ledger.domain.rejections import EventNotFound
from ledger.domain.webhooks.terms import EndpointStatus
from ledger.operations.webhooks.endpoint import find_enabled


class RedeliverEvent(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The request to deliver an event again."""

    endpoint_id: Annotated[
        Annotated[str, Meta(extra_json_schema={"format": "uuid"})] | None,
        Meta(description="The endpoint. Absent: every enabled endpoint that gets events of this kind."),
    ] = None


class RedeliveryDocument(Struct, frozen=True, kw_only=True, rename="camel"):
    """Where an event is delivered again."""

    event_id: Annotated[UUID, Meta(description="The event.")]
    endpoint_ids: Annotated[list[UUID], Meta(description="The endpoints.")]


_decode: Final = BodyDecoder(RedeliverEvent)


async def redeliver(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """POST /v1/events/{id}/redeliver: 202 with the endpoints."""
    sent, errors = _decode.gather(await request.optional_body(deps.body_limit))
    if sent.endpoint_id is not None and parse_uuid(sent.endpoint_id) is None:
        errors.add(invalid("endpointId", "must be a UUID", "INVALID_FORMAT"))
    errors.refuse()
    text = request.path_id("id")
    event_id = None if text is None else parse_uuid(text)
    kind = None if event_id is None else await _kind(deps, request.principal.merchant_id, event_id)
    if event_id is None or kind is None:
        raise EventNotFound("The merchant has no event with this id.")
    if sent.endpoint_id is None:
        endpoints = await _endpoints_of(deps, request.principal.merchant_id, kind)
    else:
        endpoints = [(await find_enabled(deps.ledger, request.actor, sent.endpoint_id)).endpoint_id]
    await deps.repeats.redeliver(request.principal.merchant_id, event_id, endpoints)
    return json_response(202, RedeliveryDocument(event_id=event_id, endpoint_ids=endpoints))


async def _kind(deps: Dependencies, merchant_id: UUID, event_id: UUID) -> Kind | None:
    """Returns the kind of an event, after the feed has caught up if it is none of those that are numbered."""
    found = await deps.events.named(merchant_id, [event_id])
    if not found:
        await deps.feed.catch_up(merchant_id)
        found = await deps.events.named(merchant_id, [event_id])
    return None if event_id not in found else found[event_id].kind


async def _endpoints_of(deps: Dependencies, merchant_id: UUID, kind: Kind) -> list[UUID]:
    """Returns the merchant's enabled endpoints that get events of this kind."""
    found = [each.endpoint for each in await deps.queries.webhook_endpoints(merchant_id)]
    return [
        endpoint.endpoint_id
        for endpoint in found
        if endpoint.status is EndpointStatus.ENABLED
        and (endpoint.terms.events is None or any(matches(pattern, kind) for pattern in endpoint.terms.events))
    ]


REDELIVER_EVENT: Final = ScopedOperation(
    redeliver,
    WEBHOOKS,
    OperationSpec(
        name="redeliverEvent",
        summary="Deliver an event again",
        description="""
Delivers the event to one endpoint again, or to every enabled one that gets events of its kind, with the same id and the
same bytes, after the new events. If it waits to be delivered again already, nothing changes. Needs no body.
""",
        parameters=(EVENT_ID,),
        takes=RedeliverEvent,
        optional=True,
        examples={
            "one": {"summary": "To one endpoint", "value": {"endpointId": "0190a1b2-7c3d-7e4f-8a5b-6c7d8e9f0a1b"}}
        },
        answers={202: ("Where it is delivered again.", RedeliveryDocument)},
        codes=codes_of(
            ANY,
            BODY,
            {
                404: ("EVENT_NOT_FOUND", "WEBHOOK_ENDPOINT_NOT_FOUND"),
                409: ("WEBHOOK_ENDPOINT_DISABLED",),
                503: ("FEED_BEHIND",),
            },
        ),
        tag=operation.WEBHOOKS,
    ),
)
