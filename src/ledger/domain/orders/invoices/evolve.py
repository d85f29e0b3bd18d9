"""The fold of the events of an order's electronic invoices.

Never refuse an event and never read a rule of the business here, as in `ledger.domain.orders.evolve`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import assert_never

from msgspec.structs import replace

from ledger.domain.orders.invoices import cancellation
from ledger.domain.orders.invoices.events import (
    UNNAMED,
    DocumentAnnounced,
    DocumentCancellationPending,
    DocumentCancellationRefused,
    DocumentCancellationRequested,
    DocumentCancelled,
    DocumentEvent,
    DocumentRefused,
    DocumentStamped,
    InvoiceEvent,
    InvoicingBlocked,
    InvoicingEnabled,
    ReceiptDeadlineNear,
    StampingAbandoned,
    StampingRequested,
    StampingUnanswered,
)
from ledger.domain.orders.invoices.mail import DocumentMail, evolve_mail
from ledger.domain.orders.invoices.mail_events import (
    DocumentMailDropped,
    DocumentMailed,
    DocumentMailPostponed,
    DocumentMailRequested,
)
from ledger.domain.orders.invoices.state import (
    EVERY_SLOT,
    Document,
    DocumentCancellation,
    DocumentFailure,
    DocumentStatus,
    Invoices,
    Stamp,
    StampingIntent,
)


def evolve_invoices(invoices: Invoices | None, event: InvoiceEvent) -> Invoices:
    """Returns the invoices after `event`. `invoices` is None before the order is invoiced."""
    invoices = invoices or Invoices(enabled=InvoicingEnabled(at=event.at))
    match event:
        case InvoicingEnabled():
            fiscal = event.fiscal or invoices.enabled.fiscal
            rate = event.exchange_rate or invoices.enabled.exchange_rate
            enabled = replace(event, fiscal=fiscal, exchange_rate=rate)
            if rate != invoices.enabled.exchange_rate:
                invoices = with_invoice_outdated(invoices, event.at, drops_receiver=False)
            return replace(invoices, enabled=enabled, blocked={})
        case InvoicingBlocked():
            failure = DocumentFailure(event.code, event.message, event.at)
            added = dict.fromkeys(event.slots or (EVERY_SLOT,), failure)
            return replace(invoices, blocked={**invoices.blocked, **added})
        case DocumentAnnounced():
            return _announced(invoices, event)
        case ReceiptDeadlineNear():
            return replace(invoices, warned=(*invoices.warned, event.payment_id))
        case _:
            documents = tuple(
                _evolve_document(each, event) if each.document_id == event.document_id else each
                for each in invoices.documents
            )
            sent = isinstance(event, StampingRequested)
            slots = [each.slot for each in documents if sent and each.document_id == event.document_id]
            blocked = _without(invoices.blocked, *slots, EVERY_SLOT) if slots else invoices.blocked
            return replace(invoices, documents=documents, blocked=blocked)


def without_receivers(invoices: Invoices) -> Invoices:
    """Returns the invoices without the personal data of the receiver."""
    documents = tuple(replace(each, terms=replace(each.terms, receiver=UNNAMED)) for each in invoices.documents)
    return replace(invoices, enabled=replace(invoices.enabled, fiscal=None), documents=documents)


def with_invoice_outdated(invoices: Invoices, at: datetime, *, drops_receiver: bool) -> Invoices:
    """Returns the invoices of an order whose terms or exchange rate were changed at a time. An invoice that was
    announced and is not stamped is drawn up and tried again; with `drops_receiver`, the order's own receiver counts
    again.
    """
    invoice = invoices.invoice
    documents = tuple(
        replace(each, is_outdated=True, retry_at=at) if each is invoice and each.stamp is None else each
        for each in invoices.documents
    )
    enabled = replace(invoices.enabled, fiscal=None) if drops_receiver else invoices.enabled
    return replace(invoices, enabled=enabled, documents=documents, blocked={})


def _announced(invoices: Invoices, event: DocumentAnnounced) -> Invoices:
    existing = invoices.document(event.terms.document_id)
    terms = replace(event.terms, receiver=event.receiver or UNNAMED)
    if existing is None:
        document = Document(
            slot=event.slot,
            terms=terms,
            created_at=event.at,
            retry_at=event.at,
            receipt_due_at=event.receipt_due_at,
        )
        documents = (*invoices.documents, document)
    else:
        again = replace(existing, terms=terms, status=DocumentStatus.PENDING, retry_at=event.at, is_outdated=False)
        documents = tuple(again if each is existing else each for each in invoices.documents)
    return replace(invoices, documents=documents, blocked=_without(invoices.blocked, event.slot, EVERY_SLOT))


def _without(blocked: Mapping[str, DocumentFailure], *slots: str) -> Mapping[str, DocumentFailure]:
    return {slot: failure for slot, failure in blocked.items() if slot not in slots}


def _evolve_document(document: Document, event: DocumentEvent) -> Document:
    match event:
        case StampingRequested():
            terms = document.terms if event.folio is None else replace(document.terms, folio=event.folio)
            return replace(
                document,
                terms=terms,
                is_counted=document.is_counted or event.folio is not None,
                status=DocumentStatus.PENDING,
                attempts=document.attempts + 1,
                retry_at=None,
                intent=StampingIntent(event.provider, event.deadline_at, event.certificate),
            )
        case StampingUnanswered():
            return replace(document, intent=None if document.intent is None else _unknown(document.intent))
        case StampingAbandoned():
            return replace(document, intent=None, retry_at=event.retry_at)
        case DocumentStamped():
            return _stamped(document, event)
        case DocumentRefused():
            return replace(
                document,
                status=DocumentStatus.FAILED,
                refusals=document.refusals + 1,
                intent=None,
                failure=DocumentFailure(event.code, event.message, event.at),
                retry_at=event.retry_at,
            )
        case DocumentMailRequested() | DocumentMailPostponed() | DocumentMailed() | DocumentMailDropped():
            mail = document.mail or DocumentMail(send_at=event.at)
            return replace(document, mail=evolve_mail(mail, event))
        case _:
            return replace(document, cancellation=_evolve_cancellation(document.cancellation, event))


def _stamped(document: Document, event: DocumentStamped) -> Document:
    stamp = Stamp(
        fiscal_uuid=event.fiscal_uuid,
        invoice_id=event.invoice_id,
        stamped_at=event.stamped_at,
        emitted_at=event.at,
        xml_key=event.xml_key,
        pdf_key=event.pdf_key,
        xml_sha256=event.xml_sha256,
    )
    return replace(
        document,
        status=DocumentStatus.EMITTED,
        stamp=stamp,
        intent=None,
        failure=None,
        retry_at=None,
        mail=DocumentMail(send_at=event.at) if event.mail else None,
    )


def _unknown(intent: StampingIntent) -> StampingIntent:
    return replace(intent, unknown=True)


_CancellationEvent = (
    DocumentCancellationRequested | DocumentCancellationPending | DocumentCancelled | DocumentCancellationRefused
)


def _evolve_cancellation(before: DocumentCancellation | None, event: _CancellationEvent) -> DocumentCancellation:
    match event:
        case DocumentCancellationRequested():
            intent = StampingIntent(event.provider, event.deadline_at)
            return cancellation.requested(
                before, intent, event.motive, event.substituted_by, event.at, for_refund=event.for_refund
            )
        case DocumentCancellationPending():
            return cancellation.pending(before, event.at, unanswered=event.unanswered)
        case DocumentCancelled():
            return cancellation.cancelled(before, event.at)
        case DocumentCancellationRefused():
            return cancellation.refused(before, event.code, event.message, event.at)
        case _:
            assert_never(event)
