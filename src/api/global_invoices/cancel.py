"""POST /v1/invoices/global/{id}/cancel: cancels a stamped global invoice with SAT."""

from __future__ import annotations

from typing import Annotated, Final
from uuid import UUID

from msgspec import Meta, Struct

from api.decoding.bodies import BodyDecoder
from api.errors import required
from api.http.dependencies import Dependencies
from api.http.endpoint import ScopedOperation
from api.http.request import ApiRequest
from api.openapi.parameters import GLOBAL_INVOICE_ID
from api.operation import ANY, BODY, OperationSpec, codes_of
from api.orders.invoices.fields import TAG
from api.response import ApiResponse, json_response
from ledger.domain.orders.invoices.terms import CancellationMotive
from ledger.operations.global_invoices.cancel import cancel_global_invoice
from ledger.security.api_keys import Scope
from projections.global_invoices import GlobalInvoiceDocument, document_of


class CancelGlobalInvoice(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The request to cancel a stamped global invoice."""

    motive: Annotated[
        CancellationMotive | None,
        Meta(
            description="Required. SAT c_MotivoCancelacion: 01 errors with a substitute, 02 errors without one, 03 the "
            "operation did not take place, 04 an operation of it is invoiced to its buyer."
        ),
    ] = None
    substituted_by: Annotated[
        UUID | None,
        Meta(
            description="The fiscal UUID of the document that replaces it and states its orders. Required with motive 01 "
            "only."
        ),
    ] = None


_decode: Final = BodyDecoder(CancelGlobalInvoice)


def parse_cancellation(body: bytes) -> tuple[CancellationMotive, UUID | None]:
    """Returns the motive and the substitute that a body names. Raises ApiError (400), with every wrong field."""
    sent, errors = _decode.gather(body)
    if sent.motive is None and not errors.has("motive"):
        errors.add(required("motive"))
    errors.refuse()
    assert sent.motive is not None, "refused just above"
    return sent.motive, sent.substituted_by


async def cancel(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """POST /v1/invoices/global/{id}/cancel: 200 with the cancellation's progress."""
    motive, substituted_by = parse_cancellation(await request.body(deps.body_limit))
    reference = request.path_id("id") or ""
    invoice = await cancel_global_invoice(deps.ledger, request.actor, reference, motive, substituted_by)
    return json_response(200, document_of(invoice))


CANCEL: Final = ScopedOperation(
    cancel,
    Scope.FISCAL,
    OperationSpec(
        name="cancelGlobalInvoice",
        summary="Cancel a global invoice",
        description="""
Cancels a stamped global invoice with SAT as a whole. While the cancellation has no result it is REQUESTED or PENDING,
and the service asks for it. Once it is CANCELLED its orders are free: `stamp` and their payers invoice them one by one,
and `POST /v1/invoices/global` states those that are left in a new one, which names the cancelled one (relation 04).
With motive 01 they are not: `substitutedBy`, which was stamped elsewhere, states them.

Sent again, it changes nothing, unless the first request was refused.
""",
        parameters=(GLOBAL_INVOICE_ID,),
        takes=CancelGlobalInvoice,
        examples={"one buyer": {"summary": "An order of it is invoiced to its buyer", "value": {"motive": "04"}}},
        answers={200: ("The global invoice after the request.", GlobalInvoiceDocument)},
        codes=codes_of(
            ANY,
            BODY,
            {
                404: ("GLOBAL_INVOICE_NOT_FOUND",),
                409: ("INVOICE_NOT_READY", "CONCURRENT_UPDATE"),
                503: ("PROCESSOR_UNAVAILABLE",),
            },
        ),
        tag=TAG,
    ),
)
