"""What can be done with an order that stands: a further payment, refund, cancellation, capture, payer authentication.

The rule a stranger would break: an operation here reads its body, asks one operation of the ledger and puts bytes together,
like those of `payment_orders`. Which action an order allows is the core's to say.
"""

from __future__ import annotations

from api.dependencies import Rooms
from api.http.request import Call
from api.http.response import REPLAYED, Answer
from api.orders.parse_actions import (
    read_cancel,
    read_capture,
    read_device_data,
    read_payment,
    read_refund,
    read_validate,
)
from api.orders.responses import answer_with_order, declined, document_of, now_of, reference_of
from ledger.operations.orders.add_payment import add_payment
from ledger.operations.orders.authenticate import submit_device_data, validate
from ledger.operations.orders.cancel import cancel_order
from ledger.operations.orders.capture import capture_order
from ledger.operations.orders.refund import refund_order
from ledger.operations.pipeline.unit_of_work import RequestKey
from projections.orders import table
from projections.orders.authentication import render_validation
from projections.orders.refunds import render_refund


async def pay(rooms: Rooms, call: Call) -> Answer:
    """POST /v2/payment-orders/{id}/payments: 201 for a further payment of a split order, 422 for a decline."""
    body = await call.body(rooms.body_limit)
    draft = read_payment(body, now_of(rooms, call))
    receipt = await add_payment(rooms.ledger, call.actor, reference_of(call), draft, _key(rooms, call, body))
    return answer_with_order(receipt, 201 if receipt.created else 200, rooms, call)


async def refund(rooms: Rooms, call: Call) -> Answer:
    """POST /v2/payment-orders/{id}/refund: 200 with the order and the refund, which may be pending or have failed."""
    body = await call.body(rooms.body_limit)
    draft = read_refund(body)
    receipt = await refund_order(rooms.ledger, call.actor, reference_of(call), draft, _key(rooms, call, body))
    known = receipt.order.refund(receipt.refund_id)
    assert known is not None, "a receipt is about a refund of its order"
    now = rooms.ledger.clock.now(call.principal.merchant_id)
    document = table.answer(receipt.order, receipt.customer, None, now)
    body = document[:-1] + b',"refund":' + render_refund(receipt.order, known) + b"}"
    return Answer(200, body, REPLAYED if receipt.replayed or receipt.repeated else ())


async def cancel(rooms: Rooms, call: Call) -> Answer:
    """POST /v2/payment-orders/{id}/cancel: 200 with the order, cancelled or waiting for the processor to let go."""
    body = await call.optional_body(rooms.body_limit)
    draft = read_cancel(body)
    receipt = await cancel_order(rooms.ledger, call.actor, reference_of(call), draft, _key(rooms, call, body))
    document = document_of(receipt, rooms, call)
    return Answer(200, document, REPLAYED if receipt.replayed or receipt.repeated else ())


async def capture(rooms: Rooms, call: Call) -> Answer:
    """POST /v2/payment-orders/{id}/capture: 200, or 422 where the processor refused for good."""
    body = await call.optional_body(rooms.body_limit)
    draft = read_capture(body)
    receipt = await capture_order(rooms.ledger, call.actor, reference_of(call), draft, _key(rooms, call, body))
    return answer_with_order(receipt, 200, rooms, call)


async def send_device_data(rooms: Rooms, call: Call) -> Answer:
    """POST /v2/payment-orders/{id}/payer-authentication/device-data: 200 with the order; 422 for a decline."""
    body = await call.optional_body(rooms.body_limit)
    draft = read_device_data(body)
    receipt = await submit_device_data(rooms.ledger, call.actor, reference_of(call), draft, _key(rooms, call, body))
    return answer_with_order(receipt, 200, rooms, call)


async def validate_payer(rooms: Rooms, call: Call) -> Answer:
    """POST /v2/payment-orders/{id}/payer-authentication/validate: 200 with what became of it; 422 where it failed."""
    body = await call.body(rooms.body_limit)
    draft = read_validate(body)
    receipt = await validate(rooms.ledger, call.actor, reference_of(call), draft, _key(rooms, call, body))
    refused = declined(receipt, document_of(receipt, rooms, call), call)
    if refused is not None and not receipt.replayed:
        return refused
    content = render_validation(receipt.order, receipt.customer, receipt.payment_id)
    return Answer(200, content, REPLAYED if receipt.replayed or receipt.repeated else ())


def _key(rooms: Rooms, call: Call, body: bytes) -> RequestKey | None:
    return call.idempotency_key(rooms.fingerprint_key, body)
