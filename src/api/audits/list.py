"""GET /v1/audits: a page of the audits that the merchant has asked for."""

from __future__ import annotations

from typing import Final

from api import operation
from api.decoding.query import (
    PLACE_PARAMETERS,
    described_parameters,
    parse_parameters,
    parse_place,
    refuse_cursor_of_another_list,
)
from api.http.dependencies import Dependencies
from api.http.endpoint import AUDIT, ScopedOperation
from api.http.request import ApiRequest
from api.operation import ANY, OperationSpec, codes_of
from api.response import ApiResponse
from projections.audits import AuditPage, AuditQuery
from projections.lists.cursor import CURSORS


def parse_query(query: bytes) -> AuditQuery:
    """Returns the page that a query string asks for. Raises ApiError (400), with every wrong parameter."""
    given, errors = parse_parameters(query, PLACE_PARAMETERS)
    place = errors.check(parse_place, given, CURSORS.parse)
    errors.refuse()
    assert place is not None, "what was not parsed was refused"
    asked = AuditQuery(limit=place.limit, offset=place.offset, cursor=place.cursor)
    refuse_cursor_of_another_list(asked)
    return asked


async def list_audits(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """GET /v1/audits: a page of the merchant's audits, the newest first."""
    query = parse_query(request.query)
    return ApiResponse(200, await deps.queries.audits(request.principal.merchant_id, query))


LIST_AUDITS: Final = ScopedOperation(
    list_audits,
    AUDIT,
    OperationSpec(
        name="listAudits",
        summary="List audits",
        description="A page of the merchant's audits, the newest first. The newest hundred are kept.",
        parameters=described_parameters(PLACE_PARAMETERS),
        answers={200: ("A page of audits.", AuditPage)},
        codes=codes_of(ANY, {400: ("CONFLICTING_FIELDS",)}),
        tag=operation.AUDIT,
    ),
)
