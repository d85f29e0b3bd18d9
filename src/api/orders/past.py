"""What the reads of an order's past share: the order that a path names, as it was."""

from __future__ import annotations

from uuid import UUID

from api.errors import order_not_found
from api.http.dependencies import Dependencies
from api.http.request import ApiRequest
from ledger.domain import streams
from projections.as_of.points import Asked
from projections.as_of.reads import PastOrder


async def past_order(deps: Dependencies, request: ApiRequest, asked: Asked) -> PastOrder:
    """Returns the order in the path as it was. Raises OrderNotFound if it did not exist then, VersionNotFound."""
    merchant_id = request.principal.merchant_id
    row = await deps.queries.order(merchant_id, request.order_reference())
    if row is None:
        raise order_not_found()
    request.order_id = row.order_id
    past = await deps.past.order(merchant_id, UUID(row.order_id), UUID(row.customer_id), asked)
    if past is None:
        raise streams.ORDERS.missing_then()
    return past
