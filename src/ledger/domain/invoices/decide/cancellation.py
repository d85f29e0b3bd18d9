"""The deciders of cancellations of stamped documents (CFF 29-A, RMF 2.7.1.34)."""

from __future__ import annotations

from zoneinfo import ZoneInfo

from ledger.domain.invoices.commands import (
    CancelDocument,
    CancellationOutcome,
    CancellationPending,
    Cancelled,
    RecordCancellation,
    Refused,
    RepeatCancellation,
    RequestCancellation,
    StampNext,
    StillValid,
    wants_credit_notes,
)
from ledger.domain.invoices.due import due_documents
from ledger.domain.invoices.paid_in_full import invoice_total
from ledger.domain.money import ZERO
from ledger.domain.orders.invoices.events import (
    DocumentCancellationPending,
    DocumentCancellationRefused,
    DocumentCancellationRequested,
    DocumentCancelled,
    InvoiceEvent,
)
from ledger.domain.orders.invoices.state import (
    CancellationStatus,
    Document,
    DocumentCancellation,
    DocumentStatus,
    Stamp,
)
from ledger.domain.orders.invoices.terms import CancellationMotive, InvoiceTerms, PueRefund
from ledger.domain.orders.state import Order
from ledger.domain.rejections import DocumentNotFound, InvalidField, InvoiceInUse, InvoiceNotReady


def decide_document_cancellation(order: Order, command: CancelDocument) -> list[InvoiceEvent]:
    """Asks the provider to cancel a stamped document. Returns no events if an earlier request was not refused.

    Raises InvalidField for `substitutedBy`, which motive 01 requires and the others exclude, and which names another
    document; DocumentNotFound;
    InvoiceNotReady if the document is not stamped; InvoiceInUse for an invoice with receipts or credit notes that are
    stamped or being stamped, which SAT cancels only after them, and for one whose order was refunded in part and whose
    credit note is about to be stamped. A document that failed does not count: it is dropped with its invoice.
    """
    require_substitute(command)
    document = _document(order, command)
    cancellation = document.cancellation
    if cancellation is not None and cancellation.status is not CancellationStatus.REFUSED:
        return []
    require_other_document(command, document.stamp)
    if isinstance(document.terms, InvoiceTerms) and _is_in_use(order, document):
        raise InvoiceInUse("The invoice has payment receipts or credit notes that are stamped: cancel them first.")
    if isinstance(document.terms, InvoiceTerms) and _awaits_credit_note(order):
        raise InvoiceInUse(
            "The order was refunded in part, and the credit note is not stamped yet: stamp it, and cancel it first."
        )
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


def cancellation_of_refunded(order: Order, command: StampNext) -> list[InvoiceEvent]:
    """Returns the request to cancel the invoice of an order of one payment that was refunded in full within the month
    of the invoice's own date, if the merchant's `pueRefund` is CANCEL_IN_MONTH (SAT's motive 03: the operation did not
    take place).

    Returns no events once the invoice is not the only document: a refund has its credit note, or a request has drawn up
    a cancelled invoice again. A cancellation for a refund that was refused or could not be sent is not repeated. In all
    of these cases the refund gets its credit note. What the merchant asked for before the refund does not count.
    """
    invoices = order.invoices
    invoice = None if invoices is None else invoices.stamped_invoice
    if invoices is None or invoice is None or invoices.enabled.pue_refund is not PueRefund.CANCEL_IN_MONTH:
        return []
    if order.terms.allow_partials or not wants_credit_notes(command.request):
        return []
    was_asked = invoice.cancellation is not None and invoice.cancellation.for_refund
    if was_asked or invoice.is_being_cancelled or len(invoices.documents) > 1:
        return []
    due = due_documents(order)
    if sum((each.amount for each in due), ZERO) < invoice.terms.total:  # type: ignore[union-attr]  # it is an invoice
        return []
    zone = ZoneInfo(command.time_zone)
    times = (invoice.terms.issued_at, command.at, *(each.movement.at for each in due))
    if len({(local.year, local.month) for local in (at.astimezone(zone) for at in times)}) > 1:
        return []
    return [
        DocumentCancellationRequested(
            document_id=invoice.document_id,
            motive=CancellationMotive.NOT_CARRIED_OUT,
            provider=command.provider,
            deadline_at=command.deadline_at,
            at=command.at,
            for_refund=True,
        )
    ]


