"""GET /customers: a page of the merchant's customers.

`limit` and `offset` are canonical, `page` and `cursor` are accepted (contract N51, N53). Every wrong parameter is named
in one 400.
"""

from __future__ import annotations

from typing import Final

from api.customers.fields import TAG
from api.decoding.query import (
    PLACE_PARAMETERS,
    Parameters,
    described_parameters,
    parse_parameters,
    parse_place,
    parse_text,
    refuse_cursor_of_another_list,
)
from api.decoding.types import TEXT_MAX
from api.http.dependencies import Dependencies
from api.http.endpoint import ScopedOperation
from api.http.request import ApiRequest
from api.operation import ANY, OperationSpec, codes_of
from api.response import ApiResponse
from ledger.security.api_keys import Scope
from projections.lists.customers import CUSTOMER_CURSORS, CustomerPage, CustomerQuery

PARAMETERS: Final[Parameters] = {
    "email": (
        "Customers with this e-mail address; upper and lower case are equal.",
        {"type": "string", "maxLength": TEXT_MAX},
    ),
    "externalId": ("The customer with this external id.", {"type": "string", "maxLength": TEXT_MAX}),
    "search": (
        (
            "Words, each of which is a part of the external id, the full name, the e-mail or the phone, in any order and "
            "whatever their case and accents."
        ),
        {"type": "string", "maxLength": TEXT_MAX},
    ),
    **PLACE_PARAMETERS,
}
"""The query of the list of customers. All may be given once."""


def parse_customer_query(query: bytes) -> CustomerQuery:
    """Returns the list that a query string asks for. Raises ApiError (400), with every wrong parameter."""
    given, errors = parse_parameters(query, PARAMETERS)
    place = errors.check(parse_place, given, CUSTOMER_CURSORS.parse)
    email, external_id, search = [errors.check(parse_text, given, name) for name in ("email", "externalId", "search")]
    errors.refuse()
    assert place is not None, "what was not parsed was refused"
    asked = CustomerQuery(
        email=email,
        external_id=external_id,
        search=search,
        limit=place.limit,
        offset=place.offset,
        cursor=place.cursor,
    )
    refuse_cursor_of_another_list(asked)
    return asked


async def list_customers(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """GET /customers: a page of the merchant's customers, the newest first."""
    query = parse_customer_query(request.query)
    return ApiResponse(200, await deps.queries.customers(request.principal.merchant_id, query))


LIST_CUSTOMERS: Final = ScopedOperation(
    list_customers,
    Scope.CUSTOMERS_READ,
    OperationSpec(
        name="listCustomers",
        summary="List customers",
        description="A page of the merchant's customers, the newest first, and the number of all of them.",
        parameters=described_parameters(PARAMETERS),
        answers={200: ("A page of customers.", CustomerPage)},
        codes=codes_of(ANY, {400: ("CONFLICTING_FIELDS",)}),
        tag=TAG,
    ),
)
