"""The part of an order's document about electronic invoices: receipts, credit notes, and the summary of a split order.

The same fields are the answer to a request to stamp. Add fields only behind the interface's own.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Annotated, Any, Final
from uuid import UUID

from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import asdict

from ledger.domain.invoices.due import (
    blocked_documents,
    invoice_status,
    receipt_due_at,
    status_of_document,
    summary,
)
from ledger.domain.invoices.movements import DueDocument, DueKind, document_id_of
from ledger.domain.money import ZERO, shortest
from ledger.domain.orders.invoices.state import (
    INVOICE_SLOT,
    CancellationStatus,
    Document,
    DocumentCancellation,
    DocumentFailure,
    DocumentStatus,
    Invoices,
    Stamp,
)
from ledger.domain.orders.invoices.terms import CancellationMotive, CreditNoteTerms, InvoiceTerms, ReceiptTerms
from ledger.domain.orders.state import Order
from projections.formats import Amount, Moment, encode, moment, moment_or_null, number_or_null


class CancellationDocument(Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """The cancellation of a stamped document with SAT."""

    status: Annotated[
        CancellationStatus, Meta(description="PENDING: the receiver has to accept it. REFUSED: the document is valid.")
    ]
    motive: Annotated[CancellationMotive, Meta(description="SAT c_MotivoCancelacion, 01 to 04.")]
    substituted_by: Annotated[UUID | None, Meta(description="The fiscal UUID of the substitute, with motive 01.")]
    requested_at: Moment
    updated_at: Moment
    failure_code: Annotated[str | None, Meta(description="The provider's code of a refusal.")]
    failure_reason: Annotated[str | None, Meta(description="The provider's own words of a refusal.")]


class InvoiceComplementDocument(Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """A payment receipt (REP) or further invoice of a split order, or the credit note of a refund."""

    id: Annotated[UUID, Meta(description="The id of the row, which never changes.")]
    kind: Annotated[str, Meta(description="REP, CREDIT_NOTE or INVOICE.", examples=["REP"])]
    payment_id: Annotated[UUID, Meta(description="The payment of the document, or of its refund.")]
    payment_event_id: Annotated[UUID | None, Meta(description="The refund event of a credit note; null for a REP.")]
    amount: Annotated[
        Amount,
        Meta(
            description="The captured amount with surcharge, the refunded subtotal, or an invoice's total, "
            "in minor units (cents)."
        ),
    ]
    applied_amount: Annotated[
        Amount | None, Meta(description="What a REP pays of the invoice, without surcharge, in minor units (cents).")
    ]
    installment: Annotated[int | None, Meta(description="The number of a REP among those of the invoice.")]
    previous_balance: Annotated[
        Amount | None, Meta(description="The invoice's balance before a REP, in minor units (cents).")
    ]
    remaining_balance: Annotated[
        Amount | None, Meta(description="The invoice's balance after a REP, in minor units (cents).")
    ]
    status: Annotated[
        DocumentStatus, Meta(description="PENDING, EMITTED (stamped) or FAILED (refused, or impossible to draw up).")
    ]
    fiscal_uuid: Annotated[UUID | None, Meta(description="SAT's id of the stamped document.")]
    fiscal_invoice_id: Annotated[str | None, Meta(description="The stamping provider's id of the document.")]
    pdf_key: Annotated[
        str | None, Meta(description="The key of the stored PDF. For a link, use /cfdi-url; never build one.")
    ]
    failure_code: Annotated[
        str | None, Meta(description="The provider's code of the latest refusal, or that of missing data.")
    ]
    failure_reason: Annotated[
        str | None, Meta(description="The provider's own words of the latest refusal, or what is missing.")
    ]
    attempts: Annotated[int, Meta(description="How often the document was sent to the provider.")]
    rep_due_at: Annotated[Moment | None, Meta(description="The legal deadline of a REP.")]
    emitted_at: Annotated[Moment | None, Meta(description="When it was stamped.")]
    created_at: Moment
    cancellation: Annotated[
        CancellationDocument | None, Meta(description="The document's latest cancellation, null without one.")
    ]
    invoice_id: Annotated[
        UUID | UnsetType,
        Meta(description="The id of the further invoice that it belongs to. Absent where that is the order's invoice."),
    ] = UNSET


class InvoiceSummary(Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """How far the documents of a split order are stamped. Captured payments are emitted, pending or failed."""

    captured_count: Annotated[int, Meta(description="The payments that need a payment receipt (REP).")]
    emitted_rep_count: Annotated[int, Meta(description="Those whose receipts are stamped.")]
    pending_rep_count: Annotated[int, Meta(description="Those whose receipts are still to be stamped.")]
    failed_rep_count: Annotated[int, Meta(description="Those with a refused receipt. Stamp the order to try again.")]
    refund_event_count: Annotated[int, Meta(description="The refund events that need a credit note.")]
    emitted_credit_note_count: Annotated[int, Meta(description="Those whose credit note is stamped.")]
    pending_credit_note_count: Annotated[int, Meta(description="Those whose credit note is still to be stamped.")]
    failed_credit_note_count: Annotated[
        int,
        Meta(description="Those whose credit note was refused or cannot be drawn up. Stamp the order to try again."),
    ]
    is_fully_stamped: Annotated[
        bool, Meta(description="Whether all receipts and credit notes that are needed are stamped.")
    ]


InvoiceType = Annotated[
    str | None, Meta(description="PPD for split orders, PUE for others, null without fiscal data.", examples=["PPD"])
]
InvoiceStatus = Annotated[
    str | None,
    Meta(
        description="PENDING, INVOICED or FAILED; null before the invoice is due, and once it is cancelled.",
        examples=["INVOICED"],
    ),
]
FiscalUuid = Annotated[UUID | None, Meta(description="SAT's id of the stamped invoice; null once it is cancelled.")]
Complements = Annotated[
    list[InvoiceComplementDocument], Meta(description="The payment receipts of a split order, in order.")
]
CreditNotes = Annotated[
    list[InvoiceComplementDocument], Meta(description="The credit notes of the order's refunds, in order.")
]
AdditionalInvoices = Annotated[
    list[InvoiceComplementDocument] | UnsetType,
    Meta(
        description="The further invoices of a split order, over money that came after a credit note. Absent without one."
    ),
]
Summary = Annotated[
    InvoiceSummary | UnsetType, Meta(description="How far a split order is stamped; absent for other orders.")
]
FailureCode = Annotated[
    str | UnsetType, Meta(description="Why the invoice is FAILED: the provider's code, or that of missing data.")
]
FailureReason = Annotated[
    str | UnsetType, Meta(description="Why the invoice is FAILED, in the provider's own words. Absent otherwise.")
]
Cancellation = Annotated[
    CancellationDocument | UnsetType, Meta(description="The invoice's latest cancellation. Absent without one.")
]


class StampDocument(Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """The answer to a request to stamp or to cancel documents (contract N43)."""

    id: Annotated[UUID, Meta(description="The service's id of the order.")]
    external_id: Annotated[str, Meta(description="The merchant's id of the order.")]
    invoice_type: InvoiceType
    invoice_status: InvoiceStatus
    fiscal_uuid: FiscalUuid
    complements: Complements
    credit_notes: CreditNotes
    invoice_summary: Summary = UNSET
    invoice_failure_code: FailureCode = UNSET
    invoice_failure_reason: FailureReason = UNSET
    invoice_cancellation: Cancellation = UNSET
    additional_invoices: AdditionalInvoices = UNSET


def invoice_fields(order: Order) -> dict[str, Any]:
    """Returns the fields about its electronic invoices of an order that has some."""
    status, invoices = invoice_status(order), order.invoices
    invoice, stamped = (None, None) if invoices is None else (invoices.invoice, invoices.stamped_invoice)
    failure = _failure(order) if status is DocumentStatus.FAILED else None
    return {
        "invoice_type": "PPD" if order.terms.allow_partials else "PUE",
        "invoice_status": "INVOICED" if status is DocumentStatus.EMITTED else status,
        "fiscal_uuid": None if stamped is None or stamped.stamp is None else stamped.stamp.fiscal_uuid,
        "complements": [] if invoices is None else complements(order, invoices.receipts, DueKind.RECEIPT),
        "credit_notes": [] if invoices is None else complements(order, invoices.credit_notes, DueKind.CREDIT_NOTE),
        "additional_invoices": (
            ([] if invoices is None else complements(order, invoices.further_invoices, DueKind.INVOICE)) or UNSET
        ),
        "invoice_summary": InvoiceSummary(**asdict(summary(order))) if order.terms.allow_partials else UNSET,
        "invoice_failure_code": UNSET if failure is None else failure.code,
        "invoice_failure_reason": UNSET if failure is None else failure.message,
        "invoice_cancellation": (None if invoice is None else cancellation_document(invoice.cancellation)) or UNSET,
    }


NOT_INVOICED: Final[dict[str, Any]] = {
    "invoice_type": None,
    "invoice_status": None,
    "fiscal_uuid": None,
    "complements": [],
    "credit_notes": [],
}
"""The same fields of every other order."""


def render_stamp(order: Order) -> bytes:
    """Returns the answer to a request to stamp an order, as JSON."""
    terms = order.terms
    return encode(
        StampDocument(
            id=terms.order_id,
            external_id=terms.external_id,
            **(invoice_fields(order) if order.is_fiscal else NOT_INVOICED),
        )
    )


def complements(order: Order, documents: Iterable[Document], kind: DueKind) -> list[InvoiceComplementDocument]:
    """Returns documents of a kind as the order shows them, those last that could not be drawn up yet."""
    announced = [InvoiceComplementDocument(**complement_fields(order, document)) for document in documents]
    blocked = [each for each in blocked_documents(order) if each[0].kind is kind]
    return announced + [_blocked(order, due, failure) for due, failure in blocked]


def _blocked(order: Order, due: DueDocument, failure: DocumentFailure) -> InvoiceComplementDocument:
    """Returns a document that could not be drawn up, with the id that it will have."""
    movement, is_receipt = due.movement, due.is_receipt
    further = None if order.invoices is None else order.invoices.latest(due.invoice_slot)
    belongs = due.kind is not DueKind.INVOICE and due.invoice_slot != INVOICE_SLOT and further is not None
    return InvoiceComplementDocument(
        id=document_id_of(order, due.slot),
        kind=kind_of_due(due),
        payment_id=movement.payment.payment_id,
        payment_event_id=movement.payment_event_id,
        amount=shortest(_due_amount(order, due)),
        applied_amount=number_or_null(due.amount) if is_receipt else None,
        installment=due.installment if is_receipt else None,
        previous_balance=number_or_null(due.balance) if is_receipt else None,
        remaining_balance=number_or_null(due.balance - due.amount) if is_receipt else None,
        status=DocumentStatus.FAILED,
        fiscal_uuid=None,
        fiscal_invoice_id=None,
        pdf_key=None,
        failure_code=failure.code,
        failure_reason=failure.message,
        attempts=0,
        rep_due_at=moment(receipt_due_at(order, movement.at)) if is_receipt else None,
        emitted_at=None,
        created_at=moment(failure.at),
        cancellation=None,
        invoice_id=further.document_id if belongs and further is not None else UNSET,
    )


def _due_amount(order: Order, due: DueDocument) -> Decimal:
    if not due.is_receipt:
        return due.amount
    invoice = None if order.invoices is None else order.invoices.invoice
    invoice_id = None if invoice is None else invoice.document_id
    return _received(order, due.slot, due.movement.payment.payment_id, due.amount, invoice_id)


def kind_of_due(due: DueDocument) -> str:
    """Returns the kind of a due document as the order shows it."""
    return "REP" if due.is_receipt else due.kind.value


def complement_fields(order: Order, document: Document) -> dict[str, Any]:
    """Returns the fields of `InvoiceComplementDocument` of a receipt, a credit note or a further invoice."""
    assert order.invoices is not None, "the document is among them"
    stamp = document.stamp
    status = status_of_document(order.invoices, document)
    failure = document.failure
    if status is DocumentStatus.FAILED:
        failure = order.invoices.failure_of(document.slot) or failure
    return {
        **_amounts(order, document),
        "id": document.document_id,
        "status": status,
        "fiscal_uuid": None if stamp is None else stamp.fiscal_uuid,
        "fiscal_invoice_id": None if stamp is None else stamp.invoice_id,
        "pdf_key": None if stamp is None else stamp.pdf_key,
        "failure_code": None if failure is None else failure.code,
        "failure_reason": None if failure is None else failure.message,
        "attempts": document.attempts,
        "rep_due_at": moment_or_null(document.receipt_due_at),
        "emitted_at": _emitted_at(stamp),
        "created_at": moment(document.created_at),
        "cancellation": cancellation_document(document.cancellation),
        "invoice_id": _further_invoice_id(order.invoices, document),
    }


def _further_invoice_id(invoices: Invoices, document: Document) -> UUID | UnsetType:
    if isinstance(document.terms, InvoiceTerms):
        return UNSET
    invoice_id = document.terms.invoice_id
    return invoice_id if any(each.document_id == invoice_id for each in invoices.further_invoices) else UNSET


def cancellation_document(cancellation: DocumentCancellation | None) -> CancellationDocument | None:
    """Returns a cancellation as the order shows it."""
    if cancellation is None:
        return None
    failure = cancellation.failure
    return CancellationDocument(
        status=cancellation.status,
        motive=cancellation.motive,
        substituted_by=cancellation.substituted_by,
        requested_at=moment(cancellation.requested_at),
        updated_at=moment(cancellation.updated_at),
        failure_code=None if failure is None else failure.code,
        failure_reason=None if failure is None else failure.message,
    )


def _emitted_at(stamp: Stamp | None) -> str | None:
    return None if stamp is None else moment(stamp.emitted_at)


def _amounts(order: Order, document: Document) -> dict[str, Any]:
    match document.terms:
        case ReceiptTerms() as terms:
            return {
                "kind": "REP",
                "payment_id": terms.payment_id,
                "payment_event_id": None,
                "amount": shortest(
                    _received(order, document.slot, terms.payment_id, terms.applied_amount, terms.invoice_id)
                ),
                "applied_amount": number_or_null(terms.applied_amount),
                "installment": terms.installment,
                "previous_balance": number_or_null(terms.previous_balance),
                "remaining_balance": number_or_null(terms.remaining_balance),
            }
        case CreditNoteTerms() as terms:
            return {
                "kind": "CREDIT_NOTE",
                "payment_id": terms.payment_id,
                "payment_event_id": terms.payment_event_id,
                "amount": shortest(terms.total),
                "applied_amount": None,
                "installment": None,
                "previous_balance": None,
                "remaining_balance": None,
            }
        case InvoiceTerms() as terms:
            assert terms.payment_id is not None, "only a further invoice is a complement"
            return {
                "kind": "INVOICE",
                "payment_id": terms.payment_id,
                "payment_event_id": None,
                "amount": shortest(terms.total),
                "applied_amount": None,
                "installment": None,
                "previous_balance": None,
                "remaining_balance": None,
            }


def _received(order: Order, slot: str, payment_id: UUID, applied: Decimal, invoice_id: UUID | None) -> Decimal:
    """Returns the gross amount of the receipt of money that a document of an invoice is about (contract 4.7).

    A receipt of money that pays two invoices has two receipts: the further one shows what it applies, the other the
    rest. Both do so also after the cancellation of one or of both: their files state no more.
    """
    own = slot.partition(f":{INVOICE_SLOT}:")[0]
    receipts = () if order.invoices is None else order.invoices.receipts
    beside = {
        each.slot: each for each in receipts if each.slot != slot and each.slot.partition(f":{INVOICE_SLOT}:")[0] == own
    }
    if own != slot and beside:
        return applied
    before = ZERO
    for inflow in order.payment(payment_id).inflows:
        if own == f"receipt:{inflow.ordinal}":
            further = sum((_applied_beside(order, each, invoice_id) for each in beside.values()), ZERO)
            return inflow.captured - before - further
        before = inflow.captured
    raise AssertionError("a receipt is about money that the payment received")


def _applied_beside(order: Order, receipt: Document, invoice_id: UUID | None) -> Decimal:
    """Returns what a receipt applies to a further invoice beside this invoice of the order; 0 if that is beside an
    earlier or a later one.
    """
    assert order.invoices is not None, "the receipt is one of its documents"
    assert isinstance(receipt.terms, ReceiptTerms), "the document is a receipt"
    further = order.invoices.document(receipt.terms.invoice_id)
    is_beside = further is not None and further.supplements is not None and further.supplements == invoice_id
    return receipt.terms.applied_amount if is_beside else ZERO


def _failure(order: Order) -> DocumentFailure | None:
    invoices = order.invoices
    if invoices is None:
        return None
    return invoices.failure_of(INVOICE_SLOT) or (None if invoices.invoice is None else invoices.invoice.failure)
