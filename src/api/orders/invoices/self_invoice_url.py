"""GET /v2/payment-orders/{id}/self-invoice-url: the link by which the payer of an order requests its invoice."""

from __future__ import annotations

from typing import Annotated, Final
from uuid import UUID

from msgspec import Meta, Struct

from api.http.dependencies import Dependencies
from api.http.endpoint import ScopedOperation
from api.http.request import ApiRequest
from api.openapi.parameters import ORDER_ID
from api.operation import ANY, OperationSpec, codes_of
from api.orders.invoices.fields import TAG
from api.response import ApiResponse, json_response
from ledger.operations.orders.invoices.self_invoice import self_invoice_link
from ledger.security.api_keys import Scope
from projections.formats import Moment, moment


class SelfInvoiceUrl(Struct, frozen=True, kw_only=True, rename="camel"):
    """The payer's link."""

    id: Annotated[UUID, Meta(description="The service's id of the order.")]
    external_id: Annotated[str, Meta(description="The merchant's id of the order.")]
    url: Annotated[str, Meta(description="The address of the page. A visitor with it is taken for the payer.")]
    expires_at: Annotated[
        Moment, Meta(description="When the link ends: with the month after the payment, in the merchant's time zone.")
    ]


async def get_link(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """GET /v2/payment-orders/{id}/self-invoice-url: 200 with the link, the same each time."""
    order, linked, url = await self_invoice_link(deps.ledger, request.principal.merchant_id, request.order_reference())
    content = SelfInvoiceUrl(
        id=order.terms.order_id, external_id=order.terms.external_id, url=url, expires_at=moment(linked.ends_at)
    )
    return json_response(200, content, ((b"cache-control", b"no-store"),))


GET_LINK: Final = ScopedOperation(
    get_link,
    Scope.FISCAL,
    OperationSpec(
        name="getSelfInvoiceUrl",
        summary="Get the payer's link to request the invoice",
        description="""
A signed link for the receipt of an order that was paid without fiscal data (in Mexico: autofactura). On its page the
payer enters RFC, name, regime, use and postal code, and downloads the invoice that the service stamps at once. The link
is the same each time, and ends with the month after the payment. It shows of the order the merchant's name, its number,
its date and its amount.
""",
        parameters=(ORDER_ID,),
        answers={200: ("The link.", SelfInvoiceUrl)},
        codes=codes_of(
            ANY, {404: ("ORDER_NOT_FOUND",), 409: ("SELF_INVOICE_UNAVAILABLE",), 422: ("FISCAL_DATA_INCOMPLETE",)}
        ),
        tag=TAG,
    ),
)
