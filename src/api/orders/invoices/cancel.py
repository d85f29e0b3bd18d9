"""POST /v2/payment-orders/{id}/cfdi-cancel: cancels a stamped document of an order with SAT."""

from __future__ import annotations

from typing import Annotated, Final
from uuid import UUID

from msgspec import UNSET, Meta, Struct, UnsetType

from api.decoding.bodies import BodyDecoder
from api.decoding.types import alias_of
from api.errors import required
from api.fields.values import one_of_aliases
from api.http.dependencies import Dependencies
from api.http.endpoint import ScopedOperation
from api.http.request import ApiRequest
from api.openapi.parameters import IDEMPOTENCY_KEY, ORDER_ID
from api.operation import ANY, BODY, OperationSpec, codes_of
from api.orders.invoices.fields import KEYED, TAG
from api.response import REPLAYED, ApiResponse
from ledger.domain.orders.invoices.terms import CancellationMotive
from ledger.operations.context.inputs import CancelDocumentInput
from ledger.operations.orders.invoices.cancel import cancel_document
from ledger.security.api_keys import Scope
from projections.orders.invoices import StampDocument, render_stamp


class CancelCfdi(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The request to cancel a stamped document."""

    motive: Annotated[
        CancellationMotive | None,
        Meta(
            description="Required. SAT c_MotivoCancelacion: 01 errors with a substitute, 02 errors without one, 03 the "
            "operation did not take place, 04 contained in a global invoice."
        ),
    ] = None
    # Null is no id: a client that has lost the id of a receipt would cancel the invoice.
    document_id: Annotated[
        UUID | UnsetType, Meta(description="The id of a payment receipt or a credit note. Absent: the invoice.")
    ] = UNSET
    complement_id: Annotated[UUID | UnsetType, alias_of("documentId")] = UNSET
    substituted_by: Annotated[
        UUID | None, Meta(description="The fiscal UUID of the document that replaces it. Required with motive 01 only.")
    ] = None


_decode: Final = BodyDecoder(CancelCfdi)


def parse_cancellation(body: bytes) -> CancelDocumentInput:
    """Returns the cancellation that a body asks for. Raises ApiError (400), with every wrong field."""
    sent, errors = _decode.gather(body)
    if sent.motive is None and not errors.has("motive"):
        errors.add(required("motive"))
    names = (sent.document_id or None, sent.complement_id or None)
    document_id = errors.check(one_of_aliases, "documentId", names[0], "complementId", names[1])
    errors.refuse()
    assert sent.motive is not None, "refused just above"
    return CancelDocumentInput(motive=sent.motive, document_id=document_id, substituted_by=sent.substituted_by)


async def cancel(deps: Dependencies, request: ApiRequest) -> ApiResponse:
    """POST /v2/payment-orders/{id}/cfdi-cancel: 200 with the documents and the cancellation's progress."""
    body = await request.body(deps.body_limit)
    parsed = parse_cancellation(body)
    reference = request.order_reference()
    key = request.idempotency_key(deps.fingerprint_key, body)
    result = await cancel_document(deps.ledger, request.actor, reference, parsed, key)
    return ApiResponse(200, render_stamp(result.order), REPLAYED if result.repeated else ())


CANCEL_CFDI: Final = ScopedOperation(
    cancel,
    Scope.FISCAL,
    OperationSpec(
        name="cancelCfdi",
        summary="Cancel a stamped document",
        description="""
Cancels a stamped document with SAT: the invoice, or the receipt or credit note in `documentId`. The receiver may have
to accept it within three days; the cancellation is PENDING meanwhile, and the service asks for its result. An invoice
with stamped receipts or credit notes is cancelled after them. Once it is, `invoiceStatus` and `fiscalUuid` are null,
and `stamp` draws up a new one that replaces it (relation 04), as it draws up every cancelled document again.
""",
        parameters=(ORDER_ID, IDEMPOTENCY_KEY),
        takes=CancelCfdi,
        examples={"invoice": {"summary": "The invoice, without a substitute", "value": {"motive": "02"}}},
        answers={200: ("The order's documents after the request.", StampDocument)},
        codes=codes_of(ANY, BODY, KEYED, {409: ("INVOICE_NOT_READY", "INVOICE_IN_USE")}),
        tag=TAG,
        replays=True,
    ),
)
