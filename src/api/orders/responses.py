"""How an operation on an order is answered: the order's bytes, and the decline that its payment may have ended in.

The rule a stranger would break: a decline is a 422 and yet something happened. The order is in the answer, and the same
answer is given again to a repeated request.
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from api.dependencies import Dependencies
from api.http.error_responses import error_body
from api.http.request import ApiRequest
from api.http.response import REPLAYED, ApiResponse
from ledger.domain.orders.declines import decline, public_code
from ledger.domain.orders.payment import Payment
from ledger.domain.orders.state import Order
from ledger.domain.orders.statuses import PaymentStatus
from ledger.domain.rejections import OrderNotFound
from ledger.operations.results import OrderResult
from projections.orders import documents


def merchant_now(rooms: Dependencies, call: ApiRequest) -> datetime:
    """The merchant's present moment, in its own time zone."""
    return rooms.ledger.clock.now(call.principal.merchant_id).astimezone(call.principal.zone)


def order_reference(call: ApiRequest) -> str:
    """What the path calls the order. Raises OrderNotFound where that cannot be any order's id."""
    reference = call.path_id("id")
    if reference is None:
        raise order_not_found()
    return reference


def order_not_found() -> OrderNotFound:
    return OrderNotFound("The payment order was not found.")


def order_response(receipt: OrderResult, status: int, rooms: Dependencies, call: ApiRequest) -> ApiResponse:
    """The order in the shape of a create: with `status`, 200 where nothing happened, 422 where the payment failed."""
    document = order_json(receipt, rooms, call)
    if receipt.replayed:
        return ApiResponse(200, document, REPLAYED)
    return declined_response(receipt, document, call) or ApiResponse(
        status, document, REPLAYED if receipt.repeated else ()
    )


def order_json(receipt: OrderResult, rooms: Dependencies, call: ApiRequest) -> bytes:
    """The order as JSON, with the payment that the receipt is about."""
    now = rooms.ledger.clock.now(call.principal.merchant_id)
    return documents.answer(receipt.order, receipt.customer, receipt.payment_id, now)


def declined_response(receipt: OrderResult, document: bytes, call: ApiRequest) -> ApiResponse | None:
    """The answer where the receipt's payment failed (contract N24); `document` is the order as JSON."""
    payment = None if receipt.payment_id is None else receipt.order.payment(receipt.payment_id)
    if payment is None or payment.status is not PaymentStatus.FAILED:
        return None
    body = _decline(receipt.order, payment, document, call.request_id)
    return ApiResponse(422, body, REPLAYED if receipt.repeated else ())


def _decline(order: Order, payment: Payment, document: bytes, request_id: str) -> bytes:
    """What happened, what helps, and the order as it stands."""
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
