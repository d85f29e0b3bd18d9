"""What the endpoints of orders share: the order that a path names, and the answer with the order's bytes or with a decline.

A decline is answered 422 although something happened: the order is in the answer, and a repeated request gets the same answer.
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
from projections.orders import table


def merchant_now(deps: Dependencies, request: ApiRequest) -> datetime:
    """Returns the merchant's current time, in its own time zone."""
    return deps.ledger.clock.now(request.principal.merchant_id).astimezone(request.principal.zone)


def order_reference(request: ApiRequest) -> str:
    """Returns the id or external id of the order in the path. Raises OrderNotFound where the text cannot be an id."""
    reference = request.path_id("id")
    if reference is None:
        raise order_not_found()
    return reference


def order_not_found() -> OrderNotFound:
    return OrderNotFound("The payment order was not found.")


def order_response(result: OrderResult, status: int, deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """Returns the order with `status`: 200 where nothing changed, 422 where the payment failed."""
    document = order_json(result, deps, request)
    if result.replayed:
        return ApiResponse(200, document, REPLAYED)
    return declined_response(result, document, request) or ApiResponse(
        status, document, REPLAYED if result.repeated else ()
    )


def order_json(result: OrderResult, deps: Dependencies, request: ApiRequest) -> bytes:
    """Returns the order as JSON, with the payment that the result is about."""
    now = deps.ledger.clock.now(request.principal.merchant_id)
    return table.answer(result.order, result.customer, result.payment_id, now)


def declined_response(result: OrderResult, document: bytes, request: ApiRequest) -> ApiResponse | None:
    """Returns the answer where the result's payment failed (contract N24), else None. `document` is the order as JSON."""
    payment = None if result.payment_id is None else result.order.payment(result.payment_id)
    if payment is None or payment.status is not PaymentStatus.FAILED:
        return None
    content = _decline(result.order, payment, document, request.request_id)
    return ApiResponse(422, content, REPLAYED if result.repeated else ())


def _decline(order: Order, payment: Payment, document: bytes, request_id: str) -> bytes:
    failure = payment.failure
    assert failure is not None, "a failed payment has a failure"
    reason = decline(failure.code)
    body = error_body(public_code(failure.refused_by), reason.message, request_id) | {
        "declineCode": reason.code,
        "retryable": reason.retryable,
        "advice": reason.advice,
        "id": order.terms.order_id,
        "externalId": order.terms.external_id,
        "status": order.status,
    }
    return msgspec.json.encode(body)[:-1] + b',"paymentOrder":' + document + b"}"
