"""GET /v1/subscriptions: a page of the merchant's subscriptions (contract N53, N62, N63)."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from api import operation
from api.decoding.query import (
    PLACE_PARAMETERS,
    Parameters,
    described_parameters,
    parse_choices,
    parse_parameters,
    parse_text,
    refuse_cursor_of_another_list,
)
from api.decoding.types import TEXT_MAX
from api.fields.as_of import LIST_PARAMETER, parse_as_of, parse_list_place, refuse_future
from api.http.dependencies import Dependencies
from api.http.endpoint import SUBSCRIPTIONS, ScopedOperation
from api.http.request import ApiRequest
from api.operation import ANY, OperationSpec, codes_of
from api.orders.responses import merchant_now
from api.response import ApiResponse
from ledger.domain.subscriptions.state import SubscriptionStatus
from projections.as_of.points import page_with_place
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
    **LIST_PARAMETER,
    **PLACE_PARAMETERS,
}
"""The query of the list of subscriptions. All but `status` may be given once."""


def parse_subscription_query(query: bytes, now: datetime) -> SubscriptionQuery:
    """Returns the list that a query string asks for. `now` is aware, in the merchant's time zone. Raises ApiError
    (400), with every wrong parameter.
    """
    given, errors = parse_parameters(query, PARAMETERS, lists=("status",))
    as_of = errors.check(parse_as_of, given, now)
    place = errors.check(parse_list_place, given, as_of, CURSORS.parse)
    statuses = errors.check(parse_choices, given, "status", SubscriptionStatus)
    customer, plan = [errors.check(parse_text, given, name) for name in ("customerId", "planId")]
    errors.refuse()
    assert place is not None, "what was not parsed was refused"
    asked = SubscriptionQuery(
        customer=customer,
        plan=plan,
        statuses=statuses or (),
        limit=place.limit,
        offset=place.offset,
        cursor=place.cursor,
        as_of=as_of,
    )
    refuse_cursor_of_another_list(asked)
    return asked


async def list_subscriptions(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """GET /v1/subscriptions: a page of the merchant's subscriptions, the newest first, now or as of a time."""
    query, merchant_id = (
        parse_subscription_query(request.query, merchant_now(deps, request)),
        request.principal.merchant_id,
    )
    if query.as_of is None:
        return ApiResponse(200, await deps.queries.subscriptions(merchant_id, query))
    await refuse_future(deps, merchant_id, query.as_of)
    plan = None if query.plan is None else await deps.queries.plan(merchant_id, query.plan)
    return ApiResponse(200, await deps.past_subscriptions.page(merchant_id, query, plan))


LIST_SUBSCRIPTIONS: Final = ScopedOperation(
    list_subscriptions,
    SUBSCRIPTIONS,
    OperationSpec(
        name="listSubscriptions",
        summary="List subscriptions",
        description="""
A page of the merchant's subscriptions, the newest first, and the number of all of them; with `asOf` as they were at
that time, with their plans of then. Where more than 50,000 would have to be folded for it, it is 422
`REPORT_TOO_LARGE`.
""",
        parameters=described_parameters(PARAMETERS),
        answers={200: ("A page of subscriptions.", page_with_place(SubscriptionPage, "SubscriptionAsOfPage"))},
        codes=codes_of(ANY, {400: ("CONFLICTING_FIELDS",), 422: ("REPORT_TOO_LARGE",)}),
        tag=operation.SUBSCRIPTIONS,
    ),
)
