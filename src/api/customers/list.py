"""GET /customers: a page of the merchant's customers.

`limit` and `offset` are canonical, `page` and `cursor` are accepted (contract N51, N53). Every wrong parameter is named
in one 400.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from api.customers.fields import TAG
from api.dependencies import Dependencies
from api.fields.query import (
    LIMIT_DEFAULT,
    LIMIT_MAX,
    WHOLE_MAX,
    described,
    parameters,
    require_one_place,
    text,
    whole,
)
from api.fields.types import TEXT_MAX
from api.http.endpoint import ScopedOperation
from api.http.errors import Problems, invalid
from api.http.request import ApiRequest
from api.http.response import ApiResponse
from api.openapi.operation import ANY, Json, OperationSpec, codes_of
from ledger.security.api_keys import Scope
from projections.lists.customers import CustomerCursor, CustomerPage, CustomerQuery, parse_customer_cursor

PARAMETERS: Final[Mapping[str, tuple[str, Json]]] = {
    "limit": (
        f"The number of customers on a page, 1 to {LIMIT_MAX}; default {LIMIT_DEFAULT}.",
        {"type": "integer", "minimum": 1, "maximum": LIMIT_MAX, "default": LIMIT_DEFAULT},
    ),
    "offset": (
        "The number of customers to skip. Cannot be combined with page or cursor.",
        {"type": "integer", "minimum": 0, "maximum": WHOLE_MAX, "default": 0},
    ),
    "page": ("The number of the page, from 1.", {"type": "integer", "minimum": 1, "maximum": WHOLE_MAX}),
    "cursor": (
        "The `nextCursor` of the page before: the fastest way to read the next page.",
        {"type": "string", "minLength": 1},
    ),
    "email": (
        "Customers with this e-mail address; upper and lower case are equal.",
        {"type": "string", "maxLength": TEXT_MAX},
    ),
    "externalId": ("The customer with this external id.", {"type": "string", "maxLength": TEXT_MAX}),
    "search": (
        "Part of the external id, the full name, the e-mail or the phone; upper and lower case are equal.",
        {"type": "string", "maxLength": TEXT_MAX},
    ),
}
"""The query of the list of customers: what a parameter means, and its schema. All may be given once."""


def parse_customer_query(query: bytes) -> CustomerQuery:
    """Returns the list that a query string asks for. Raises ApiError (400)."""
    given = parameters(query, PARAMETERS.keys())
    problems = Problems()
    limit = problems.check(whole, given, "limit", LIMIT_DEFAULT, 1, LIMIT_MAX) or LIMIT_DEFAULT
    page = problems.check(whole, given, "page", 1, 1, WHOLE_MAX) or 1
    offset = problems.check(whole, given, "offset", (page - 1) * limit, 0, WHOLE_MAX) or 0
    problems.check(require_one_place, given)
    parsed = CustomerQuery(
        email=problems.check(text, given, "email"),
        external_id=problems.check(text, given, "externalId"),
        search=problems.check(text, given, "search"),
        limit=limit,
        offset=offset,
        cursor=problems.check(_cursor, given),
    )
    problems.raise_all(list(given))
    return parsed


def _cursor(given: Mapping[str, str]) -> CustomerCursor | None:
    if "cursor" not in given:
        return None
    cursor = parse_customer_cursor(given["cursor"])
    if cursor is None:
        raise invalid("cursor", "must be the nextCursor of another page")
    return cursor


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
        parameters=tuple(described(name, *about) for name, about in PARAMETERS.items()),
        answers={200: ("A page of customers.", CustomerPage)},
        codes=codes_of(ANY, {400: ("CONFLICTING_FIELDS",)}),
        tag=TAG,
    ),
)
