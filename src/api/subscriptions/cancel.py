"""POST /v1/subscriptions/{id}/cancel and /resume: cancels a subscription, and takes a cancellation back."""

from __future__ import annotations

from typing import Final

from api import operation
from api.http.dependencies import Dependencies
from api.http.endpoint import SUBSCRIPTIONS, ScopedOperation
from api.http.request import ApiRequest
from api.openapi.parameters import IDEMPOTENCY_KEY, SUBSCRIPTION_ID
from api.operation import ANY, BODY, OperationSpec, codes_of
from api.response import ApiResponse
from api.subscriptions.fields import CancelSubscription, parse_cancel
from api.subscriptions.responses import WRITE, subscription_reference, subscription_response
from ledger.operations.subscriptions.cancel import cancel_subscription, resume_subscription
from projections.subscriptions.subscriptions import SubscriptionDocument


async def cancel(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """POST /v1/subscriptions/{id}/cancel: 200 with the subscription as it is now."""
    body = await request.optional_body(deps.body_limit)
    at_period_end = parse_cancel(body)
    reference = subscription_reference(request)
    key = request.idempotency_key(deps.fingerprint_key, body)
    result = await cancel_subscription(deps.ledger, request.actor, reference, at_period_end=at_period_end, key=key)
    return await subscription_response(deps, request, result)


async def resume(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """POST /v1/subscriptions/{id}/resume: 200, even if nothing was to be taken back."""
    body = await request.optional_body(deps.body_limit)
    reference = subscription_reference(request)
    key = request.idempotency_key(deps.fingerprint_key, body)
    result = await resume_subscription(deps.ledger, request.actor, reference, key)
    return await subscription_response(deps, request, result)


CANCEL_SUBSCRIPTION: Final = ScopedOperation(
    cancel,
    SUBSCRIPTIONS,
    OperationSpec(
        name="cancelSubscription",
        summary="Cancel a subscription",
        description="""
Without a body, the subscription goes on until its current period ends, and can be resumed until then. With
`atPeriodEnd: false` it ends now, and what was paid stays paid. A subscription that is `UNPAID` always ends now.
""",
        parameters=(SUBSCRIPTION_ID, IDEMPOTENCY_KEY),
        takes=CancelSubscription,
        optional=True,
        examples={
            "periodEnd": {"summary": "At the end of the period", "value": {}},
            "now": {"summary": "Now", "value": {"atPeriodEnd": False}},
        },
        answers={200: ("The subscription as it is now.", SubscriptionDocument)},
        codes=codes_of(ANY, BODY, WRITE),
        tag=operation.SUBSCRIPTIONS,
        replays=True,
    ),
)
RESUME_SUBSCRIPTION: Final = ScopedOperation(
    resume,
    SUBSCRIPTIONS,
    OperationSpec(
        name="resumeSubscription",
        summary="Resume a subscription",
        description="""
Takes back a cancellation at the end of the period. A subscription that is not being cancelled stays as it is; one that
has ended cannot be resumed.
""",
        parameters=(SUBSCRIPTION_ID, IDEMPOTENCY_KEY),
        answers={200: ("The subscription as it is now.", SubscriptionDocument)},
        codes=codes_of(ANY, WRITE),
        tag=operation.SUBSCRIPTIONS,
        replays=True,
    ),
)
