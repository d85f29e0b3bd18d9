"""PUT /v1/subscriptions/{id}: changes a subscription."""

from __future__ import annotations

from typing import Final

from api import operation
from api.http.dependencies import Dependencies
from api.http.endpoint import SUBSCRIPTIONS, ScopedOperation
from api.http.request import ApiRequest
from api.openapi.parameters import IDEMPOTENCY_KEY, SUBSCRIPTION_ID
from api.operation import ANY, BODY, OperationSpec, codes_of
from api.response import ApiResponse
from api.subscriptions.fields import ChangeSubscription, parse_change
from api.subscriptions.responses import WRITE, subscription_reference, subscription_response
from ledger.operations.subscriptions.change import change_subscription
from projections.subscriptions.subscriptions import SubscriptionDocument


async def change(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """PUT /v1/subscriptions/{id}: 200 with the subscription as it is now."""
    body = await request.body(deps.body_limit)
    parsed = parse_change(body)
    reference = subscription_reference(request)
    key = request.idempotency_key(deps.fingerprint_key, body)
    result = await change_subscription(deps.ledger, request.actor, reference, parsed, key)
    return await subscription_response(deps, request, result)


CHANGE_SUBSCRIPTION: Final = ScopedOperation(
    change,
    SUBSCRIPTIONS,
    OperationSpec(
        name="changeSubscription",
        summary="Change a subscription",
        description="""
Changes the plan, the saved card or the metadata. With another plan, `prorationBehavior` settles the rest of the current
period: a credit for the old plan and a charge for the new one, to the second. A credit is never paid out: it reduces the
next invoices. `pendingLines` has the lines that wait for the next invoice, at most 100. Where another card is charged at once and declined, the answer is 200 all the same: read the status.
""",
        parameters=(SUBSCRIPTION_ID, IDEMPOTENCY_KEY),
        takes=ChangeSubscription,
        examples={
            "plan": {
                "summary": "Another plan, invoiced now",
                "value": {"planId": "cafe-del-mes", "prorationBehavior": "INVOICE_NOW"},
            },
            "card": {
                "summary": "Another card",
                "value": {"paymentMethodId": "0198c9a4-51f0-7bb4-9f3c-2f6c1f0a7d11"},
            },
        },
        answers={200: ("The subscription as it is now.", SubscriptionDocument)},
        codes=codes_of(
            ANY,
            BODY,
            WRITE,
            {
                404: ("PLAN_NOT_FOUND", "PAYMENT_METHOD_NOT_FOUND"),
                409: ("TOO_MANY_PENDING_LINES",),
                422: ("CURRENCY_MISMATCH", "PAYMENT_METHOD_EXPIRED", "AMOUNT_NOT_CHARGEABLE"),
                503: ("PROCESSOR_UNAVAILABLE",),
            },
        ),
        tag=operation.SUBSCRIPTIONS,
        replays=True,
    ),
)
