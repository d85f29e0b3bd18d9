"""GET /v2/payment-orders/{id}/refunds and …/{refundId}: an order's refunds, together or one of them (section 8.9)."""

from __future__ import annotations

from typing import Annotated, Final
from uuid import UUID

from msgspec import Meta, Struct

from api.decoding.query import Place, described_parameters
from api.decoding.types import TEXT_MAX
from api.fields.as_of import CODES, PART_PARAMETERS, past_parts_asked
from api.http.dependencies import Dependencies
from api.http.endpoint import READ, ScopedOperation
from api.http.request import ApiRequest
from api.openapi.parameters import ORDER_ID
from api.operation import ANY, Json, OperationSpec, codes_of
from api.orders.past import past_order
from api.response import ApiResponse, json_response, rendered
from ledger.domain.orders.state import Order
from ledger.domain.rejections import RefundNotFound
from ledger.operations.pipeline.unit_of_work import find_order
from projections.as_of.points import with_place
from projections.lists.paging import Pagination, cut
from projections.orders.refunds import RefundDocument, render_refund, render_refunds


class RefundPage(Struct, rename="camel"):
    """The refunds of an order."""

    data: Annotated[list[RefundDocument], Meta(description="The refunds, oldest first.")]
    pagination: Pagination


async def list_refunds(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """GET /v2/payment-orders/{id}/refunds: the order's refunds, oldest first."""
    asked, place = await past_parts_asked(deps, request)
    if asked is not None:
        past = await past_order(deps, request, asked)
        return ApiResponse(200, past.point.stated_in(_page(past.order, place).body))
    return _page(await _order(deps, request), place)


def _page(order: Order, place: Place[UUID] | None) -> ApiResponse:
    part, pagination = cut(place, [refund.refund_id for refund in order.refunds])
    refunds = [rendered(refund) for refund in render_refunds(order)]
    return json_response(200, RefundPage(data=refunds[part], pagination=pagination))


async def show_refund(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """GET /v2/payment-orders/{id}/refunds/{refundId}: one refund with what each payment gives back."""
    order, name = await _order(deps, request), request.path_id("refundId")
    by_id = {str(refund.refund_id): refund for refund in order.refunds}
    by_name = {refund.external_id: refund for refund in order.refunds if refund.external_id is not None}
    refund = None if name is None else by_id.get(name) or by_name.get(name)
    if refund is None:
        raise RefundNotFound("The order has no refund with this id.")
    return ApiResponse(200, render_refund(order, refund))


async def _order(deps: Dependencies, request: ApiRequest) -> Order:
    return await find_order(deps.ledger, request.principal.merchant_id, request.order_reference())


REFUND_ID: Final[Json] = {
    "name": "refundId",
    "in": "path",
    "required": True,
    "description": "The service's id of the refund, or the merchant's own external id of it.",
    "schema": {"type": "string", "minLength": 1, "maxLength": TEXT_MAX},
}

LIST_REFUNDS: Final = ScopedOperation(
    list_refunds,
    READ,
    OperationSpec(
        name="listRefunds",
        summary="List an order's refunds",
        description="All refunds of the order, oldest first; with `asOf` or `version` those that it had then, as they were.",
        parameters=(ORDER_ID, *described_parameters(PART_PARAMETERS)),
        answers={200: ("The refunds.", with_place(RefundPage, "RefundAsOfPage"))},
        codes=codes_of(ANY, CODES, {404: ("ORDER_NOT_FOUND",)}),
    ),
)
SHOW_REFUND: Final = ScopedOperation(
    show_refund,
    READ,
    OperationSpec(
        name="getRefund",
        summary="Get a refund",
        description="One refund of the order, and the part that each payment gives back.",
        parameters=(ORDER_ID, REFUND_ID),
        answers={200: ("The refund.", RefundDocument)},
        codes=codes_of(ANY, {404: ("ORDER_NOT_FOUND", "REFUND_NOT_FOUND")}),
    ),
)
