"""What the endpoints of orders share: the answer with the order's bytes, and the answer to a decline.

A decline is answered 422 although something happened: the order is in the answer, and a repeated request gets the same
answer.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated
from uuid import UUID

from msgspec import UNSET, Meta, UnsetType

from api.decoding.field_warnings import WarningCode, warn
from api.fields.payer_language import accepted_language, payer_language
from api.http.dependencies import Dependencies
from api.http.error_responses import Answered, Error
from api.http.request import ApiRequest
from api.response import REPLAYED, ApiResponse, json_response, rendered
from ledger.domain.orders.declines import decline, payer_message, public_code
from ledger.domain.orders.payment import Payment
from ledger.domain.orders.state import Order
from ledger.domain.orders.statuses import UNCAPTURED_STATUSES, Advice, OrderStatus, PaymentStatus
from ledger.operations.context.results import OrderResult
from projections.customers import language_of
from projections.orders import documents
from projections.orders.documents import OrderDocument
from projections.orders.table import OrderRow


class Declined(Error, kw_only=True, rename="camel"):
    """The answer to a declined payment. The order exists all the same: it has the failed payment and can be read."""

    payer_message: Annotated[
        str,
        Meta(
            description="What the payer may read: in the language of Accept-Language, else of the customer's "
            "notificationPreferences, else in Spanish.",
            examples=["La tarjeta está vencida."],
        ),
    ]
    decline_code: Annotated[
        str, Meta(description="The reason, as a code that is the same for all processors.", examples=["CARD_EXPIRED"])
    ]
    retryable: Annotated[bool, Meta(description="Whether the same card, unchanged, may be approved another time.")]
    advice: Annotated[Advice, Meta(description="What the merchant should do.")]
    available: Annotated[
        list[int] | UnsetType,
        Meta(description="With INSTALLMENTS_NOT_AVAILABLE: the numbers of months that the card's bank offers."),
    ] = UNSET
    id: Annotated[UUID, Meta(description="The order.")]
    external_id: Annotated[str, Meta(description="The merchant's id of the order.")]
    status: Annotated[
        OrderStatus,
        Meta(description="The order's status: FAILED; unchanged on a split order or after a refused capture."),
    ]
    payment_order: Annotated[OrderDocument, Meta(description="The order with the declined payment.")]


def merchant_now(deps: Dependencies, request: ApiRequest) -> datetime:
    """Returns the merchant's current time, in its own time zone."""
    return deps.ledger.clock.now(request.principal.merchant_id).astimezone(request.principal.zone)


def warn_of_past_due_date(order: Order) -> None:
    """Warns if an order was overdue when its due date was set. Only the order's own times count: a request that is
    repeated later gets the same answer.
    """
    due_date = order.terms.due_date
    set_at = order.terms.at if order.reminders is None else order.reminders.scheduled.at
    if due_date is not None and due_date < set_at:
        warn("dueDate", WarningCode.DUE_DATE_IN_PAST, "had passed when it was set: the order is overdue at once")


async def language_of_read(deps: Dependencies, request: ApiRequest, row: OrderRow) -> str:
    """Returns the language of an order's texts for payers, which costs a read of the customer if the request has
    none.
    """
    return accepted_language(request.headers) or await customers_language(deps, request.principal.merchant_id, row)


async def customers_language(deps: Dependencies, merchant_id: UUID, row: OrderRow) -> str:
    """Returns the language of an order's customer, Spanish if the customer was erased."""
    customer = await deps.queries.customer_detail(merchant_id, row.customer_id)
    return "es" if customer is None else language_of(customer)


def order_response(result: OrderResult, status: int, deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """Returns the order with `status`: 200 if nothing changed, 422 if the payment failed."""
    document = order_json(result, deps, request)
    if result.replayed:
        return ApiResponse(200, document, REPLAYED)
    return declined_response(result, document, request) or ApiResponse(
        status, document, REPLAYED if result.repeated else ()
    )


def order_json(result: OrderResult, deps: Dependencies, request: ApiRequest) -> bytes:
    """Returns the order as JSON, with the payment that the result is about."""
    now = deps.ledger.clock.now(request.principal.merchant_id)
    return documents.answer(result.order, result.customer, result.payment_id, now, _language(result, request))


def _language(result: OrderResult, request: ApiRequest) -> str:
    return payer_language(request.headers, result.customer.preferences.language)


def declined_response(result: OrderResult, document: bytes, request: ApiRequest) -> ApiResponse | None:
    """Returns the answer if the result's payment failed (contract N24), else None. `document` is the order as
    JSON.
    """
    payment = None if result.payment_id is None else result.order.payment(result.payment_id)
    if payment is None or payment.status is not PaymentStatus.FAILED:
        return None
    content = _decline(result, payment, document, request)
    return json_response(422, content, REPLAYED if result.repeated else ())


def capture_refused_response(result: OrderResult, deps: Dependencies, request: ApiRequest) -> ApiResponse | None:
    """Returns the answer if a requested capture was refused and its payment stays authorised, else None."""
    payment = None if result.payment_id is None else result.order.payment(result.payment_id)
    if payment is None or result.replayed or payment.failure is None or payment.status not in UNCAPTURED_STATUSES:
        return None
    content = _decline(result, payment, order_json(result, deps, request), request)
    return json_response(422, content, REPLAYED if result.repeated else ())


def _decline(result: OrderResult, payment: Payment, document: bytes, request: ApiRequest) -> Declined:
    """Returns the answer to a declined payment, and keeps its code for the log."""
    order, failure = result.order, payment.failure
    assert failure is not None, "a declined payment has a failure"
    reason = decline(failure.code, failure.network_advice)
    answered = Answered(request.request_id, request.errors_url)
    request.error_code = public_code(failure.refused_by, failure.code)
    available = failure.available_installments
    return Declined(
        **answered.about(request.error_code, reason.message),
        payer_message=payer_message(reason.code, _language(result, request)),
        decline_code=reason.code,
        retryable=reason.retryable,
        advice=reason.advice,
        available=UNSET if available is None else list(available),
        id=order.terms.order_id,
        external_id=order.terms.external_id,
        status=order.status,
        payment_order=rendered(document),
    )
