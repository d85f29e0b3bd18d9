"""POST /v1/webhook-endpoints/{id}/rotate-secret: gives a webhook endpoint another secret."""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta, Struct

from api.decoding.bodies import BodyDecoder
from api.http.dependencies import Dependencies
from api.http.endpoint import WEBHOOKS, ScopedOperation
from api.http.request import ApiRequest
from api.openapi.parameters import IDEMPOTENCY_KEY
from api.operation import ANY, BODY, IDEMPOTENT, OperationSpec, codes_of
from api.operation import WEBHOOKS as TAG
from api.response import ApiResponse
from api.webhooks.documents import endpoint_response
from api.webhooks.fields import ENDPOINT_ID, endpoint_reference
from ledger.operations.webhooks.rotate import rotate_secret
from projections.webhook_endpoints import EndpointDocument


class RotateSecret(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The request for another secret. Without a body, the one before signs along for 24 hours."""

    expire_now: Annotated[
        bool | None, Meta(description="true if no earlier secret signs along, because one is known to others.")
    ] = None


_decode: Final = BodyDecoder(RotateSecret)


async def rotate(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """POST /v1/webhook-endpoints/{id}/rotate-secret: 200 with the endpoint and its new secret."""
    body = await request.optional_body(deps.body_limit)
    sent, errors = _decode.gather(body)
    errors.refuse()
    reference = endpoint_reference(request)
    key = request.idempotency_key(deps.fingerprint_key, body)
    result = await rotate_secret(deps.ledger, request.actor, reference, expire_now=bool(sent.expire_now), key=key)
    return await endpoint_response(deps, request, 200, result, result.secret)


ROTATE_SECRET: Final = ScopedOperation(
    rotate,
    WEBHOOKS,
    OperationSpec(
        name="rotateWebhookSecret",
        summary="Rotate the secret of a webhook endpoint",
        description="""
Gives the endpoint another secret, which the answer alone has. For 24 hours its messages have a signature by each of the
two, so that no message is refused while the receiver is given the new one; of more rotations in a day, the last four
secrets sign along. With `expireNow`, messages are signed by the new one alone. Needs no body.
""",
        parameters=(ENDPOINT_ID, IDEMPOTENCY_KEY),
        takes=RotateSecret,
        optional=True,
        examples={"atOnce": {"summary": "No earlier secret signs along", "value": {"expireNow": True}}},
        answers={200: ("The endpoint with its new secret.", EndpointDocument)},
        codes=codes_of(ANY, BODY, IDEMPOTENT, {404: ("WEBHOOK_ENDPOINT_NOT_FOUND",)}),
        tag=TAG,
        replays=True,
    ),
)
