"""GET /v1/plans: a page of the merchant's plans."""

from __future__ import annotations

from typing import Final

from api.decoding.query import (
    PLACE_PARAMETERS,
    Parameters,
    described_parameters,
    parse_choices,
    parse_parameters,
    parse_place,
    refuse_cursor_of_another_list,
)
from api.http.dependencies import Dependencies
from api.http.endpoint import SUBSCRIPTIONS, ScopedOperation
from api.http.request import ApiRequest
from api.operation import ANY, PLANS, OperationSpec, codes_of
from api.response import ApiResponse
from ledger.domain.plans.terms import PlanStatus
from projections.lists.cursor import CURSORS
from projections.subscriptions.plans import PlanPage, PlanQuery

PARAMETERS: Final[Parameters] = {
    "status": (
        "One or more statuses, separated by commas; without it, plans of every status.",
        {"type": "array", "items": {"type": "string", "enum": list(PlanStatus)}, "minItems": 1},
    ),
    **PLACE_PARAMETERS,
}
"""The query of the list of plans. All but `status` may be given once."""


def parse_plan_query(query: bytes) -> PlanQuery:
    """Returns the list that a query string asks for. Raises ApiError (400), with every wrong parameter."""
    given, errors = parse_parameters(query, PARAMETERS, lists=("status",))
    place = errors.check(parse_place, given, CURSORS.parse)
    statuses = errors.check(parse_choices, given, "status", PlanStatus)
    errors.refuse()
    assert place is not None, "what was not parsed was refused"
    asked = PlanQuery(statuses=statuses or (), limit=place.limit, offset=place.offset, cursor=place.cursor)
    refuse_cursor_of_another_list(asked)
    return asked


async def list_plans(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """GET /v1/plans: a page of the merchant's plans, the newest first."""
    query = parse_plan_query(request.query)
    return ApiResponse(200, await deps.queries.plans(request.principal.merchant_id, query))


LIST_PLANS: Final = ScopedOperation(
    list_plans,
    SUBSCRIPTIONS,
    OperationSpec(
        name="listPlans",
        summary="List plans",
        description="A page of the merchant's plans, the newest first, and the number of all of them.",
        parameters=described_parameters(PARAMETERS),
        answers={200: ("A page of plans.", PlanPage)},
        codes=codes_of(ANY, {400: ("CONFLICTING_FIELDS",)}),
        tag=PLANS,
    ),
)
