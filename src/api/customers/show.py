"""GET /customers/{id}: one customer, with the customers that are related to it, now or in the past."""

from __future__ import annotations

from typing import Final

from api.customers.fields import TAG, customer_reference
from api.errors import customer_not_found
from api.fields.as_of import CODES, DESCRIBED, past_asked
from api.http.dependencies import Dependencies
from api.http.endpoint import ScopedOperation
from api.http.request import ApiRequest
from api.openapi.parameters import CUSTOMER_ID
from api.operation import ANY, OperationSpec, codes_of
from api.response import ApiResponse
from ledger.domain import streams
from ledger.security.api_keys import Scope
from projections.as_of.points import with_place
from projections.customers import CustomerWithRelatedDocument


async def show(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """GET /customers/{id}: the customer."""
    asked, merchant_id = await past_asked(deps, request), request.principal.merchant_id
    if asked is None:
        document = await deps.queries.customer_detail(merchant_id, customer_reference(request))
    else:
        customer_id = await deps.queries.customer_id(merchant_id, customer_reference(request))
        document = None if customer_id is None else await deps.past.customer(merchant_id, customer_id, asked)
        if customer_id is not None and document is None:
            raise streams.CUSTOMERS.missing_then()
    if document is None:
        raise customer_not_found()
    return ApiResponse(200, document)


SHOW: Final = ScopedOperation(
    show,
    Scope.CUSTOMERS_READ,
    OperationSpec(
        name="getCustomer",
        summary="Get a customer",
        description="""
The customer, and the customers that a chain of `sourceId` connects with it, in both directions. With `asOf` or
`version` all of them are as they were then. An erased customer is not found in any past.
""",
        parameters=(CUSTOMER_ID, *DESCRIBED),
        answers={200: ("The customer.", with_place(CustomerWithRelatedDocument, "CustomerAsOfDocument"))},
        codes=codes_of(ANY, CODES, {404: ("CUSTOMER_NOT_FOUND",)}),
        tag=TAG,
    ),
)
