"""What the payment order routes do: create, list, show, charge.

The rule a stranger would break: an operation here reads its input, asks one operation of the ledger or one query, and puts
bytes together. A decision that would need an `if` about money belongs to the core.
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from api.answers import REPLAYED, Answer
from api.call import Call
from api.drafting.order_lists import read_order_query
from api.drafting.payment_orders import read_charge, read_create
from api.errors import error_body
from api.resource import Rooms
from ledger.operations.ledger import OrderReceipt
from ledger.operations.orders import charge_order, create_order
from ledger.orders.declines import decline, public_code
from ledger.orders.state import Order, Payment
from ledger.orders.status import PaymentStatus
from ledger.rejections import OrderNotFound
from projections import orders


async def create(rooms: Rooms, call: Call) -> Answer:
    """POST /v2/payment-orders: 201 for a new order or a new payment, 200 for what already stood, 422 for a decline."""
    body = await call.body(rooms.body_limit)
    draft = read_create(body, _now(rooms, call))
    receipt = await create_order(rooms.ledger, call.actor, draft, call.idempotency_key(rooms.fingerprint_key, body))
    return _answer(receipt, 201 if receipt.created else 200, rooms, call)


async def charge(rooms: Rooms, call: Call) -> Answer:
    """POST /v2/payment-orders/{id}/charge: 200, or 422 for a decline."""
    body = await call.body(rooms.body_limit)
    draft = read_charge(body, _now(rooms, call))
    key = call.idempotency_key(rooms.fingerprint_key, body)
    receipt = await charge_order(rooms.ledger, call.actor, _reference(call), draft, key)
    return _answer(receipt, 200, rooms, call)


async def show(rooms: Rooms, call: Call) -> Answer:
    """GET /v2/payment-orders/{id}: the order with its payments."""
    row = await rooms.reader.order(call.principal.merchant_id, _reference(call))
    if row is None:
        raise _not_found()
    return Answer(200, row.document(rooms.ledger.clock.now(call.principal.merchant_id)))


async def show_list(rooms: Rooms, call: Call) -> Answer:
    """GET /v2/payment-orders: a page of the merchant's orders, without their payments."""
    now = _now(rooms, call)
    return Answer(200, await rooms.reader.orders(call.principal.merchant_id, read_order_query(call.query, now), now))


def _now(rooms: Rooms, call: Call) -> datetime:
    """The merchant's present moment, in its own time zone."""
    return rooms.ledger.clock.now(call.principal.merchant_id).astimezone(call.principal.zone)


def _reference(call: Call) -> str:
    reference = call.path_id("id")
    if reference is None:
        raise _not_found()
    return reference


def _not_found() -> OrderNotFound:
    return OrderNotFound("The payment order was not found.")


def _answer(receipt: OrderReceipt, status: int, rooms: Rooms, call: Call) -> Answer:
    now = rooms.ledger.clock.now(call.principal.merchant_id)
    document = orders.answer(receipt.order, receipt.customer, receipt.payment_id, now)
    if receipt.replayed:
        return Answer(200, document, REPLAYED)
    headers = REPLAYED if receipt.repeated else ()
    payment = None if receipt.payment_id is None else receipt.order.payment(receipt.payment_id)
    if payment is not None and payment.status is PaymentStatus.FAILED:
        return Answer(422, _declined(receipt.order, payment, document, call.request_id), headers)
    return Answer(status, document, headers)


def _declined(order: Order, payment: Payment, document: bytes, request_id: str) -> bytes:
    """The answer to a decline (contract N24): what happened, what helps, and the order as it stands."""
    failure = payment.failure
    assert failure is not None, "a payment that failed says why"
    known = decline(failure.code)
    body = error_body(public_code(failure.refused_by), known.message, request_id) | {
        "declineCode": known.code,
        "retryable": known.retryable,
        "advice": known.advice,
        "id": order.terms.order_id,
        "externalId": order.terms.external_id,
        "status": order.status,
    }
    return msgspec.json.encode(body)[:-1] + b',"paymentOrder":' + document + b"}"
