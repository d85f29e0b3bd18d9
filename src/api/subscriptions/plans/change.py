"""PUT /v1/plans/{id}: changes a plan."""

from __future__ import annotations

from typing import Final

from api.http.dependencies import Dependencies
from api.http.endpoint import SUBSCRIPTIONS, ScopedOperation
from api.http.request import ApiRequest
from api.openapi.parameters import IDEMPOTENCY_KEY, PLAN_ID
from api.operation import ANY, BODY, IDEMPOTENT, PLANS, OperationSpec, codes_of
from api.response import REPLAYED, ApiResponse
from api.subscriptions.plans.fields import ChangePlan, parse_change, plan_reference
from ledger.operations.plans.change import change_plan
from projections.subscriptions.plans import PlanDocument, render_plan


async def change(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """PUT /v1/plans/{id}: 200 with the plan as it is now."""
    body = await request.body(deps.body_limit)
    parsed = parse_change(body, request.principal.settings)
    reference = plan_reference(request)
    key = request.idempotency_key(deps.fingerprint_key, body)
    result = await change_plan(deps.ledger, request.actor, reference, parsed, key)
    return ApiResponse(200, render_plan(result.state), REPLAYED if result.replayed or result.repeated else ())


CHANGE_PLAN: Final = ScopedOperation(
    change,
    SUBSCRIPTIONS,
    OperationSpec(
        name="changePlan",
        summary="Change a plan",
        description="""
Changes the fields that are sent; the others stay as they are. `null` clears `description`, `expiryCount` and
`metadata`. Once a subscription has used the plan, its `amount`, `currency`, `interval` and `intervalCount` are fixed:
create another plan and move the subscriptions to it. Existing subscriptions keep the other terms as they were.
""",
        parameters=(PLAN_ID, IDEMPOTENCY_KEY),
        takes=ChangePlan,
        examples={
            "retries": {
                "summary": "Another name, and fewer retries",
                "value": {"name": "Café del mes", "maxRetries": 3, "retryDelayHours": 72},
            }
        },
        answers={200: ("The plan as it is now.", PlanDocument)},
        codes=codes_of(ANY, BODY, IDEMPOTENT, {404: ("PLAN_NOT_FOUND",), 409: ("PLAN_IN_USE",)}),
        tag=PLANS,
        replays=True,
    ),
)
