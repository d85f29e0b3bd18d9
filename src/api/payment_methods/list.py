"""GET /customers/{customerId}/payment-methods: a page of a customer's saved payment methods (contract N52)."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from api.decoding.query import (
    PLACE_PARAMETERS,
    described_parameters,
    parse_parameters,
    parse_place,
    refuse_cursor_of_another_list,
)
from api.errors import customer_not_found
from api.http.dependencies import Dependencies
from api.http.endpoint import READ_CUSTOMERS, ScopedOperation
from api.http.request import ApiRequest
from api.openapi.parameters import OF_CUSTOMER
from api.operation import ANY, PAYMENT_METHODS, OperationSpec, codes_of
from api.response import ApiResponse
from ledger.operations.payment_methods.change import find_customer
from projections.payment_methods import METHOD_CURSORS, MethodQuery, SavedPaymentMethodPage

PARAMETERS: Final = PLACE_PARAMETERS


async def customer_of(deps: Dependencies, request: ApiRequest) -> UUID:
    """Returns the customer in the path. Raises CustomerNotFound, also for an erased one."""
    reference = request.path_id("customerId")
    if reference is None:
        raise customer_not_found()
    return await find_customer(deps.ledger, request.principal.merchant_id, reference)


def parse_method_query(query: bytes) -> MethodQuery:
    """Returns the page that a query string asks for (N53). Raises ApiError (400), with every wrong parameter."""
    given, errors = parse_parameters(query, PARAMETERS)
    place = errors.check(parse_place, given, METHOD_CURSORS.parse)
    errors.refuse()
    assert place is not None, "what was not parsed was refused"
    return MethodQuery(limit=place.limit, offset=place.offset, cursor=place.cursor)


async def list_methods(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """GET /customers/{customerId}/payment-methods: the default first, then the newest."""
    query = parse_method_query(request.query)
    customer_id = await customer_of(deps, request)
    refuse_cursor_of_another_list(query, customer_id)
    return ApiResponse(200, await deps.queries.payment_methods(request.principal.merchant_id, customer_id, query))


LIST_METHODS: Final = ScopedOperation(
    list_methods,
    READ_CUSTOMERS,
    OperationSpec(
        name="listPaymentMethods",
        summary="List a customer's payment methods",
        description="A page of the customer's saved payment methods without deleted ones: the default first, then "
        "the newest.",
        parameters=(OF_CUSTOMER, *described_parameters(PARAMETERS)),
        answers={200: ("A page of payment methods.", SavedPaymentMethodPage)},
        codes=codes_of(ANY, {400: ("CONFLICTING_FIELDS",), 404: ("CUSTOMER_NOT_FOUND",)}),
        tag=PAYMENT_METHODS,
    ),
)
