"""GET /v1/subscriptions/{id}: one subscription."""

from __future__ import annotations

from typing import Final

from api import operation
from api.http.dependencies import Dependencies
from api.http.endpoint import SUBSCRIPTIONS, ScopedOperation
from api.http.request import ApiRequest
from api.openapi.parameters import SUBSCRIPTION_ID
from api.operation import ANY, OperationSpec, codes_of
from api.response import ApiResponse
from api.subscriptions.responses import subscription_not_found, subscription_reference
from projections.subscriptions.subscriptions import SubscriptionDocument


async def show(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """GET /v1/subscriptions/{id}: the subscription."""
    reference = subscription_reference(request)
    document = await deps.queries.subscription(request.principal.merchant_id, reference)
    if document is None:
        raise subscription_not_found()
    return ApiResponse(200, document)


SHOW_SUBSCRIPTION: Final = ScopedOperation(
    show,
    SUBSCRIPTIONS,
    OperationSpec(
        name="getSubscription",
        summary="Get a subscription",
        description="The subscription, with its plan as it is now.",
        parameters=(SUBSCRIPTION_ID,),
        answers={200: ("The subscription.", SubscriptionDocument)},
        codes=codes_of(ANY, {404: ("SUBSCRIPTION_NOT_FOUND",)}),
        tag=operation.SUBSCRIPTIONS,
    ),
)
