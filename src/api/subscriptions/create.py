"""POST /v1/subscriptions: creates a subscription."""

from __future__ import annotations

from typing import Final

from api import operation
from api.http.dependencies import Dependencies
from api.http.endpoint import SUBSCRIPTIONS, ScopedOperation
from api.http.request import ApiRequest
from api.openapi.parameters import IDEMPOTENCY_KEY
from api.operation import ANY, BODY, IDEMPOTENT, OperationSpec, codes_of
from api.orders.responses import merchant_now
from api.response import ApiResponse
from api.subscriptions.fields import EXAMPLE, CreateSubscription, parse_create
from api.subscriptions.responses import CHARGE, subscription_response
from ledger.operations.subscriptions.create import create_subscription
from projections.subscriptions.subscriptions import SubscriptionDocument


async def create(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """POST /v1/subscriptions: 201 once the first charge is approved, or the trial has begun."""
    body = await request.body(deps.body_limit)
    parsed = parse_create(body, merchant_now(deps, request))
    key = request.idempotency_key(deps.fingerprint_key, body)
    result = await create_subscription(deps.ledger, request.actor, parsed, key)
    return await subscription_response(deps, request, result, 201)


CREATE_SUBSCRIPTION: Final = ScopedOperation(
    create,
    SUBSCRIPTIONS,
    OperationSpec(
        name="createSubscription",
        summary="Create a subscription",
        description="""
Charges the first period to the saved card, and the later ones when they are due. With a trial, or a `startDate` in the
future, the first charge is due at its end, and the status is `TRIALING` until then. Where the first charge is declined,
there is no subscription, and the answer is 422. Send an `Idempotency-Key` or an `externalId`, so that a request that is
sent again creates no second subscription.
""",
        parameters=(IDEMPOTENCY_KEY,),
        takes=CreateSubscription,
        examples={
            "now": {"summary": "The first period is charged now", "value": EXAMPLE},
            "trial": {"summary": "On trial until a date", "value": EXAMPLE | {"trialEnd": "2027-01-31T12:00:00-06:00"}},
        },
        answers={201: ("The new subscription.", SubscriptionDocument)},
        codes=codes_of(
            ANY,
            BODY,
            IDEMPOTENT,
            CHARGE,
            {
                404: ("CUSTOMER_NOT_FOUND", "PLAN_NOT_FOUND", "PAYMENT_METHOD_NOT_FOUND"),
                409: ("DUPLICATE_EXTERNAL_ID",),
                422: ("METHOD_NOT_ENABLED", "CURRENCY_MISMATCH", "AMOUNT_NOT_CHARGEABLE"),
            },
        ),
        tag=operation.SUBSCRIPTIONS,
        replays=True,
        has_order=False,
    ),
)
