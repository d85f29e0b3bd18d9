"""What the payment order routes do: create, list, show, charge.

The rule a stranger would break: an operation here reads its input, asks one operation of the ledger or one query, and puts
bytes together. A decision that would need an `if` about money belongs to the core.
"""

from __future__ import annotations

from api.dependencies import Dependencies
from api.http.request import ApiRequest
from api.http.response import ApiResponse
from api.orders.parse_list import parse_order_query
from api.orders.parse_orders import parse_charge, parse_create
from api.orders.responses import merchant_now, order_not_found, order_reference, order_response
from ledger.operations.orders.create import charge_order, create_order


async def create(rooms: Dependencies, call: ApiRequest) -> ApiResponse:
    """POST /v2/payment-orders: 201 for a new order or a new payment, 200 for what already stood, 422 for a decline."""
    body = await call.body(rooms.body_limit)
    draft = parse_create(body, merchant_now(rooms, call))
    receipt = await create_order(rooms.ledger, call.actor, draft, call.idempotency_key(rooms.fingerprint_key, body))
    return order_response(receipt, 201 if receipt.created else 200, rooms, call)


async def charge(rooms: Dependencies, call: ApiRequest) -> ApiResponse:
    """POST /v2/payment-orders/{id}/charge: 200, or 422 for a decline."""
    body = await call.body(rooms.body_limit)
    draft = parse_charge(body, merchant_now(rooms, call))
    key = call.idempotency_key(rooms.fingerprint_key, body)
    receipt = await charge_order(rooms.ledger, call.actor, order_reference(call), draft, key)
    return order_response(receipt, 200, rooms, call)


async def show(rooms: Dependencies, call: ApiRequest) -> ApiResponse:
    """GET /v2/payment-orders/{id}: the order with its payments."""
    row = await rooms.reader.order(call.principal.merchant_id, order_reference(call))
    if row is None:
        raise order_not_found()
    return ApiResponse(200, row.document(rooms.ledger.clock.now(call.principal.merchant_id)))


async def show_list(rooms: Dependencies, call: ApiRequest) -> ApiResponse:
    """GET /v2/payment-orders: a page of the merchant's orders, without their payments."""
    now = merchant_now(rooms, call)
    return ApiResponse(
        200, await rooms.reader.orders(call.principal.merchant_id, parse_order_query(call.query, now), now)
    )
