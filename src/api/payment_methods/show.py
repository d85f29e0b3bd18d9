"""GET /payment-methods/{id}: one saved payment method."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from api.http.dependencies import Dependencies
from api.http.endpoint import READ_CUSTOMERS, ScopedOperation
from api.http.request import ApiRequest
from api.openapi.parameters import PAYMENT_METHOD_ID
from api.operation import ANY, PAYMENT_METHODS, OperationSpec, codes_of
from api.response import ApiResponse
from ledger.domain import streams
from ledger.domain.ids import parse_uuid
from ledger.domain.rejections import Rejected
from projections.payment_methods import SavedPaymentMethod


def method_id_of(request: ApiRequest, name: str = "id") -> UUID:
    """Returns the id of the payment method in the path. Raises PaymentMethodNotFound if the text is no UUID."""
    text = request.path_id(name)
    method_id = None if text is None else parse_uuid(text)
    if method_id is None:
        raise method_not_found()
    return method_id


def method_not_found() -> Rejected:
    """Returns the rejection of an id under which the merchant has no payment method."""
    return streams.PAYMENT_METHODS.missing()


async def show(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """GET /payment-methods/{id}: the method with its masked card."""
    document = await deps.queries.payment_method(request.principal.merchant_id, method_id_of(request))
    if document is None:
        raise method_not_found()
    return ApiResponse(200, document)


SHOW: Final = ScopedOperation(
    show,
    READ_CUSTOMERS,
    OperationSpec(
        name="getPaymentMethod",
        summary="Get a saved payment method",
        description="The method with its masked card: the first six and last four digits of the number.",
        parameters=(PAYMENT_METHOD_ID,),
        answers={200: ("The payment method.", SavedPaymentMethod)},
        codes=codes_of(ANY, {404: ("PAYMENT_METHOD_NOT_FOUND",)}),
        tag=PAYMENT_METHODS,
    ),
)
