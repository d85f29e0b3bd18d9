"""GET /v1/plans/{id}: one plan."""

from __future__ import annotations

from typing import Final

from api.http.dependencies import Dependencies
from api.http.endpoint import SUBSCRIPTIONS, ScopedOperation
from api.http.request import ApiRequest
from api.openapi.parameters import PLAN_ID
from api.operation import ANY, PLANS, OperationSpec, codes_of
from api.response import ApiResponse
from api.subscriptions.plans.fields import plan_not_found, plan_reference
from projections.subscriptions.plans import PlanDocument


async def show(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """GET /v1/plans/{id}: the plan, archived or not."""
    document = await deps.queries.plan(request.principal.merchant_id, plan_reference(request))
    if document is None:
        raise plan_not_found()
    return ApiResponse(200, document)


SHOW_PLAN: Final = ScopedOperation(
    show,
    SUBSCRIPTIONS,
    OperationSpec(
        name="getPlan",
        summary="Get a plan",
        description="The plan as it is now, also where it is archived.",
        parameters=(PLAN_ID,),
        answers={200: ("The plan.", PlanDocument)},
        codes=codes_of(ANY, {404: ("PLAN_NOT_FOUND",)}),
        tag=PLANS,
    ),
)
