"""Mails a stamped document with its XML and its PDF: records the attempt, hands the message over, records the outcome.

Two workers that run the same job make one attempt, because the version of the order decides which intent is recorded.
After a crash in the middle of an attempt there is one more: then the receiver may get the message twice, under one
Message-ID.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar
from uuid import UUID

import structlog

from ledger.domain.customers.state import Customer
from ledger.domain.customers.terms import Accepted, AttemptOutcome
from ledger.domain.invoices.commands import MailDocument, RecordDocumentMail
from ledger.domain.invoices.decide.mail import decide_document_mail, decide_document_mail_outcome
from ledger.domain.orders.invoices.events import InvoiceEvent
from ledger.domain.orders.invoices.mail_events import (
    DocumentMailDropped,
    DocumentMailPostponed,
    DocumentMailRequested,
    MailDroppedBecause,
)
from ledger.domain.orders.invoices.state import Document
from ledger.domain.orders.invoices.terms import CreditNoteTerms, DocumentTerms, ReceiptTerms
from ledger.domain.orders.state import Order
from ledger.domain.streams import CUSTOMERS, ORDERS, Stream
from ledger.invoicing.files import FilesUnavailable
from ledger.journal.append import Change, Conflict
from ledger.notifications.contract import Attachment, MessageKind, Notification
from ledger.notifications.log import LogNotifier
from ledger.notifications.messages import Addressee, electronic_document
from ledger.notifications.not_sent import in_words
from ledger.operations.context.inputs import Actor
from ledger.operations.context.ledger import Ledger
from ledger.operations.message_call import AttemptRunning, MessageCall, message_deadline
from ledger.operations.pipeline.execute import execute
from ledger.operations.pipeline.unit_of_work import Plan, UnitOfWork
from ledger.telemetry.metrics import DOCUMENT_MAILS

_log = structlog.get_logger()


class MailCall(MessageCall, frozen=True, kw_only=True):
    """An attempt to mail a document that the order has as running."""

    order: Order
    document: Document

    stream: ClassVar[Stream[Any]] = ORDERS

    @property
    def stream_id(self) -> UUID:
        return self.order.terms.order_id

    @property
    def deadline_at(self) -> datetime:
        assert self.document.mail is not None, "the attempt was just recorded"
        assert self.document.mail.deadline_at is not None, "the attempt was just recorded"
        return self.document.mail.deadline_at

    @property
    def about(self) -> Mapping[str, str]:
        return _about(self.merchant_id, self.stream_id, self.document.document_id)

    async def prepare(self, uow: UnitOfWork) -> Notification:
        return await _notification(self, uow)

    def record(self, state: Order, outcome: AttemptOutcome, now: datetime) -> Sequence[InvoiceEvent]:
        command = RecordDocumentMail(document_id=self.document.document_id, outcome=outcome, at=now)
        return decide_document_mail_outcome(state, command)

    def recorded(self, outcome: AttemptOutcome, change: Change) -> bool:
        _report(self.merchant_id, change)
        if isinstance(outcome, Accepted):
            DOCUMENT_MAILS.labels("sent").inc()
        return True


def mail_call(
    ledger: Ledger, merchant_id: UUID, order: Order, event: DocumentMailRequested, _: object = None
) -> MailCall | None:
    """Returns the attempt that an event of this order announces; None if it has ended."""
    document = None if order.invoices is None else order.invoices.document(event.document_id)
    mail = None if document is None else document.mail
    if document is None or mail is None or mail.deadline_at != event.deadline_at:
        return None
    return MailCall(ledger=ledger, merchant_id=merchant_id, order=order, document=document)


async def mail_document(ledger: Ledger, merchant_id: UUID, order_id: UUID, document_id: UUID) -> None:
    """Mails a stamped document whose message is due by its merchant's clock, or records why it is not mailed.

    Does nothing if it is not due. Raises AttemptRunning, ConcurrentUpdate, a Fault: run it again later.
    """
    uow = UnitOfWork(ledger, Actor(merchant_id=merchant_id, request_id="due"), cause=document_id)

    async def attempt(_: Conflict | None) -> Plan:
        order = await uow.order(order_id)
        customer = await uow.load(CUSTOMERS, order.terms.customer_id, fresh=True)  # the latest preferences count
        assert customer is not None, "an order's customer is never deleted"
        document = None if order.invoices is None else order.invoices.document(document_id)
        real_at = datetime.now(UTC)
        command = MailDocument(
            document_id=document_id,
            notifier=ledger.notifier.name,
            deadline_at=message_deadline(ledger, real_at),
            real_at=real_at,
            at=uow.now,
            withheld=None if document is None else _withheld(customer, document.terms.receiver.email),
        )
        return Plan(changes=[uow.change_order(order_id, decide_document_mail(order, command))])

    plan = await execute(uow, attempt)
    _report(merchant_id, plan.changes[0])
    order: Order = plan.changes[0].after
    document = None if order.invoices is None else order.invoices.document(document_id)
    mail = None if document is None else document.mail
    if not plan.events and mail is not None and mail.deadline_at is not None:
        raise AttemptRunning


def is_mailed(ledger: Ledger, customer: Customer, receivers_email: str | None) -> bool:
    """Returns whether a document that is stamped now is mailed. Without a mail server none is: nothing is recorded."""
    return not isinstance(ledger.notifier, LogNotifier) and _withheld(customer, receivers_email) is None


def _withheld(customer: Customer, receivers_email: str | None) -> MailDroppedBecause | None:
    """Returns why the customer gets no electronic invoices (contract N49), or None."""
    wanted = customer.preferences
    if customer.erased:
        return MailDroppedBecause.ERASED
    if not (wanted.email and wanted.invoices):
        return MailDroppedBecause.UNWANTED
    return None if receivers_email or customer.email else MailDroppedBecause.NO_ADDRESS


async def _notification(call: MailCall, uow: UnitOfWork) -> Notification:
    ledger, order, document = call.ledger, call.order, call.document
    assert order.invoices is not None, "the document is one of its invoices"
    assert document.stamp is not None, "only a stamped document is mailed"
    merchant = await ledger.merchant(call.merchant_id)
    customer = await uow.load(CUSTOMERS, order.terms.customer_id)  # as the attempt was decided on it
    assert customer is not None, "an order's customer is never deleted"
    recipient = document.terms.receiver.email or customer.email
    assert recipient is not None, "the decider withholds what has no address"
    addressee = Addressee(
        merchant=merchant.name,
        time_zone=order.invoices.enabled.time_zone,
        customer_name=customer.first_name,
        language=customer.preferences.language,
    )
    terms = document.terms
    message = electronic_document(
        addressee,
        kind=_kind(terms),
        number=f"{terms.series}-{terms.folio}" if terms.series else terms.folio,
        fiscal_uuid=str(document.stamp.fiscal_uuid).upper(),
        amount=terms.applied_amount if isinstance(terms, ReceiptTerms) else terms.total,
        currency=terms.currency,
        issued_at=terms.issued_at,
    )
    return Notification(
        notification_id=document.document_id,
        sender_name=merchant.name,
        recipient=recipient,
        message=message,
        attachments=await _files(call),
        about=call.about,
    )


async def _files(call: MailCall) -> tuple[Attachment, ...]:
    """Returns the stored XML and PDF of the document. Raises FilesUnavailable, FileMissing."""
    stamp, invoicing = call.document.stamp, call.ledger.invoicing
    assert stamp is not None, "only a stamped document is mailed"
    if invoicing is None:
        raise FilesUnavailable("this process has no access to files")
    name = str(stamp.fiscal_uuid).upper()
    attachments = []
    for key, ending, kind in ((stamp.xml_key, "xml", "application/xml"), (stamp.pdf_key, "pdf", "application/pdf")):
        content = await invoicing.files.require(key)
        attachments.append(Attachment(name=f"{name}.{ending}", media_type=kind, content=content))
    return tuple(attachments)


def _kind(terms: DocumentTerms) -> MessageKind:
    if isinstance(terms, ReceiptTerms):
        return MessageKind.CFDI_RECEIPT
    return MessageKind.CFDI_CREDIT_NOTE if isinstance(terms, CreditNoteTerms) else MessageKind.CFDI_INVOICE


def _report(merchant_id: UUID, change: Change) -> None:
    """Counts and logs what was not sent. Only what a mail server caused is a warning."""
    for event in change.events:
        if isinstance(event, DocumentMailPostponed):
            DOCUMENT_MAILS.labels("postponed").inc()
            about = _about(merchant_id, change.stream_id, event.document_id)
            _log.info("document_mail_postponed", code=event.code, **about)
        elif isinstance(event, DocumentMailDropped):
            DOCUMENT_MAILS.labels("dropped").inc()
            about = _about(merchant_id, change.stream_id, event.document_id)
            reason = {"because": event.because, "message": in_words(event.because)}
            if event.code is None:
                _log.info("document_mail_dropped", **reason, **about)
            else:
                _log.warning("document_mail_dropped", code=event.code, **reason, **about)


def _about(merchant_id: UUID, order_id: UUID, document_id: UUID) -> dict[str, str]:
    """Returns what the log lines of a document's message name."""
    return {"merchant_id": str(merchant_id), "order_id": str(order_id), "document_id": str(document_id)}
