"""POST /v1/webhook-endpoints/{id}/replay: delivers events to a webhook endpoint again."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta, Struct

from api.decoding.bodies import BodyDecoder
from api.errors import invalid, required
from api.http.dependencies import Dependencies
from api.http.endpoint import WEBHOOKS, ScopedOperation
from api.http.request import ApiRequest
from api.operation import ANY, BODY, OperationSpec, codes_of
from api.operation import WEBHOOKS as TAG
from api.response import ApiResponse, json_response
from api.webhooks.fields import ENDPOINT_ID, endpoint_reference
from ledger.domain.public_events.kinds import kinds_of
from ledger.operations.context.repeats import Replay
from ledger.operations.webhooks.endpoint import find_enabled, webhooks_of

_SEQUENCE_MAX: Final = 2**53 - 1  # what every JSON parser holds exactly
_Sequence = Annotated[int, Meta(ge=1, le=_SEQUENCE_MAX)]


class ReplayEvents(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The request to deliver events again."""

    from_sequence: Annotated[_Sequence | None, Meta(description="Required. The number of the first event.")] = None
    to_sequence: Annotated[
        _Sequence | None,
        Meta(description="The number of the last event. Absent: the endpoint's `lastSequence`."),
    ] = None
    failed_only: Annotated[
        bool | None, Meta(description="Whether only events are delivered whose last delivery has FAILED.")
    ] = None


class ReplayDocument(Struct, frozen=True, kw_only=True, rename="camel"):
    """What is delivered again."""

    from_sequence: Annotated[int, Meta(description="The number from which on events are delivered again.")]
    to_sequence: Annotated[
        int, Meta(description="The number up to which they are: one replay has 10,000 events at most.")
    ]
    events: Annotated[int, Meta(description="How many events that is.")]


_decode: Final = BodyDecoder(ReplayEvents)


async def replay(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """POST /v1/webhook-endpoints/{id}/replay: 202 with what is delivered again."""
    sent, errors = _decode.gather(await request.body(deps.body_limit))
    first, last = sent.from_sequence, sent.to_sequence
    if first is None and not errors.has("fromSequence"):
        errors.add(required("fromSequence"))
    if first is not None and last is not None and first > last:
        errors.add(invalid("fromSequence", f"is {first}, above toSequence, {last}"))
    errors.refuse()
    assert first is not None, "it is required"
    endpoint = await find_enabled(deps.ledger, request.actor, endpoint_reference(request))
    patterns = endpoint.terms.events
    merchant_id = request.principal.merchant_id
    await deps.feed.catch_up(merchant_id)  # the past of a merchant without a feed has no numbers yet
    # Where an endpoint begins, if no worker has looked at it yet.
    reached = await webhooks_of(deps.ledger).last_sequence(merchant_id, endpoint.endpoint_id)
    asked = Replay(
        from_sequence=first,
        to_sequence=reached if last is None else min(last, reached),
        failed_only=bool(sent.failed_only),
        kinds=None if patterns is None else kinds_of(patterns),
    )
    done = await deps.repeats.replay(merchant_id, endpoint.endpoint_id, asked)
    document = ReplayDocument(from_sequence=done.from_sequence, to_sequence=done.to_sequence, events=done.events)
    return json_response(202, document)


REPLAY: Final = ScopedOperation(
    replay,
    WEBHOOKS,
    OperationSpec(
        name="replayWebhookEvents",
        summary="Deliver events again",
        description="""
Delivers events to the endpoint again, each with the same id and the same bytes, after the new events. Of the endpoint's
`events`, those with numbers of the range, up to its `lastSequence`: what follows is delivered anyway. Events of before
its creation, and those that it skipped, are among them. One replay has 10,000 events at most; `toSequence` of the
answer is how far it goes. While one is in progress, a further one is 409 `REPLAY_IN_PROGRESS`.
""",
        parameters=(ENDPOINT_ID,),
        takes=ReplayEvents,
        examples={"failed": {"summary": "What failed", "value": {"fromSequence": 1, "failedOnly": True}}},
        answers={202: ("What is delivered again.", ReplayDocument)},
        codes=codes_of(
            ANY,
            BODY,
            {
                404: ("WEBHOOK_ENDPOINT_NOT_FOUND",),
                409: ("WEBHOOK_ENDPOINT_DISABLED", "REPLAY_IN_PROGRESS"),
                503: ("FEED_BEHIND",),
            },
        ),
        tag=TAG,
    ),
)
