"""POST /v1/subscriptions/{id}/preview: the next invoice, before it is made."""

from __future__ import annotations

from typing import Final

from api import operation
from api.http.dependencies import Dependencies
from api.http.endpoint import SUBSCRIPTIONS, ScopedOperation
from api.http.request import ApiRequest
from api.openapi.parameters import SUBSCRIPTION_ID
from api.operation import ANY, BODY, OperationSpec, codes_of
from api.response import ApiResponse
from api.subscriptions.fields import PreviewSubscription, parse_preview
from api.subscriptions.responses import subscription_reference
from ledger.operations.subscriptions.preview import preview_invoice
from projections.subscriptions.invoices import InvoicePreviewDocument, render_preview


async def preview(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """POST /v1/subscriptions/{id}/preview: the next invoice as it would be made; nothing is stored."""
    parse_preview(await request.optional_body(deps.body_limit))
    subscription, invoice = await preview_invoice(deps.ledger, request.actor, subscription_reference(request))
    return ApiResponse(200, render_preview(subscription, invoice))


PREVIEW_SUBSCRIPTION: Final = ScopedOperation(
    preview,
    SUBSCRIPTIONS,
    OperationSpec(
        name="previewSubscriptionInvoice",
        summary="Preview the next invoice",
        description="""
The invoice that the end of the current period makes, if nothing changes until then: the next period at the present plan,
and the `pendingLines` of the subscription. Nothing is stored or charged. If the subscription ends without another
invoice, the answer is 409 `NO_NEXT_INVOICE`.
""",
        parameters=(SUBSCRIPTION_ID,),
        takes=PreviewSubscription,
        optional=True,
        examples={"next": {"summary": "The next invoice", "value": {}}},
        answers={200: ("The invoice.", InvoicePreviewDocument)},
        codes=codes_of(
            ANY, BODY, {404: ("SUBSCRIPTION_NOT_FOUND",), 409: ("SUBSCRIPTION_CANCELED", "NO_NEXT_INVOICE")}
        ),
        tag=operation.SUBSCRIPTIONS,
    ),
)
