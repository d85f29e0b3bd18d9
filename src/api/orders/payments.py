"""GET /v2/payment-orders/{id}/payments and …/{paymentId}: an order's payments, together or one of them (section 8.9).

Cut a payment out of the bytes that were rendered at the commit, so that it is the same as in its order. Never render it
again: only the text for the payer is replaced, if another language is asked for.
"""

from __future__ import annotations

from typing import Annotated, Final
from uuid import UUID

import msgspec
from msgspec import Meta, Raw, Struct

from api.decoding.query import Place, described_parameters
from api.decoding.types import TEXT_MAX
from api.errors import order_not_found
from api.fields.as_of import CODES, PART_PARAMETERS, past_parts_asked
from api.fields.payer_language import VARIES, accepted_language
from api.http.dependencies import Dependencies
from api.http.endpoint import READ, ScopedOperation
from api.http.request import ApiRequest
from api.openapi.parameters import ORDER_ID
from api.operation import ANY, Json, OperationSpec, codes_of
from api.orders.past import past_order
from api.orders.responses import language_of_read
from api.response import ApiResponse, json_response, rendered
from ledger.domain.rejections import PaymentNotFound
from projections.as_of.points import with_place
from projections.lists.paging import Pagination, cut
from projections.orders.payments import PaymentDocument, has_text_for_payers, in_language


class PaymentPage(Struct, rename="camel"):
    """The payments of an order."""

    data: Annotated[list[PaymentDocument], Meta(description="The payments, oldest first.")]
    pagination: Pagination


class _Ids(Struct, rename="camel"):
    id: str
    external_id: str | None = None


async def list_payments(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """GET /v2/payment-orders/{id}/payments: the order's payments, oldest first."""
    asked, place = await past_parts_asked(deps, request)
    if asked is not None:
        past = await past_order(deps, request, asked)
        payments = past.payments(accepted_language(request.headers) or past.customers_language)
        return ApiResponse(
            200, past.point.stated_in(_page(msgspec.json.decode(payments, type=list[Raw]), place).body), VARIES
        )
    return _page(await _payments(deps, request), place)


def _page(payments: list[Raw], place: Place[UUID] | None) -> ApiResponse:
    part, pagination = cut(place, [UUID(msgspec.json.decode(payment, type=_Ids).id) for payment in payments])
    shown = [rendered(bytes(payment)) for payment in payments[part]]
    return json_response(200, PaymentPage(data=shown, pagination=pagination), VARIES)


async def show_payment(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """GET /v2/payment-orders/{id}/payments/{paymentId}: one payment with its history."""
    payments, name = await _payments(deps, request), request.path_id("paymentId")
    identified = [(msgspec.json.decode(payment, type=_Ids), payment) for payment in payments]
    for field in ("id", "external_id"):  # the service's id wins, as everywhere
        # A payment that was never sent to the processor leaves its external id to its successor: the newest wins.
        for ids, payment in reversed(identified):
            if name is not None and getattr(ids, field) == name:
                return ApiResponse(200, bytes(payment), VARIES)
    raise PaymentNotFound("The order has no payment with this id.")


async def _payments(deps: Dependencies, request: ApiRequest) -> list[Raw]:
    row = await deps.queries.order(request.principal.merchant_id, request.order_reference())
    if row is None:
        raise order_not_found()
    request.order_id = row.order_id
    payments = row.payments
    if has_text_for_payers(payments):
        payments = in_language(payments, await language_of_read(deps, request, row))
    return msgspec.json.decode(payments, type=list[Raw])


_PAYMENT_ID: Final[Json] = {
    "name": "paymentId",
    "in": "path",
    "required": True,
    "description": "The service's id of the payment, or the merchant's own external id of it.",
    "schema": {"type": "string", "minLength": 1, "maxLength": TEXT_MAX},
}

LIST_PAYMENTS: Final = ScopedOperation(
    list_payments,
    READ,
    OperationSpec(
        name="listPayments",
        summary="List an order's payments",
        description="All payments of the order, oldest first, each with its history; with `asOf` or "
        "`version` those that it had then, as they were.",
        parameters=(ORDER_ID, *described_parameters(PART_PARAMETERS)),
        answers={200: ("The payments.", with_place(PaymentPage, "PaymentAsOfPage"))},
        codes=codes_of(ANY, CODES, {404: ("ORDER_NOT_FOUND",)}),
    ),
)
SHOW_PAYMENT: Final = ScopedOperation(
    show_payment,
    READ,
    OperationSpec(
        name="getPayment",
        summary="Get a payment",
        description="One payment of the order with its history.",
        parameters=(ORDER_ID, _PAYMENT_ID),
        answers={200: ("The payment.", PaymentDocument)},
        codes=codes_of(ANY, {404: ("ORDER_NOT_FOUND", "PAYMENT_NOT_FOUND")}),
    ),
)
