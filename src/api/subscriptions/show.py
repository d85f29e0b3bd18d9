"""GET /v1/subscriptions/{id}: one subscription, as it is or as it was."""

from __future__ import annotations

from typing import Final

from api import operation
from api.fields.as_of import CODES, DESCRIBED, past_asked
from api.http.dependencies import Dependencies
from api.http.endpoint import SUBSCRIPTIONS, ScopedOperation
from api.http.request import ApiRequest
from api.openapi.parameters import SUBSCRIPTION_ID
from api.operation import ANY, OperationSpec, codes_of
from api.response import ApiResponse
from api.subscriptions.responses import subscription_not_found, subscription_reference
from ledger.domain import streams
from projections.as_of.points import with_place
from projections.subscriptions.subscriptions import SubscriptionDocument, subscription_id_in


async def show(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """GET /v1/subscriptions/{id}: the subscription."""
    asked, merchant_id = await past_asked(deps, request), request.principal.merchant_id
    document = await deps.queries.subscription(merchant_id, subscription_reference(request))
    if asked is not None and document is not None:
        document = await deps.past.subscription(merchant_id, subscription_id_in(document), asked)
        if document is None:
            raise streams.SUBSCRIPTIONS.missing_then()
    if document is None:
        raise subscription_not_found()
    return ApiResponse(200, document)


SHOW_SUBSCRIPTION: Final = ScopedOperation(
    show,
    SUBSCRIPTIONS,
    OperationSpec(
        name="getSubscription",
        summary="Get a subscription",
        description="The subscription, with its plan as it is now; with `asOf` or `version` both as they were then.",
        parameters=(SUBSCRIPTION_ID, *DESCRIBED),
        answers={200: ("The subscription.", with_place(SubscriptionDocument, "SubscriptionAsOfDocument"))},
        codes=codes_of(ANY, CODES, {404: ("SUBSCRIPTION_NOT_FOUND",)}),
        tag=operation.SUBSCRIPTIONS,
    ),
)
