"""The deciders of the message that brings a stamped document to its receiver, once."""

from __future__ import annotations

from datetime import timedelta

from ledger.domain.customers.terms import Accepted, NotAccepted, after_failure, why_not_begun
from ledger.domain.invoices.commands import MailDocument, RecordDocumentMail
from ledger.domain.orders.invoices.events import InvoiceEvent
from ledger.domain.orders.invoices.mail import DocumentMail
from ledger.domain.orders.invoices.mail_events import (
    DocumentMailDropped,
    DocumentMailed,
    DocumentMailPostponed,
    DocumentMailRequested,
    MailDroppedBecause,
)
from ledger.domain.orders.invoices.state import Document
from ledger.domain.orders.state import Order


def decide_document_mail(order: Order, command: MailDocument) -> list[InvoiceEvent]:
    """Records the attempt to mail a document, or why it is not mailed.

    Returns no events if the message is not due, was sent or dropped, or while another worker's attempt is running.
    """
    document, mail = _mail_of(order, command.document_id)
    if document is None or mail is None or mail.send_at is None:
        return []
    if mail.deadline_at is not None and command.real_at < mail.deadline_at:
        return []
    because = _why_not_sent(order, document, mail, command)
    if because is not None:
        return [DocumentMailDropped(document_id=document.document_id, because=because, at=command.at)]
    if mail.deadline_at is None and mail.send_at > command.at:
        return []
    return [
        DocumentMailRequested(
            document_id=document.document_id,
            notifier=command.notifier,
            deadline_at=command.deadline_at,
            at=command.at,
        )
    ]


def decide_document_mail_outcome(order: Order, command: RecordDocumentMail) -> list[InvoiceEvent]:
    """Records how the running attempt to mail a document ended. Returns no events if none is running."""
    document_id, at, outcome = command.document_id, command.at, command.outcome
    _, mail = _mail_of(order, document_id)
    if mail is None or mail.send_at is None or mail.deadline_at is None:
        return []
    if isinstance(outcome, Accepted):
        return [DocumentMailed(document_id=document_id, at=at)]
    pause = after_failure(mail, outcome)
    if not isinstance(pause, timedelta):
        because = MailDroppedBecause(pause)
        return [DocumentMailDropped(document_id=document_id, because=because, code=outcome.code, at=at)]
    unknown = isinstance(outcome, NotAccepted) and outcome.unknown
    retry_at = at + pause
    return [
        DocumentMailPostponed(document_id=document_id, code=outcome.code, retry_at=retry_at, at=at, unknown=unknown)
    ]


def _mail_of(order: Order, document_id: object) -> tuple[Document | None, DocumentMail | None]:
    documents = () if order.invoices is None else order.invoices.documents
    document = next((each for each in documents if each.document_id == document_id), None)
    return document, None if document is None else document.mail


def _why_not_sent(
    order: Order, document: Document, mail: DocumentMail, command: MailDocument
) -> MailDroppedBecause | None:
    if document.is_cancelled:
        return MailDroppedBecause.CANCELLED
    if order.payer_forgotten:
        return MailDroppedBecause.ERASED
    if command.withheld is not None:
        return command.withheld
    given_up = why_not_begun(mail, command.at, command.at)  # a fiscal document is never too late
    return None if given_up is None else MailDroppedBecause(given_up)
