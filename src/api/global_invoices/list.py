"""GET /v1/invoices/global: a page of the merchant's global invoices."""

from __future__ import annotations

from typing import Final

from api.decoding.query import (
    PLACE_PARAMETERS,
    described_parameters,
    parse_parameters,
    parse_place,
    refuse_cursor_of_another_list,
)
from api.http.dependencies import Dependencies
from api.http.endpoint import ScopedOperation
from api.http.request import ApiRequest
from api.operation import ANY, OperationSpec, codes_of
from api.orders.invoices.fields import TAG
from api.response import ApiResponse
from ledger.security.api_keys import Scope
from projections.global_invoices import GlobalInvoicePage, GlobalInvoiceQuery
from projections.lists.cursor import CURSORS


def parse_query(query: bytes) -> GlobalInvoiceQuery:
    """Returns the page that a query string asks for. Raises ApiError (400), with every wrong parameter."""
    given, errors = parse_parameters(query, PLACE_PARAMETERS)
    place = errors.check(parse_place, given, CURSORS.parse)
    errors.refuse()
    assert place is not None, "what was not parsed was refused"
    asked = GlobalInvoiceQuery(limit=place.limit, offset=place.offset, cursor=place.cursor)
    refuse_cursor_of_another_list(asked)
    return asked


async def list_global_invoices(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """GET /v1/invoices/global: a page of the merchant's global invoices, the newest first."""
    query = parse_query(request.query)
    return ApiResponse(200, await deps.queries.global_invoices(request.principal.merchant_id, query))


LIST: Final = ScopedOperation(
    list_global_invoices,
    Scope.FISCAL,
    OperationSpec(
        name="listGlobalInvoices",
        summary="List global invoices",
        description="A page of the merchant's global invoices, the newest first, and the number of all of them.",
        parameters=described_parameters(PLACE_PARAMETERS),
        answers={200: ("A page of global invoices.", GlobalInvoicePage)},
        codes=codes_of(ANY, {400: ("CONFLICTING_FIELDS",)}),
        tag=TAG,
    ),
)
