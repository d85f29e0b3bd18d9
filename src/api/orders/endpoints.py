"""What the payment order routes do: create, list, show, charge.

The rule a stranger would break: an operation here reads its input, asks one operation of the ledger or one query, and puts
bytes together. A decision that would need an `if` about money belongs to the core.
"""

from __future__ import annotations

from api.dependencies import Rooms
from api.http.request import Call
from api.http.response import Answer
from api.orders.parse_list import read_order_query
from api.orders.parse_orders import read_charge, read_create
from api.orders.responses import answer_with_order, now_of, order_not_found, reference_of
from ledger.operations.orders.create import charge_order, create_order


async def create(rooms: Rooms, call: Call) -> Answer:
    """POST /v2/payment-orders: 201 for a new order or a new payment, 200 for what already stood, 422 for a decline."""
    body = await call.body(rooms.body_limit)
    draft = read_create(body, now_of(rooms, call))
    receipt = await create_order(rooms.ledger, call.actor, draft, call.idempotency_key(rooms.fingerprint_key, body))
    return answer_with_order(receipt, 201 if receipt.created else 200, rooms, call)


async def charge(rooms: Rooms, call: Call) -> Answer:
    """POST /v2/payment-orders/{id}/charge: 200, or 422 for a decline."""
    body = await call.body(rooms.body_limit)
    draft = read_charge(body, now_of(rooms, call))
    key = call.idempotency_key(rooms.fingerprint_key, body)
    receipt = await charge_order(rooms.ledger, call.actor, reference_of(call), draft, key)
    return answer_with_order(receipt, 200, rooms, call)


async def show(rooms: Rooms, call: Call) -> Answer:
    """GET /v2/payment-orders/{id}: the order with its payments."""
    row = await rooms.reader.order(call.principal.merchant_id, reference_of(call))
    if row is None:
        raise order_not_found()
    return Answer(200, row.document(rooms.ledger.clock.now(call.principal.merchant_id)))


async def show_list(rooms: Rooms, call: Call) -> Answer:
    """GET /v2/payment-orders: a page of the merchant's orders, without their payments."""
    now = now_of(rooms, call)
    return Answer(200, await rooms.reader.orders(call.principal.merchant_id, read_order_query(call.query, now), now))
