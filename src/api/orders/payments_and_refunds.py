"""The parts of an order read one by one: its payments and its refunds (section 8.9).

The rule a stranger would break: a payment here is the same bytes as in its order. It is cut out of what was rendered at the
commit, never rendered again.
"""

from __future__ import annotations

from uuid import UUID

import msgspec
from msgspec import Raw, Struct

from api.dependencies import Dependencies
from api.http.request import ApiRequest
from api.http.response import ApiResponse
from api.orders.responses import order_not_found, order_reference
from ledger.domain.orders.state import Order
from ledger.domain.rejections import PaymentNotFound, RefundNotFound
from ledger.operations.pipeline.unit_of_work import find_order
from projections.lists.pages import whole
from projections.orders.refunds import render_refund, render_refunds


class _Named(Struct, rename="camel"):
    id: str
    external_id: str | None = None


async def show_payments(rooms: Dependencies, call: ApiRequest) -> ApiResponse:
    """GET /v2/payment-orders/{id}/payments: the order's payments, oldest first."""
    return ApiResponse(200, whole([bytes(payment) for payment in await _payments(rooms, call)]))


async def show_payment(rooms: Dependencies, call: ApiRequest) -> ApiResponse:
    """GET /v2/payment-orders/{id}/payments/{paymentId}: one payment with its history."""
    payments, name = await _payments(rooms, call), call.path_id("paymentId")
    named = [(msgspec.json.decode(payment, type=_Named), payment) for payment in payments]
    for field in ("id", "external_id"):  # the service's id wins, as everywhere
        for ids, payment in reversed(named):  # an id that was not sent the first time is its successor's
            if name is not None and getattr(ids, field) == name:
                return ApiResponse(200, bytes(payment))
    raise PaymentNotFound("The payment was not found on this order.")


async def show_refunds(rooms: Dependencies, call: ApiRequest) -> ApiResponse:
    """GET /v2/payment-orders/{id}/refunds: the order's refunds, oldest first."""
    return ApiResponse(200, whole(render_refunds(await _order(rooms, call))))


async def show_refund(rooms: Dependencies, call: ApiRequest) -> ApiResponse:
    """GET /v2/payment-orders/{id}/refunds/{refundId}: one refund with what each payment gives back."""
    order, name = await _order(rooms, call), call.path_id("refundId")
    by_id = {str(refund.refund_id): refund for refund in order.refunds}
    by_name = {refund.external_id: refund for refund in order.refunds if refund.external_id is not None}
    refund = None if name is None else by_id.get(name) or by_name.get(name)
    if refund is None:
        raise RefundNotFound("The refund was not found on this order.")
    return ApiResponse(200, render_refund(order, refund))


async def _payments(rooms: Dependencies, call: ApiRequest) -> list[Raw]:
    row = await rooms.reader.order(call.principal.merchant_id, order_reference(call))
    if row is None:
        raise order_not_found()
    return msgspec.json.decode(row.payments, type=list[Raw])


async def _order(rooms: Dependencies, call: ApiRequest) -> Order:
    merchant_id: UUID = call.principal.merchant_id
    return await find_order(rooms.ledger, merchant_id, order_reference(call))
