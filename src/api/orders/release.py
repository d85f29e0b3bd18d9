"""POST /v2/payment-orders/{id}/release: ends the hold on what a partial capture has left."""

from __future__ import annotations

from typing import Annotated, Final
from uuid import UUID

from msgspec import Meta, Struct

from api.decoding.bodies import BodyDecoder
from api.http.dependencies import Dependencies
from api.http.endpoint import WRITE, ScopedOperation
from api.http.request import ApiRequest
from api.openapi.parameters import IDEMPOTENCY_KEY, ORDER_ID
from api.operation import ANY, BODY, KEYED, OperationSpec, codes_of
from api.orders.responses import order_json
from api.response import REPLAYED, ApiResponse
from ledger.operations.context.inputs import ReleaseInput
from ledger.operations.orders.release import release_rest
from projections.orders.documents import OrderDocument


class ReleasePaymentOrder(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The request to release what a partial capture has left of an authorisation."""

    payment_id: Annotated[
        UUID | None, Meta(description="The payment. Absent: the newest one with a rest that is still held.")
    ] = None


_decode: Final = BodyDecoder(ReleasePaymentOrder)


def parse_release(body: bytes) -> ReleaseInput:
    """Returns the release that a body asks for. Raises ApiError (400), with every wrong field."""
    sent, errors = _decode.gather(body)
    errors.refuse()
    return ReleaseInput(payment_id=sent.payment_id)


async def release(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """POST /v2/payment-orders/{id}/release: 200 with the order, released or waiting for the processor to confirm."""
    body = await request.optional_body(deps.body_limit)
    parsed = parse_release(body)
    reference = request.order_reference()
    key = request.idempotency_key(deps.fingerprint_key, body)
    result = await release_rest(deps.ledger, request.actor, reference, parsed, key)
    return ApiResponse(200, order_json(result, deps, request), REPLAYED if result.replayed or result.repeated else ())


RELEASE: Final = ScopedOperation(
    release,
    WRITE,
    OperationSpec(
        name="releasePaymentOrder",
        summary="Release the rest of an authorisation",
        description="""
Ends the hold on what a partial capture has left: the payer's bank has that money back, and nothing more can be captured
of it. `amountReleased` shows how much it was; amounts and status stay as they are, and reminders and references for the
rest end. Needs no body. Where nothing was captured, cancel instead. If the processor refuses, the order is answered
unchanged, with the refused RELEASE in `paymentEvents`.
""",
        parameters=(ORDER_ID, IDEMPOTENCY_KEY),
        takes=ReleasePaymentOrder,
        optional=True,
        examples={"rest": {"summary": "The rest of the newest capture", "value": {}}},
        answers={200: ("The order: released, or waiting for the processor to confirm.", OrderDocument)},
        codes=codes_of(ANY, BODY, KEYED, {404: ("PAYMENT_NOT_FOUND",), 409: ("INVALID_ORDER_STATE",)}),
        replays=True,
    ),
)
