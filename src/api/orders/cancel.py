"""POST /v2/payment-orders/{id}/cancel: cancels an order, or one payment of a split order."""

from __future__ import annotations

from typing import Annotated, Final
from uuid import UUID

from msgspec import Meta, Struct

from api.decoding.bodies import BAD_INPUT_AS_400, BodyDecoder
from api.decoding.field_errors import FieldErrors
from api.decoding.stored_text import check_texts
from api.decoding.types import Id
from api.errors import conflicting
from api.http.dependencies import Dependencies
from api.http.endpoint import WRITE, ScopedOperation
from api.http.request import ApiRequest
from api.openapi.parameters import IDEMPOTENCY_KEY, ORDER_ID
from api.operation import ANY, BODY, KEYED, OperationSpec, codes_of
from api.orders.responses import order_json
from api.response import REPLAYED, ApiResponse
from ledger.operations.context.inputs import CancelInput
from ledger.operations.orders.cancel import cancel_order
from projections.orders.documents import OrderDocument


class CancelPaymentOrder(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The request to cancel an order that is not paid, or one payment of a split order."""

    reason: Annotated[Id | None, Meta(description="The reason, in the merchant's words.")] = None
    refund_captured: Annotated[
        bool | None, Meta(description="True refunds the money that the order holds; default false.")
    ] = None
    payment_id: Annotated[
        UUID | None,
        Meta(
            description="The one payment of a split order to cancel; the order stays open. Cannot be combined with the "
            "other fields."
        ),
    ] = None


_decode: Final = BodyDecoder(CancelPaymentOrder)


def parse_cancel(body: bytes) -> CancelInput:
    """Returns the cancellation that a body asks for. Raises ApiError (400), with every wrong field."""
    sent, errors = _decode.gather(body)
    with BAD_INPUT_AS_400:
        if sent.payment_id is not None:
            _require_alone(sent, errors)
        check_texts(sent, body, errors)
    errors.refuse()
    return CancelInput(reason=sent.reason, refund_captured=bool(sent.refund_captured), payment_id=sent.payment_id)


def _require_alone(sent: CancelPaymentOrder, errors: FieldErrors) -> None:
    """Adds an error for each field about the whole order beside a part to cancel: a part has no money and no reason."""
    for field, given in (("refundCaptured", sent.refund_captured), ("reason", sent.reason)):
        if given:
            errors.add(
                conflicting(
                    "paymentId",
                    field,
                    "cannot be sent together: the first cancels one payment, the second belongs to the whole order",
                )
            )


async def cancel(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """POST /v2/payment-orders/{id}/cancel: 200 with the order, cancelled or waiting for the processor to confirm."""
    body = await request.optional_body(deps.body_limit)
    parsed = parse_cancel(body)
    reference = request.order_reference()
    key = request.idempotency_key(deps.fingerprint_key, body)
    result = await cancel_order(deps.ledger, request.actor, reference, parsed, key)
    content = order_json(result, deps, request)
    return ApiResponse(200, content, REPLAYED if result.replayed or result.repeated else ())


CANCEL: Final = ScopedOperation(
    cancel,
    WRITE,
    OperationSpec(
        name="cancelPaymentOrder",
        summary="Cancel a payment order",
        description="""
Cancels an order that is not paid: authorisations are voided, 3-D Secure sessions and references end. An order that
holds money is cancelled only with `refundCaptured`; an order that is paid is refunded instead. Needs no body. With
`paymentId` one payment of a split order is cancelled, and the order stays open.
""",
        parameters=(ORDER_ID, IDEMPOTENCY_KEY),
        takes=CancelPaymentOrder,
        optional=True,
        examples={"reason": {"summary": "With a reason", "value": {"reason": "El cliente ya no lo quiere"}}},
        answers={
            200: ("The order: cancelled, or waiting for the processor to confirm a void or a refund.", OrderDocument)
        },
        codes=codes_of(
            ANY,
            BODY,
            KEYED,
            {
                404: ("PAYMENT_NOT_FOUND",),
                409: ("INVALID_ORDER_STATE", "ORDER_HAS_CAPTURED_FUNDS", "PROCESSOR_ACCOUNT_KEYS_ERASED"),
            },
        ),
        replays=True,
    ),
)
