"""GET /customers/{id}: one customer, with the customers that are related to it."""

from __future__ import annotations

from typing import Final

from api.customers.fields import TAG, customer_reference
from api.errors import customer_not_found
from api.http.dependencies import Dependencies
from api.http.endpoint import ScopedOperation
from api.http.request import ApiRequest
from api.openapi.parameters import CUSTOMER_ID
from api.operation import ANY, OperationSpec, codes_of
from api.response import ApiResponse
from ledger.security.api_keys import Scope
from projections.customers import CustomerWithRelatedDocument


async def show(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """GET /customers/{id}: the customer."""
    document = await deps.queries.customer_detail(request.principal.merchant_id, customer_reference(request))
    if document is None:
        raise customer_not_found()
    return ApiResponse(200, document)


SHOW: Final = ScopedOperation(
    show,
    Scope.CUSTOMERS_READ,
    OperationSpec(
        name="getCustomer",
        summary="Get a customer",
        description="The customer, and the customers that a chain of `sourceId` connects with it, in both directions.",
        parameters=(CUSTOMER_ID,),
        answers={200: ("The customer.", CustomerWithRelatedDocument)},
        codes=codes_of(ANY, {404: ("CUSTOMER_NOT_FOUND",)}),
        tag=TAG,
    ),
)
