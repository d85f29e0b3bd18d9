"""The deciders of cancellations of stamped documents (CFF 29-A, RMF 2.7.1.34)."""

from __future__ import annotations

from ledger.domain.invoices.commands import (
    CancelDocument,
    CancellationPending,
    Cancelled,
    RecordCancellation,
    Refused,
)
from ledger.domain.orders.invoices.events import (
    DocumentCancellationPending,
    DocumentCancellationRefused,
    DocumentCancellationRequested,
    DocumentCancelled,
    InvoiceEvent,
)
from ledger.domain.orders.invoices.state import CancellationStatus, Document
from ledger.domain.orders.invoices.terms import CancellationMotive, InvoiceTerms
from ledger.domain.orders.state import Order
from ledger.domain.rejections import DocumentNotFound, InvalidField, InvoiceInUse, InvoiceNotReady


def decide_document_cancellation(order: Order, command: CancelDocument) -> list[InvoiceEvent]:
    """Asks the provider to cancel a stamped document. Returns no events if an earlier request was not refused.

    Raises InvalidField for `substitutedBy`, which motive 01 requires and the others exclude; DocumentNotFound;
    InvoiceNotReady if the document is not stamped; InvoiceInUse for an invoice with receipts or credit notes, which
    SAT cancels only after them.
    """
    if (command.substituted_by is not None) is not (command.motive is CancellationMotive.WITH_SUBSTITUTE):
        needed = command.motive is CancellationMotive.WITH_SUBSTITUTE
        raise InvalidField(
            "substitutedBy", "is required with motive 01" if needed else "is allowed with motive 01 only"
        )
    document = _document(order, command)
    cancellation = document.cancellation
    if cancellation is not None and cancellation.status is not CancellationStatus.REFUSED:
        return []
    if isinstance(document.terms, InvoiceTerms) and _is_in_use(order, document):
        raise InvoiceInUse("The invoice has payment receipts or credit notes: cancel them first.")
    return [
        DocumentCancellationRequested(
            document_id=document.document_id,
            motive=command.motive,
            substituted_by=command.substituted_by,
            provider=command.provider,
            deadline_at=command.deadline_at,
            at=command.at,
        )
    ]


def decide_cancellation_outcome(order: Order, command: RecordCancellation) -> list[InvoiceEvent]:
    """Records what the provider reports about a cancellation.

    Returns no events if the cancellation has ended. Never refuses.
    """
    document_id, at = command.document_id, command.at
    document = None if order.invoices is None else order.invoices.document(document_id)
    cancellation = None if document is None else document.cancellation
    if cancellation is None or cancellation.status in {CancellationStatus.CANCELLED, CancellationStatus.REFUSED}:
        return []
    match command.outcome:
        case Cancelled():
            return [DocumentCancelled(document_id=document_id, at=at)]
        case CancellationPending(message=message):
            return [DocumentCancellationPending(document_id=document_id, at=at, message=message)]
        case Refused(code=code, message=message):
            return [DocumentCancellationRefused(document_id=document_id, code=code, message=message, at=at)]


def _document(order: Order, command: CancelDocument) -> Document:
    invoices, document = order.invoices, None
    if invoices is not None:
        named = command.document_id
        document = invoices.invoice if named is None else invoices.document(named)
    if document is None and command.document_id is not None:
        raise DocumentNotFound("The order has no document with this id.")
    if document is None or document.stamp is None:
        raise InvoiceNotReady("The document is not stamped, so that it cannot be cancelled.")
    return document


def _is_in_use(order: Order, invoice: Document) -> bool:
    assert order.invoices is not None, "the invoice is among them"
    related = [*order.invoices.receipts, *order.invoices.credit_notes]
    return any(not each.is_cancelled and each.terms.invoice_id == invoice.document_id for each in related)  # type: ignore[union-attr]
