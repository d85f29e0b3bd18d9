"""POST /v1/webhook-endpoints/{id}/test: posts a sample to a webhook endpoint."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Final

from msgspec import Meta, Struct

from api.decoding.bodies import BodyDecoder
from api.errors import invalid
from api.fields.event_kinds import hint_at_kind
from api.http.dependencies import Dependencies
from api.http.endpoint import WEBHOOKS, ScopedOperation
from api.http.request import ApiRequest
from api.operation import ANY, BODY, OperationSpec, codes_of
from api.operation import WEBHOOKS as TAG
from api.response import ApiResponse, json_response
from api.webhooks.fields import ENDPOINT_ID, endpoint_reference
from ledger.domain.public_events.kinds import KIND_OF
from ledger.operations.webhooks.test import post_sample


class TestEndpoint(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The request to post a sample."""

    type: Annotated[
        Annotated[str, Meta(extra_json_schema={"enum": list(KIND_OF)})] | None,
        Meta(description="The kind of the sample. Absent: the first one that the endpoint gets."),
    ] = None


class AttemptDocument(Struct, frozen=True, kw_only=True, rename="camel"):
    """How an attempt to post a message ended."""

    delivered: Annotated[bool, Meta(description="Whether the receiver accepted it: it answered 200 to 299.")]
    response_status: Annotated[int | None, Meta(description="The status of the receiver's answer, if there was one.")]
    duration_ms: Annotated[int, Meta(description="How long the attempt took, in milliseconds.")]
    error: Annotated[str | None, Meta(description="What was wrong, for people; null if it was accepted.")]


_decode: Final = BodyDecoder(TestEndpoint)


async def test(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """POST /v1/webhook-endpoints/{id}/test: 200 with how the attempt ended, whatever the receiver did."""
    sent, errors = _decode.gather(await request.optional_body(deps.body_limit))
    kind = None if sent.type is None else KIND_OF.get(sent.type)
    if sent.type is not None and kind is None and not errors.has("type"):
        hint = hint_at_kind(sent.type, KIND_OF)
        errors.add(invalid("type", f"must be a kind of events, such as payment.captured{hint}"))
    errors.refuse()
    reference, merchant_id = endpoint_reference(request), request.principal.merchant_id
    deps.limiter.admit_webhook_test(merchant_id)
    render = partial(deps.samples.render, merchant_id)
    attempt = await post_sample(deps.ledger, request.actor, reference, kind, render)
    return json_response(
        200,
        AttemptDocument(
            delivered=attempt.is_delivered,
            response_status=attempt.response_status,
            duration_ms=attempt.duration_ms,
            error=attempt.error,
        ),
    )


TEST_ENDPOINT: Final = ScopedOperation(
    test,
    WEBHOOKS,
    OperationSpec(
        name="testWebhookEndpoint",
        summary="Test a webhook endpoint",
        description="""
Posts a sample once, in the form and with the signatures of every message, and answers how that ended. Its body has
`"test": true` and the `sequence` null: a receiver accepts it without any effect. It is no delivery, and whether it is
accepted changes nothing of the endpoint. An attempt takes up to 15 seconds. Needs no body.
""",
        parameters=(ENDPOINT_ID,),
        takes=TestEndpoint,
        optional=True,
        examples={"captured": {"summary": "A payment", "value": {"type": "payment.captured"}}},
        answers={200: ("How the attempt ended.", AttemptDocument)},
        codes=codes_of(ANY, BODY, {404: ("WEBHOOK_ENDPOINT_NOT_FOUND",), 409: ("WEBHOOK_ENDPOINT_DISABLED",)}),
        tag=TAG,
    ),
)
