"""GET /v1/subscriptions: a page of the merchant's subscriptions (contract N53, N62, N63)."""

from __future__ import annotations

from typing import Final

from api import operation
from api.decoding.query import (
    PLACE_PARAMETERS,
    Parameters,
    described_parameters,
    parse_choices,
    parse_parameters,
    parse_place,
    parse_text,
)
from api.decoding.types import TEXT_MAX
from api.http.dependencies import Dependencies
from api.http.endpoint import SUBSCRIPTIONS, ScopedOperation
from api.http.request import ApiRequest
from api.operation import ANY, OperationSpec, codes_of
from api.response import ApiResponse
from ledger.domain.subscriptions.state import SubscriptionStatus
from projections.lists.cursor import CURSORS
from projections.subscriptions.subscriptions import SubscriptionPage, SubscriptionQuery

PARAMETERS: Final[Parameters] = {
    "customerId": (
        "Subscriptions of this customer, by service id or external id.",
        {"type": "string", "minLength": 1, "maxLength": TEXT_MAX},
    ),
    "planId": (
        "Subscriptions to this plan, by service id or external id.",
        {"type": "string", "minLength": 1, "maxLength": TEXT_MAX},
    ),
    "status": (
        "One or more statuses, separated by commas.",
        {"type": "array", "items": {"type": "string", "enum": list(SubscriptionStatus)}, "minItems": 1},
    ),
    **PLACE_PARAMETERS,
}
"""The query of the list of subscriptions. All but `status` may be given once."""


def parse_subscription_query(query: bytes) -> SubscriptionQuery:
    """Returns the list that a query string asks for. Raises ApiError (400), with every wrong parameter."""
    given, errors = parse_parameters(query, PARAMETERS, lists=("status",))
    place = errors.check(parse_place, given, CURSORS.parse)
    statuses = errors.check(parse_choices, given, "status", SubscriptionStatus)
    customer, plan = [errors.check(parse_text, given, name) for name in ("customerId", "planId")]
    errors.refuse()
    assert place is not None, "what was not parsed was refused"
    return SubscriptionQuery(
        customer=customer,
        plan=plan,
        statuses=statuses or (),
        limit=place.limit,
        offset=place.offset,
        cursor=place.cursor,
    )


async def list_subscriptions(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """GET /v1/subscriptions: a page of the merchant's subscriptions, the newest first."""
    query = parse_subscription_query(request.query)
    return ApiResponse(200, await deps.queries.subscriptions(request.principal.merchant_id, query))


LIST_SUBSCRIPTIONS: Final = ScopedOperation(
    list_subscriptions,
    SUBSCRIPTIONS,
    OperationSpec(
        name="listSubscriptions",
        summary="List subscriptions",
        description="A page of the merchant's subscriptions, the newest first, and the number of all of them.",
        parameters=described_parameters(PARAMETERS),
        answers={200: ("A page of subscriptions.", SubscriptionPage)},
        codes=codes_of(ANY, {400: ("CONFLICTING_FIELDS",)}),
        tag=operation.SUBSCRIPTIONS,
    ),
)
