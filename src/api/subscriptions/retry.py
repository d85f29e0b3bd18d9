"""POST /v1/subscriptions/{id}/retry: charges the oldest open invoice now."""

from __future__ import annotations

from typing import Final

from api import operation
from api.http.dependencies import Dependencies
from api.http.endpoint import SUBSCRIPTIONS, ScopedOperation
from api.http.request import ApiRequest
from api.openapi.parameters import IDEMPOTENCY_KEY, SUBSCRIPTION_ID
from api.operation import ANY, BODY, OperationSpec, codes_of
from api.response import ApiResponse
from api.subscriptions.fields import RetrySubscription, parse_retry
from api.subscriptions.responses import CHARGE, WRITE, subscription_reference, subscription_response
from ledger.operations.subscriptions.retry import retry_charge
from projections.subscriptions.subscriptions import SubscriptionDocument


async def retry(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """POST /v1/subscriptions/{id}/retry: 200 once the charge is approved, and if nothing is open."""
    body = await request.optional_body(deps.body_limit)
    drafts = parse_retry(body)
    reference = subscription_reference(request)
    key = request.idempotency_key(deps.fingerprint_key, body)
    result = await retry_charge(deps.ledger, request.actor, reference, drafts=drafts, key=key)
    return await subscription_response(deps, request, result)


RETRY_SUBSCRIPTION: Final = ScopedOperation(
    retry,
    SUBSCRIPTIONS,
    OperationSpec(
        name="retrySubscription",
        summary="Charge the oldest open invoice",
        description="""
Charges the oldest open invoice to the saved card now, beside the retries of the plan. A charge that is in progress is
awaited: no second one begins. If no invoice is open, nothing happens.

With `all: true`, the drafts that `missedInvoices` lists are opened and charged as well, the oldest first, each once
those before it are paid. Without it they stay drafts, and a subscription that becomes `ACTIVE` begins a new period now.
The answer waits for the first charge alone; the invoices show the others.
""",
        parameters=(SUBSCRIPTION_ID, IDEMPOTENCY_KEY),
        takes=RetrySubscription,
        optional=True,
        examples={
            "oldest": {"summary": "The oldest open invoice", "value": {}},
            "all": {"summary": "The missed periods as well", "value": {"all": True}},
        },
        answers={200: ("The subscription as it is now.", SubscriptionDocument)},
        codes=codes_of(ANY, BODY, WRITE, CHARGE),
        tag=operation.SUBSCRIPTIONS,
        replays=True,
        has_order=False,
    ),
)
