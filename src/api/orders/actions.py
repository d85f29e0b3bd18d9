"""What can be done with an order that stands: a further payment, refund, cancellation, capture, payer authentication.

The rule a stranger would break: an operation here reads its body, asks one operation of the ledger and puts bytes together,
like those of `payment_orders`. Which action an order allows is the core's to say.
"""

from __future__ import annotations

from api.dependencies import Dependencies
from api.http.request import ApiRequest
from api.http.response import REPLAYED, ApiResponse
from api.orders.parse_actions import (
    parse_cancel,
    parse_capture,
    parse_device_data,
    parse_payment,
    parse_refund,
    parse_validate,
)
from api.orders.responses import declined_response, merchant_now, order_json, order_reference, order_response
from ledger.operations.orders.add_payment import add_payment
from ledger.operations.orders.authenticate import submit_device_data, validate
from ledger.operations.orders.cancel import cancel_order
from ledger.operations.orders.capture import capture_order
from ledger.operations.orders.refund import refund_order
from ledger.operations.pipeline.unit_of_work import IdempotencyKey
from projections.orders import documents
from projections.orders.authentication import render_validation
from projections.orders.refunds import render_refund


async def pay(rooms: Dependencies, call: ApiRequest) -> ApiResponse:
    """POST /v2/payment-orders/{id}/payments: 201 for a further payment of a split order, 422 for a decline."""
    body = await call.body(rooms.body_limit)
    draft = parse_payment(body, merchant_now(rooms, call))
    receipt = await add_payment(rooms.ledger, call.actor, order_reference(call), draft, _key(rooms, call, body))
    return order_response(receipt, 201 if receipt.created else 200, rooms, call)


async def refund(rooms: Dependencies, call: ApiRequest) -> ApiResponse:
    """POST /v2/payment-orders/{id}/refund: 200 with the order and the refund, which may be pending or have failed."""
    body = await call.body(rooms.body_limit)
    draft = parse_refund(body)
    receipt = await refund_order(rooms.ledger, call.actor, order_reference(call), draft, _key(rooms, call, body))
    assert receipt.refund_id is not None, "a refund returns which one it is"
    known = receipt.order.refund(receipt.refund_id)
    assert known is not None, "a receipt is about a refund of its order"
    now = rooms.ledger.clock.now(call.principal.merchant_id)
    document = documents.answer(receipt.order, receipt.customer, None, now)
    body = document[:-1] + b',"refund":' + render_refund(receipt.order, known) + b"}"
    return ApiResponse(200, body, REPLAYED if receipt.replayed or receipt.repeated else ())


async def cancel(rooms: Dependencies, call: ApiRequest) -> ApiResponse:
    """POST /v2/payment-orders/{id}/cancel: 200 with the order, cancelled or waiting for the processor to let go."""
    body = await call.optional_body(rooms.body_limit)
    draft = parse_cancel(body)
    receipt = await cancel_order(rooms.ledger, call.actor, order_reference(call), draft, _key(rooms, call, body))
    document = order_json(receipt, rooms, call)
    return ApiResponse(200, document, REPLAYED if receipt.replayed or receipt.repeated else ())


async def capture(rooms: Dependencies, call: ApiRequest) -> ApiResponse:
    """POST /v2/payment-orders/{id}/capture: 200, or 422 where the processor refused for good."""
    body = await call.optional_body(rooms.body_limit)
    draft = parse_capture(body)
    receipt = await capture_order(rooms.ledger, call.actor, order_reference(call), draft, _key(rooms, call, body))
    return order_response(receipt, 200, rooms, call)


async def send_device_data(rooms: Dependencies, call: ApiRequest) -> ApiResponse:
    """POST /v2/payment-orders/{id}/payer-authentication/device-data: 200 with the order; 422 for a decline."""
    body = await call.optional_body(rooms.body_limit)
    draft = parse_device_data(body)
    receipt = await submit_device_data(rooms.ledger, call.actor, order_reference(call), draft, _key(rooms, call, body))
    return order_response(receipt, 200, rooms, call)


async def validate_payer(rooms: Dependencies, call: ApiRequest) -> ApiResponse:
    """POST /v2/payment-orders/{id}/payer-authentication/validate: 200 with what became of it; 422 where it failed."""
    body = await call.body(rooms.body_limit)
    draft = parse_validate(body)
    receipt = await validate(rooms.ledger, call.actor, order_reference(call), draft, _key(rooms, call, body))
    refused = declined_response(receipt, order_json(receipt, rooms, call), call)
    if refused is not None and not receipt.replayed:
        return refused
    content = render_validation(receipt.order, receipt.customer, receipt.payment_id)
    return ApiResponse(200, content, REPLAYED if receipt.replayed or receipt.repeated else ())


def _key(rooms: Dependencies, call: ApiRequest, body: bytes) -> IdempotencyKey | None:
    return call.idempotency_key(rooms.fingerprint_key, body)
