"""GET /v1/invoices/global/{id}: a global invoice with its orders, and short-lived links to its files."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Final
from uuid import UUID

from msgspec import Meta, Struct
from msgspec.structs import asdict

from api.http.dependencies import Dependencies
from api.http.endpoint import ScopedOperation
from api.http.request import ApiRequest
from api.openapi.parameters import GLOBAL_INVOICE_ID
from api.operation import ANY, OperationSpec, codes_of
from api.orders.invoices.fields import TAG
from api.response import ApiResponse, json_response
from ledger.domain.money import shortest
from ledger.invoicing.files import LINK_VALIDITY_S
from ledger.operations.global_invoices.due import find_global_invoice
from ledger.security.api_keys import Scope
from projections.formats import Amount, Moment, moment
from projections.global_invoices import GlobalInvoiceDocument, document_of


class StatedOrder(Struct, frozen=True, kw_only=True, rename="camel"):
    """An order of a global invoice."""

    id: Annotated[UUID, Meta(description="The service's id of the order.")]
    amount: Annotated[Amount, Meta(description="What the global invoice states of it, in minor units (cents).")]


class GlobalInvoiceDetail(GlobalInvoiceDocument, frozen=True, kw_only=True, rename="camel"):
    """A global invoice with its orders and its files."""

    orders: Annotated[list[StatedOrder], Meta(description="Its orders. `status` shows whether they are free again.")]
    pdf_url: Annotated[str | None, Meta(description="The PDF, until expiresAt; null before it is stamped.")]
    xml_url: Annotated[str | None, Meta(description="The XML, until expiresAt; null before it is stamped.")]
    expires_at: Annotated[Moment | None, Meta(description="When the links end.")]


async def show(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """GET /v1/invoices/global/{id}: 200 with links that end after fifteen minutes."""
    invoice = await find_global_invoice(deps.ledger, request.principal.merchant_id, request.path_id("id") or "")
    invoicing, stamp = deps.ledger.invoicing, invoice.stamp
    assert invoicing is not None, "a process that serves has an access to the files"
    expires_at = datetime.now(UTC) + timedelta(seconds=LINK_VALIDITY_S)
    sign = invoicing.files.sign_link
    detail = GlobalInvoiceDetail(
        **asdict(document_of(invoice)),
        orders=[StatedOrder(id=each.order_id, amount=shortest(each.amount)) for each in invoice.orders],
        pdf_url=None if stamp is None else sign(stamp.pdf_key, expires_at),
        xml_url=None if stamp is None else sign(stamp.xml_key, expires_at),
        expires_at=None if stamp is None else moment(expires_at),
    )
    return json_response(200, detail)


SHOW: Final = ScopedOperation(
    show,
    Scope.FISCAL,
    OperationSpec(
        name="getGlobalInvoice",
        summary="Get a global invoice",
        description="A global invoice with its orders. The links to its files need no API key, and end after fifteen minutes.",
        parameters=(GLOBAL_INVOICE_ID,),
        answers={200: ("The global invoice.", GlobalInvoiceDetail)},
        codes=codes_of(ANY, {404: ("GLOBAL_INVOICE_NOT_FOUND",)}),
        tag=TAG,
    ),
)
