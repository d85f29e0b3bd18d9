"""The shared parts of the endpoints of subscriptions: the id in the path, and the answer with a subscription."""

from __future__ import annotations

from typing import Final

from api.http.dependencies import Dependencies
from api.http.request import ApiRequest
from api.operation import IDEMPOTENT, Codes, codes_of
from api.response import REPLAYED, ApiResponse
from ledger.domain import streams
from ledger.domain.rejections import Rejected
from ledger.domain.subscriptions.state import Subscription
from ledger.operations.pipeline.execute_stream import StreamResult
from projections.subscriptions.subscriptions import answer

WRITE: Final[Codes] = codes_of(IDEMPOTENT, {404: ("SUBSCRIPTION_NOT_FOUND",), 409: ("SUBSCRIPTION_CANCELED",)})
"""The codes of every write of an existing subscription."""
CHARGE: Final[Codes] = {
    422: ("PAYMENT_DECLINED", "RISK_REJECTED", "PAYMENT_METHOD_EXPIRED"),
    503: ("PROCESSOR_UNAVAILABLE",),
}
"""The codes of a request that charges the customer's card."""


def subscription_reference(request: ApiRequest) -> str:
    """Returns the id or external id of the subscription in the path. Raises SubscriptionNotFound for any other text."""
    reference = request.path_id("id")
    if reference is None:
        raise subscription_not_found()
    return reference


def subscription_not_found() -> Rejected:
    """Returns the rejection of an id under which the merchant has no subscription."""
    return streams.SUBSCRIPTIONS.missing()


async def subscription_response(
    deps: Dependencies, request: ApiRequest, result: StreamResult[Subscription], status: int = 200
) -> ApiResponse:
    """Returns the subscription after a request, with its plan as it is now."""
    merchant_id, subscription = request.principal.merchant_id, result.state
    plan = await deps.queries.plan(merchant_id, str(subscription.plan_id))
    assert plan is not None, "the plan of a subscription is never deleted"
    headers = REPLAYED if result.replayed or result.repeated else ()
    return ApiResponse(status, answer(merchant_id, subscription, plan), headers)
