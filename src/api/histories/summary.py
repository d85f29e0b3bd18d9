"""GET /v1/summary: the merchant's orders and subscriptions in sums, now or as of a time."""

from __future__ import annotations

from typing import Final

from api import operation
from api.decoding.query import described_parameters, parse_parameters
from api.fields.as_of import PARAMETERS as PAST_PARAMETERS
from api.fields.as_of import asked_in
from api.http.dependencies import Dependencies
from api.http.endpoint import AUDIT, ScopedOperation
from api.http.request import ApiRequest
from api.operation import ANY, OperationSpec, codes_of
from api.response import ApiResponse
from projections.as_of.summaries import SummaryDocument

PARAMETERS: Final = {
    "asOf": (
        "The time of the merchant's clock, to the millisecond; without it, the present.",
        PAST_PARAMETERS["asOf"][1],
    )
}


async def summarize(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """GET /v1/summary: 200 with a line for each currency and status."""
    asked = await asked_in(deps, request, *parse_parameters(request.query, PARAMETERS))
    merchant_id = request.principal.merchant_id
    now = deps.ledger.clock.now(merchant_id)
    return ApiResponse(200, await deps.summaries.summary(merchant_id, None if asked is None else asked.as_of, now))


SUMMARIZE: Final = ScopedOperation(
    summarize,
    AUDIT,
    OperationSpec(
        name="getSummary",
        summary="Read the orders and subscriptions in sums",
        description="""
For each currency and status the number of orders with the sums of their amounts, and for each status the number of
subscriptions, now or as they were at a time. The summary of a merchant with more than 200,000 orders, or of a time
behind which more than 50,000 orders have changed, is 422 `REPORT_TOO_LARGE`.
""",
        parameters=described_parameters(PARAMETERS),
        answers={200: ("The summary.", SummaryDocument)},
        codes=codes_of(ANY, {422: ("REPORT_TOO_LARGE",)}),
        tag=operation.AUDIT,
    ),
)
