"""GET /v2/payment-orders/{id}: one order with its payments."""

from __future__ import annotations

from typing import Final

from api.errors import order_not_found
from api.fields.payer_language import VARIES
from api.http.dependencies import Dependencies
from api.http.endpoint import READ, ScopedOperation
from api.http.request import ApiRequest
from api.openapi.parameters import ORDER_ID
from api.operation import ANY, OperationSpec, codes_of
from api.orders.responses import language_of_read
from api.response import ApiResponse
from projections.orders.documents import OrderDocument
from projections.orders.payments import has_text_for_payers


async def show(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """GET /v2/payment-orders/{id}: the order with its payments."""
    merchant_id = request.principal.merchant_id
    row = await deps.queries.order(merchant_id, request.order_reference())
    if row is None:
        raise order_not_found()
    request.order_id = row.order_id
    language = await language_of_read(deps, request, row) if has_text_for_payers(row.payments) else "es"
    return ApiResponse(200, row.document(deps.ledger.clock.now(merchant_id), language), VARIES)


SHOW: Final = ScopedOperation(
    show,
    READ,
    OperationSpec(
        name="getPaymentOrder",
        summary="Get a payment order",
        description="The order with the current data of its customer, and all its payments with their history.",
        parameters=(ORDER_ID,),
        answers={200: ("The order.", OrderDocument)},
        codes=codes_of(ANY, {404: ("ORDER_NOT_FOUND",)}),
    ),
)
