"""The public events of an order's electronic invoices, receipts and credit notes in one command."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final
from uuid import UUID

from ledger.domain.invoices.due import due_documents
from ledger.domain.invoices.movements import document_id_of
from ledger.domain.orders.invoices.events import (
    DocumentCancellationRefused,
    DocumentCancelled,
    InvoicingBlocked,
    ReceiptDeadlineNear,
)
from ledger.domain.orders.invoices.state import INVOICE_SLOT, Document, DocumentStatus, Invoices
from ledger.domain.orders.invoices.terms import CreditNoteTerms, InvoiceTerms
from ledger.domain.orders.state import Order
from ledger.domain.public_events import kinds
from ledger.domain.public_events.command import CommandStream, PublicEvent, Subject
from ledger.domain.public_events.kinds import Kind, ResourceType
from ledger.domain.public_events.lookup import last_cause
from ledger.domain.public_events.statuses import DOCUMENT_STATUSES

_CANCELLED: Final = {
    ResourceType.INVOICE: kinds.INVOICE_CANCELLED,
    ResourceType.COMPLEMENT: kinds.COMPLEMENT_CANCELLED,
    ResourceType.CREDIT_NOTE: kinds.CREDIT_NOTE_CANCELLED,
}
_CANCELLATION_REFUSED: Final = {
    ResourceType.INVOICE: kinds.INVOICE_CANCELLATION_REFUSED,
    ResourceType.COMPLEMENT: kinds.COMPLEMENT_CANCELLATION_REFUSED,
    ResourceType.CREDIT_NOTE: kinds.CREDIT_NOTE_CANCELLATION_REFUSED,
}


def announced(stream: CommandStream, before: Order | None, after: Order) -> Iterator[PublicEvent]:
    """Yields the public events of an order's documents."""
    invoices = after.invoices
    earlier = None if before is None else before.invoices
    if invoices is None or invoices is earlier:
        return
    yield from _changes_of_status(stream, earlier, invoices)
    for logged in stream.events:
        match logged.event:
            case InvoicingBlocked():
                yield _event(stream, kinds.INVOICE_FAILED, _invoice_id(after, invoices), logged.position)
            case ReceiptDeadlineNear(payment_id=payment_id):
                kind, document_id = kinds.COMPLEMENT_DEADLINE_NEAR, _receipt_id(after, payment_id)
                yield _event(stream, kind, document_id, logged.position, payment_id=payment_id)
            case DocumentCancelled(document_id=document_id) | DocumentCancellationRefused(document_id=document_id):
                document = invoices.document(document_id)
                if document is not None:
                    results = _CANCELLED if isinstance(logged.event, DocumentCancelled) else _CANCELLATION_REFUSED
                    yield _event(stream, results[type_of(document)], document_id, logged.position)
            case _:
                pass  # a change of status, or no public event


def type_of(document: Document) -> ResourceType:
    """Returns what a document is to the feed: a further invoice of a split order is an invoice, too."""
    match document.terms:
        case InvoiceTerms():
            return ResourceType.INVOICE
        case CreditNoteTerms():
            return ResourceType.CREDIT_NOTE
        case _:
            return ResourceType.COMPLEMENT


def _changes_of_status(stream: CommandStream, before: Invoices | None, after: Invoices) -> Iterator[PublicEvent]:
    for document in after.documents:
        earlier = None if before is None else before.document(document.document_id)
        previous = None if earlier is None else earlier.status
        if document.status is previous:
            continue
        for kind in DOCUMENT_STATUSES[type_of(document), document.status].kinds:
            position = last_cause(stream, kind, document_id=document.document_id)
            yield _event(stream, kind, document.document_id, position, previous=previous)


def _event(
    stream: CommandStream,
    kind: Kind,
    document_id: UUID,
    position: int,
    *,
    previous: DocumentStatus | None = None,
    payment_id: UUID | None = None,
) -> PublicEvent:
    return PublicEvent(
        kind=kind,
        resource_id=document_id,
        stream_id=stream.stream_id,
        version=stream.version,
        position=position,
        previous_status=previous,
        subject=Subject(document_id=document_id, payment_id=payment_id),
    )


def _invoice_id(order: Order, invoices: Invoices) -> UUID:
    """Returns the id of the order's invoice, or the one that it will have once it can be drawn up."""
    return document_id_of(order, INVOICE_SLOT) if invoices.invoice is None else invoices.invoice.document_id


def _receipt_id(order: Order, payment_id: UUID) -> UUID:
    """Returns the id of a payment's first receipt that is not stamped, or the one that it will have."""
    for due in due_documents(order):
        if due.is_receipt and due.movement.payment.payment_id == payment_id:
            if due.document is None:
                return document_id_of(order, due.slot)
            if due.document.stamp is None:
                return due.document.document_id
    return payment_id
