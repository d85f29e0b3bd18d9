"""GET /v2/payment-orders/{id}: one order with its payments, as it is or as it was."""

from __future__ import annotations

from typing import Final

from api.errors import order_not_found
from api.fields.as_of import CODES, DESCRIBED, past_asked
from api.fields.payer_language import VARIES, accepted_language
from api.http.dependencies import Dependencies
from api.http.endpoint import READ, ScopedOperation
from api.http.request import ApiRequest
from api.openapi.parameters import ORDER_ID
from api.operation import ANY, OperationSpec, codes_of
from api.orders.past import past_order
from api.orders.responses import language_of_read
from api.response import ApiResponse
from projections.as_of.points import with_place
from projections.orders.documents import OrderDocument
from projections.orders.payments import has_text_for_payers


async def show(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """GET /v2/payment-orders/{id}: the order with its payments."""
    asked = await past_asked(deps, request)
    if asked is not None:
        past = await past_order(deps, request, asked)
        language = accepted_language(request.headers) or past.customers_language
        return ApiResponse(200, past.document(language), VARIES)
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
        description="""
The order with the current data of its customer, and all its payments with their history. With `asOf` or `version` it is
the order as it was, with its customer as it was then.
""",
        parameters=(ORDER_ID, *DESCRIBED),
        answers={200: ("The order.", with_place(OrderDocument, "OrderAsOfDocument"))},
        codes=codes_of(ANY, CODES, {404: ("ORDER_NOT_FOUND",)}),
    ),
)
