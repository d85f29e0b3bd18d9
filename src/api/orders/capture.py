"""POST /v2/payment-orders/{id}/capture: captures authorised money."""

from __future__ import annotations

from typing import Annotated, Final
from uuid import UUID

from msgspec import UNSET, Meta, Struct, UnsetType

from api.decoding.bodies import BAD_INPUT_AS_400, BodyDecoder
from api.decoding.types import PositiveNumber
from api.fields.values import is_given, positive_amount, require_whole
from api.http.dependencies import Dependencies
from api.http.endpoint import WRITE, ScopedOperation
from api.http.request import ApiRequest
from api.openapi.parameters import IDEMPOTENCY_KEY, ORDER_ID
from api.operation import ANY, BODY, DECLINED, KEYED, OperationSpec, codes_of
from api.orders.responses import capture_refused_response, order_response
from api.response import ApiResponse
from ledger.operations.context.inputs import CaptureInput
from ledger.operations.orders.capture import capture_order
from projections.orders.documents import OrderDocument


class CapturePaymentOrder(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The request to capture an authorisation."""

    amount: Annotated[
        PositiveNumber | UnsetType,
        Meta(description="In minor units, surcharge included. Absent: all that is left of the authorisation."),
    ] = UNSET
    payment_id: Annotated[
        UUID | None, Meta(description="The payment to capture. Absent: the newest one that can be captured.")
    ] = None
    final: Annotated[
        bool | None,
        Meta(
            description="True releases the rest of the authorisation in the same call; default false. A processor whose "
            "capture releases the rest always does so."
        ),
    ] = None


_decode: Final = BodyDecoder(CapturePaymentOrder)


def parse_capture(body: bytes) -> CaptureInput:
    """Returns the capture that a body asks for. Raises ApiError (400), with every wrong field."""
    sent, errors = _decode.gather(body)
    with BAD_INPUT_AS_400:
        amount = errors.check(positive_amount, sent.amount, "amount") if is_given(sent.amount) else None
    errors.refuse()
    return CaptureInput(amount=amount, payment_id=sent.payment_id, final=bool(sent.final))


async def capture(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """POST /v2/payment-orders/{id}/capture: 200, or 422 if the processor refused."""
    body = await request.optional_body(deps.body_limit)
    parsed = parse_capture(body)
    require_whole(request.principal.settings, ("amount", parsed.amount))
    reference = request.order_reference()
    key = request.idempotency_key(deps.fingerprint_key, body)
    result = await capture_order(deps.ledger, request.actor, reference, parsed, key)
    return capture_refused_response(result, deps, request) or order_response(result, 200, deps, request)


CAPTURE: Final = ScopedOperation(
    capture,
    WRITE,
    OperationSpec(
        name="capturePaymentOrder",
        summary="Capture an authorisation",
        description="""
Captures the authorised money of an order with `captureMethod: MANUAL`: all that is left of the authorisation or a part
of it, surcharge included. With `final` a part ends the hold on the rest: see `amountReleased`. Needs no body. Where the processor refuses the capture, the answer is 422 with the decline
code, and the payment stays authorised; a payment with `captureMethod: AUTOMATIC` fails.
""",
        parameters=(ORDER_ID, IDEMPOTENCY_KEY),
        takes=CapturePaymentOrder,
        optional=True,
        examples={
            "all": {"summary": "All that is left", "value": {}},
            "part": {"summary": "A part", "value": {"amount": 50000}},
            "final": {"summary": "A part, and nothing more", "value": {"amount": 50000, "final": True}},
        },
        answers={200: ("The order with the payment.", OrderDocument)},
        codes=codes_of(
            ANY,
            BODY,
            KEYED,
            DECLINED,
            {
                404: ("PAYMENT_NOT_FOUND",),
                409: ("INVALID_ORDER_STATE", "PROCESSOR_ACCOUNT_KEYS_ERASED"),
                422: ("CAPTURE_EXCEEDS_AUTHORIZED", "AMOUNT_EXCEEDS_PENDING", "AMOUNT_NOT_CHARGEABLE"),
            },
        ),
        replays=True,
    ),
)
