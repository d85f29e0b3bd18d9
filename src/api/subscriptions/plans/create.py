"""POST /v1/plans: creates a plan."""

from __future__ import annotations

from typing import Final

from api.http.dependencies import Dependencies
from api.http.endpoint import SUBSCRIPTIONS, ScopedOperation
from api.http.request import ApiRequest
from api.openapi.parameters import IDEMPOTENCY_KEY
from api.operation import ANY, BODY, IDEMPOTENT, PLANS, OperationSpec, codes_of
from api.response import REPLAYED, ApiResponse
from api.subscriptions.plans.fields import EXAMPLE, CreatePlan, parse_create
from ledger.operations.plans.create import create_plan
from projections.subscriptions.plans import PlanDocument, render_plan


async def create(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """POST /v1/plans: 201 with the new plan."""
    body = await request.body(deps.body_limit)
    parsed = parse_create(body, request.principal.settings)
    key = request.idempotency_key(deps.fingerprint_key, body)
    result = await create_plan(deps.ledger, request.actor, parsed, key)
    return ApiResponse(201, render_plan(result.state), REPLAYED if result.repeated else ())


CREATE_PLAN: Final = ScopedOperation(
    create,
    SUBSCRIPTIONS,
    OperationSpec(
        name="createPlan",
        summary="Create a plan",
        description="""
Creates what subscriptions are charged: an amount for each period. A charge that fails is tried again `maxRetries`
times, `retryDelayHours` apart, unless the bank declines for good; then `onRetriesExhausted` decides.
""",
        parameters=(IDEMPOTENCY_KEY,),
        takes=CreatePlan,
        examples={
            "monthly": {"summary": "A month, after two weeks on trial", "value": EXAMPLE},
            "instalments": {
                "summary": "Six fortnights, then it ends",
                "value": {
                    "name": "Molino en seis quincenas",
                    "amount": "10817",
                    "currency": "MXN",
                    "interval": "HALF_MONTH",
                    "expiryCount": 6,
                    "maxRetries": 2,
                    "retryDelayHours": 24,
                    "onRetriesExhausted": "CANCEL",
                },
            },
        },
        answers={201: ("The new plan.", PlanDocument)},
        codes=codes_of(ANY, BODY, IDEMPOTENT, {409: ("DUPLICATE_EXTERNAL_ID",)}),
        tag=PLANS,
        replays=True,
    ),
)