def decide_cancellation_outcome(order: Order, command: RecordCancellation) -> list[InvoiceEvent]:
    """Records what the provider reports about a cancellation. Never refuses."""
    document_id, at = command.document_id, command.at
    document = None if order.invoices is None else order.invoices.document(document_id)
    match reported(None if document is None else document.cancellation, command.outcome):
        case None:
            return []
        case Cancelled():
            return [DocumentCancelled(document_id=document_id, at=at)]
        case CancellationPending(message=message, unanswered=unanswered):
            return [DocumentCancellationPending(document_id=document_id, at=at, message=message, unanswered=unanswered)]
        case Refused(code=code, message=message):
            return [DocumentCancellationRefused(document_id=document_id, code=code, message=message, at=at)]


def require_substitute(command: RequestCancellation) -> None:
    """Raises InvalidField for `substitutedBy`, which motive 01 requires and the others exclude."""
    needed = command.motive is CancellationMotive.WITH_SUBSTITUTE
    if needed and command.substituted_by is None:
        raise InvalidField("substitutedBy", "is required with motive 01", "REQUIRED")
    if not needed and command.substituted_by is not None:
        raise InvalidField("substitutedBy", "is allowed with motive 01 only")


def require_other_document(command: RequestCancellation, stamp: Stamp | None) -> None:
    """Raises InvalidField for a document that is to replace itself: nothing would state what it states."""
    if stamp is not None and command.substituted_by == stamp.fiscal_uuid:
        raise InvalidField("substitutedBy", "must be the fiscal UUID of another document, which replaces this one")


def reported(
    cancellation: DocumentCancellation | None, outcome: CancellationOutcome
) -> Cancelled | CancellationPending | Refused | None:
    """Returns what an outcome means for a cancellation, None if nothing. A document that SAT reports as valid may be
    refused to be cancelled, or SAT may not have the request: only a refusal in words is one.

    Nothing follows a cancellation that has ended; a document that was cancelled after a refusal is cancelled.
    """
    if cancellation is None or cancellation.status is CancellationStatus.CANCELLED:
        return None
    if cancellation.status is CancellationStatus.REFUSED and not isinstance(outcome, Cancelled):
        return None
    return CancellationPending(outcome.message, unanswered=True) if isinstance(outcome, StillValid) else outcome


def decide_repeated_cancellation(order: Order, command: RepeatCancellation) -> list[InvoiceEvent]:
    """Asks again for a cancellation that has no result and no open call. Returns no events in any other case."""
    document = None if order.invoices is None else order.invoices.document(command.document_id)
    cancellation = None if document is None else document.cancellation
    if cancellation is None or cancellation.status is not CancellationStatus.PENDING:
        return []
    return [
        DocumentCancellationRequested(
            document_id=command.document_id,
            motive=cancellation.motive,
            substituted_by=cancellation.substituted_by,
            provider=command.provider,
            deadline_at=command.deadline_at,
            at=command.at,
            for_refund=cancellation.for_refund,
        )
    ]


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


def _awaits_credit_note(order: Order) -> bool:
    """Returns whether an order of one payment was refunded in part, and a credit note follows by itself."""
    if order.terms.allow_partials or order.invoices is None:
        return False
    due = due_documents(order)
    if sum((each.amount for each in due), ZERO) >= invoice_total(order):
        return False
    unfailed = (each for each in due if order.invoices.failure_of(each.slot) is None)
    return any(
        not each.on_request if each.document is None else each.document.status is DocumentStatus.PENDING
        for each in unfailed
    )


def _is_in_use(order: Order, invoice: Document) -> bool:
    """Returns whether a receipt or a credit note of the invoice is stamped and not cancelled, or may be stamped now."""
    assert order.invoices is not None, "the invoice is among them"
    related = [*order.invoices.receipts, *order.invoices.credit_notes]
    return any(
        not each.is_cancelled
        and each.terms.invoice_id == invoice.document_id  # type: ignore[union-attr]  # it is no invoice
        and (each.stamp is not None or each.intent is not None)
        for each in related
    )
