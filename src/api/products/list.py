"""GET /products: a page of the merchant's products."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from api import operation
from api.decoding.field_errors import FieldErrors
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
from api.http.endpoint import PRODUCTS, ScopedOperation
from api.http.request import ApiRequest
from api.operation import ANY, OperationSpec, codes_of
from api.response import ApiResponse
from projections.lists.cursor import CURSORS
from projections.products import ProductPage, ProductQuery

PARAMETERS: Final[Parameters] = {
    "status": (
        "One or more statuses, separated by commas. Products may have statuses of the merchant's own.",
        {"type": "array", "items": {"type": "string"}, "minItems": 1},
    ),
    "search": (
        (
            "Words, each of which is a part of the id, the name, the sku or the external id, in any order and whatever their "
            "case and accents."
        ),
        {"type": "string", "maxLength": TEXT_MAX},
    ),
    **PLACE_PARAMETERS,
}
"""The query of the product list. All but `status` may be given once."""


def parse_product_query(query: bytes) -> ProductQuery:
    """Returns the list that a query string asks for. Raises ApiError (400), with every wrong parameter."""
    given, errors = _parameters(query)
    place = errors.check(parse_place, given, CURSORS.parse)
    search = errors.check(parse_text, given, "search")
    errors.refuse()
    assert place is not None, "what was not parsed was refused"
    statuses = [status.strip() for status in given.get("status", "").split(",")]
    asked = ProductQuery(
        statuses=tuple(dict.fromkeys(status for status in statuses if status)),
        search=search,
        limit=place.limit,
        offset=place.offset,
        cursor=place.cursor,
    )
    refuse_cursor_of_another_list(asked)
    return asked


def _parameters(query: bytes) -> tuple[Mapping[str, str], FieldErrors]:
    return parse_parameters(query, PARAMETERS, lists=("status",))


async def list_products(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """GET /products: a page of the merchant's products, the newest first."""
    query = parse_product_query(request.query)
    return ApiResponse(200, await deps.queries.products(request.principal.merchant_id, query))


LIST_PRODUCTS: Final = ScopedOperation(
    list_products,
    PRODUCTS,
    OperationSpec(
        name="listProducts",
        summary="List products",
        description="A page of the merchant's products, the newest first, and the number of all of them.",
        parameters=described_parameters(PARAMETERS),
        answers={200: ("A page of products.", ProductPage)},
        codes=codes_of(ANY, {400: ("CONFLICTING_FIELDS",)}),
        tag=operation.PRODUCTS,
    ),
    by_key_alone=True,
)
