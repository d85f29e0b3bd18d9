"""GET /v1/subscriptions/{id}/invoices and /v1/subscription-invoices/{id}: what a subscription was charged."""

from __future__ import annotations

from typing import Final
from uuid import UUID

import msgspec
from msgspec import Struct

from api import operation
from api.decoding.query import (
    PLACE_PARAMETERS,
    described_parameters,
    parse_parameters,
    parse_place,
    refuse_cursor_of_another_list,
)
from api.http.dependencies import Dependencies
from api.http.endpoint import SUBSCRIPTIONS, ScopedOperation
from api.http.request import ApiRequest
from api.openapi.parameters import INVOICE_ID, SUBSCRIPTION_ID
from api.operation import ANY, OperationSpec, codes_of
from api.response import ApiResponse
from api.subscriptions.responses import subscription_not_found, subscription_reference
from ledger.domain.ids import parse_uuid
from ledger.domain.rejections import SubscriptionInvoiceNotFound
from projections.subscriptions.invoices import (
    INVOICE_CURSORS,
    InvoiceQuery,
    SubscriptionInvoiceDocument,
    SubscriptionInvoicePage,
)

PARAMETERS: Final = PLACE_PARAMETERS


class _Identified(Struct):
    id: UUID


def parse_invoice_query(query: bytes) -> InvoiceQuery:
    """Returns the page that a query string asks for (N53). Raises ApiError (400), with every wrong parameter."""
    given, errors = parse_parameters(query, PARAMETERS)
    place = errors.check(parse_place, given, INVOICE_CURSORS.parse)
    errors.refuse()
    assert place is not None, "what was not parsed was refused"
    return InvoiceQuery(limit=place.limit, offset=place.offset, cursor=place.cursor)


async def list_invoices(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """GET /v1/subscriptions/{id}/invoices: a page of the subscription's invoices, the newest first."""
    query = parse_invoice_query(request.query)
    merchant_id = request.principal.merchant_id
    document = await deps.queries.subscription(merchant_id, subscription_reference(request))
    if document is None:
        raise subscription_not_found()
    subscription_id = msgspec.json.decode(document, type=_Identified).id
    refuse_cursor_of_another_list(query, subscription_id)
    return ApiResponse(200, await deps.queries.subscription_invoices(merchant_id, subscription_id, query))


async def show_invoice(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """GET /v1/subscription-invoices/{id}: one invoice."""
    text = request.path_id("id")
    invoice_id = None if text is None else parse_uuid(text)
    document = None
    if invoice_id is not None:
        document = await deps.queries.subscription_invoice(request.principal.merchant_id, invoice_id)
    if document is None:
        raise SubscriptionInvoiceNotFound("The merchant has no subscription invoice with this id.")
    return ApiResponse(200, document)


LIST_INVOICES: Final = ScopedOperation(
    list_invoices,
    SUBSCRIPTIONS,
    OperationSpec(
        name="listSubscriptionInvoices",
        summary="List a subscription's invoices",
        description="A page of what the subscription was charged, the newest first, and the number of all invoices.",
        parameters=(SUBSCRIPTION_ID, *described_parameters(PARAMETERS)),
        answers={200: ("A page of invoices.", SubscriptionInvoicePage)},
        codes=codes_of(ANY, {400: ("CONFLICTING_FIELDS",), 404: ("SUBSCRIPTION_NOT_FOUND",)}),
        tag=operation.SUBSCRIPTIONS,
    ),
)
SHOW_INVOICE: Final = ScopedOperation(
    show_invoice,
    SUBSCRIPTIONS,
    OperationSpec(
        name="getSubscriptionInvoice",
        summary="Get a subscription invoice",
        description="The invoice of one period, or of a change of plan, with the payment order that paid it.",
        parameters=(INVOICE_ID,),
        answers={200: ("The invoice.", SubscriptionInvoiceDocument)},
        codes=codes_of(ANY, {404: ("SUBSCRIPTION_INVOICE_NOT_FOUND",)}),
        tag=operation.SUBSCRIPTIONS,
    ),
)
