"""When an order's documents are due, and the progress that the order shows: its invoice's status and its summary.

Pure functions of the order. A document that is due and not announced yet counts as pending.
"""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime, time, timedelta
from enum import StrEnum
from typing import Final
from uuid import UUID
from zoneinfo import ZoneInfo

from msgspec import Struct

from ledger.domain.invoices.movements import DueDocument, DueKind
from ledger.domain.invoices.single_orders import due_of_single_order
from ledger.domain.invoices.split_orders import due_of_split_order
from ledger.domain.orders.invoices.events import InvoicingEnabled
from ledger.domain.orders.invoices.state import (
    INVOICE_SLOT,
    CancellationStatus,
    Document,
    DocumentCancellation,
    DocumentFailure,
    DocumentStatus,
    Invoices,
)
from ledger.domain.orders.invoices.terms import InvoiceTrigger
from ledger.domain.orders.state import Order
from ledger.domain.orders.statuses import PaymentStatus

RECEIPT_DEADLINE_WARNING: Final = timedelta(hours=48)
"""How long before the deadline of a payment receipt (REP) the ledger warns."""
STATUS_PAUSE: Final = timedelta(hours=6)
"""How often the provider is asked about a cancellation that the receiver has to accept."""
UNANSWERED_PAUSES: Final = (timedelta(minutes=5), timedelta(minutes=30), timedelta(hours=2), STATUS_PAUSE)
"""The pauses before the provider is asked about a cancellation of which SAT may not know; the last one repeats."""

_CAPTURED_IN_SUMMARY: Final = frozenset(
    {
        PaymentStatus.CAPTURED,
        PaymentStatus.PARTIALLY_CAPTURED,
        PaymentStatus.SETTLED,
        PaymentStatus.PARTIALLY_REFUNDED,
        PaymentStatus.REFUNDED,
    }
)
"""The statuses of a payment that the summary counts (interface, InvoiceSummary)."""


class InvoiceSummary(Struct, frozen=True, kw_only=True):
    """How far the documents of a split order are stamped, in payments and in refund events (contract N48)."""

    captured_count: int
    emitted_rep_count: int
    pending_rep_count: int
    failed_rep_count: int
    refund_event_count: int
    emitted_credit_note_count: int
    pending_credit_note_count: int
    failed_credit_note_count: int
    is_fully_stamped: bool


class InvoiceTimerKind(StrEnum):
    """What is due: the next stamp, a warning about a receipt's deadline, a question about a pending cancellation, the
    message with a stamped document.
    """

    STAMP = "STAMP"
    RECEIPT_DEADLINE = "RECEIPT_DEADLINE"
    CANCELLATION = "CANCELLATION"
    MAIL = "DOCUMENT_MAIL"


def is_invoice_due(order: Order) -> bool:
    """Returns whether the trigger of the invoice was reached (contract N46).

    The invoice of one payment is due once the order was paid in full, that of a split order at its first money or,
    by the merchant's setting, at its creation.
    """
    if not order.is_fiscal:
        return False
    if not order.terms.allow_partials:
        return order.amount_paid > 0 and order.amount_paid >= order.amount
    trigger = InvoiceTrigger.FIRST_CAPTURE if order.invoices is None else order.invoices.enabled.trigger
    return order.amount_paid > 0 or (trigger is InvoiceTrigger.CREATION and not order.closed)


def invoice_status(order: Order) -> DocumentStatus | None:
    """Returns the progress of the invoice, None while it is not due and once it is cancelled. An invoice that cannot be
    drawn up is FAILED.
    """
    invoices = order.invoices
    invoice = None if invoices is None else invoices.invoice
    if invoices is not None and invoice is not None:
        return None if invoice.is_cancelled else status_of_document(invoices, invoice)
    if not is_invoice_due(order):
        return None
    blocked = invoices is not None and invoices.failure_of(INVOICE_SLOT) is not None
    return DocumentStatus.FAILED if blocked else DocumentStatus.PENDING


def due_documents(order: Order) -> list[DueDocument]:
    """Returns the documents that the order's movements need beside its invoice, in the order of stamping."""
    return due_of_split_order(order) if order.terms.allow_partials else due_of_single_order(order)


def blocked_documents(order: Order) -> list[tuple[DueDocument, DocumentFailure]]:
    """Returns the documents beside the invoice that are due and could not be drawn up, each with the reason."""
    invoices = order.invoices
    if invoices is None or not invoices.blocked or not takes_documents(order, invoices):
        return []
    unannounced = (each for each in due_documents(order) if each.document is None)
    reasons = ((each, invoices.failure_of(each.slot)) for each in unannounced)
    return [(each, failure) for each, failure in reasons if failure is not None]


def unstamped_slots(order: Order) -> list[str]:
    """Returns the slots of the documents that timers are to stamp: announced ones, and those still to be drawn up."""
    invoices = order.invoices
    slots = [] if invoices is None else [each.slot for each in invoices.current if each.stamp is None]
    if invoices is None or invoices.invoice is None:
        return [INVOICE_SLOT] if is_invoice_due(order) else slots
    if takes_documents(order, invoices):
        slots += [
            each.slot
            for each in due_documents(order)
            if each.document is None and not each.on_request and has_invoice(invoices, each)
        ]
    return slots


def summary(order: Order) -> InvoiceSummary:
    """Returns the counts of a split order's receipts, by payment, and of its credit notes, by refund event.

    A payment's receipt is EMITTED once all its receipts are stamped, and FAILED if one of them has failed; so is the
    credit note of a refund.
    """
    due = due_documents(order)
    by_payment: dict[UUID, list[DueDocument]] = defaultdict(list)
    for each in due:
        if each.is_receipt:
            by_payment[each.movement.payment.payment_id].append(each)
    receipts = [
        _status_of(order, parts)
        for parts in by_payment.values()
        if parts[0].movement.payment.status in _CAPTURED_IN_SUMMARY
    ]
    by_refund: dict[str, list[DueDocument]] = defaultdict(list)
    for each in due:
        if each.kind is DueKind.CREDIT_NOTE:
            by_refund[each.movement.slot].append(each)
    notes = [_status_of(order, parts) for parts in by_refund.values()]
    return InvoiceSummary(
        captured_count=len(receipts),
        emitted_rep_count=receipts.count(DocumentStatus.EMITTED),
        pending_rep_count=receipts.count(DocumentStatus.PENDING),
        failed_rep_count=receipts.count(DocumentStatus.FAILED),
        refund_event_count=len(notes),
        emitted_credit_note_count=notes.count(DocumentStatus.EMITTED),
        pending_credit_note_count=notes.count(DocumentStatus.PENDING),
        failed_credit_note_count=notes.count(DocumentStatus.FAILED),
        is_fully_stamped=all(_status_of(order, [each]) is DocumentStatus.EMITTED for each in due),
    )


def receipt_due_at(order: Order, paid_at: datetime) -> datetime:
    """Returns the deadline of a payment's receipt: the end of a day of the month after the payment's, as the receipt
    dates it (in the time zone of the place of issue).

    The day is a setting; the default is the fifth (RMF 2.7.1.32, contract N47).
    """
    enabled = InvoicingEnabled(at=paid_at) if order.invoices is None else order.invoices.enabled
    zone = ZoneInfo(enabled.time_zone)
    local = paid_at.astimezone(zone)
    first = (local.date().replace(day=1) + timedelta(days=32)).replace(day=1)
    end = datetime.combine(first + timedelta(days=enabled.receipt_due_day), time(), zone)
    return end.astimezone(UTC) - timedelta(milliseconds=1)


def takes_documents(order: Order, invoices: Invoices) -> bool:
    """Returns whether receipts and credit notes can refer to the invoice now: it is stamped and not cancelled.

    The credit notes of an order of one payment wait for the result of a cancellation of the invoice, which needs none.
    Documents of a split order are announced meanwhile, and stamped after a refusal.
    """
    invoice = invoices.stamped_invoice
    return invoice is not None and (order.terms.allow_partials or not invoice.is_being_cancelled)


def has_invoice(invoices: Invoices, due: DueDocument) -> bool:
    """Returns whether the invoice that a due document belongs to is stamped and valid. A further one may not be yet."""
    if due.kind is DueKind.INVOICE:
        return True
    invoice = invoices.latest(due.invoice_slot)
    return invoice is not None and invoice.stamp is not None and not invoice.is_cancelled


def unstamped_receipts(order: Order) -> dict[UUID, datetime]:
    """Returns the earliest deadline of each payment that lacks a stamped receipt."""
    if not order.terms.allow_partials or not order.is_fiscal:
        return {}
    deadlines: dict[UUID, datetime] = {}
    for each in due_documents(order):
        if each.is_receipt and _status_of(order, [each]) is not DocumentStatus.EMITTED:
            deadlines.setdefault(each.movement.payment.payment_id, receipt_due_at(order, each.movement.at))
    return deadlines


def invoice_timers(order: Order) -> list[tuple[InvoiceTimerKind, UUID, datetime]]:
    """Returns the timers of an order's invoices: the kind, the payment or document (or the order), and the time."""
    if not order.is_fiscal:
        return []
    order_id, invoices = order.terms.order_id, order.invoices
    timers = []
    stamp_at = _next_stamp_at(order)
    if stamp_at is not None:
        timers.append((InvoiceTimerKind.STAMP, order_id, stamp_at))
    warned = () if invoices is None else invoices.warned
    timers += [
        (InvoiceTimerKind.RECEIPT_DEADLINE, payment_id, due_at - RECEIPT_DEADLINE_WARNING)
        for payment_id, due_at in unstamped_receipts(order).items()
        if payment_id not in warned
    ]
    for document in () if invoices is None else invoices.documents:
        cancellation = document.cancellation
        if cancellation is not None and cancellation.status is CancellationStatus.PENDING:
            at = cancellation.updated_at + pause_of(cancellation)
            timers.append((InvoiceTimerKind.CANCELLATION, document.document_id, at))
        mail = document.mail
        if mail is not None and mail.send_at is not None and mail.deadline_at is None:
            timers.append((InvoiceTimerKind.MAIL, document.document_id, mail.send_at))
    return timers


def pause_of(cancellation: DocumentCancellation) -> timedelta:
    """Returns how long after its latest event the provider is asked about a cancellation without a result."""
    times = cancellation.unanswered
    return UNANSWERED_PAUSES[min(times, len(UNANSWERED_PAUSES)) - 1] if times else STATUS_PAUSE


def _next_stamp_at(order: Order) -> datetime | None:
    """Returns when the next stamp is due; None if none is due or a call is open, which the recovery looks up."""
    invoices = order.invoices
    if invoices is not None and invoices.open_intent is not None:
        return None
    if _has_unannounced(order, invoices):
        return order.updated_at
    pending = () if invoices is None else invoices.stampable
    times = (
        each.retry_at
        for each in pending
        if each.retry_at is not None and (invoices is None or invoices.failure_of(each.slot) is None)
    )
    return min(times, default=None)


def _has_unannounced(order: Order, invoices: Invoices | None) -> bool:
    """Returns whether a document is due that is not announced, and of which no timer knows that it cannot be drawn up.

    The documents of a split order are drawn up in their order: none is while an earlier one cannot be.
    """
    if invoices is None or invoices.invoice is None:
        return is_invoice_due(order) and (invoices is None or invoices.failure_of(INVOICE_SLOT) is None)
    if not takes_documents(order, invoices):
        return False
    unannounced = [each for each in due_documents(order) if each.document is None and not each.on_request]
    if order.terms.allow_partials:
        unannounced = [each for each in unannounced[:1] if has_invoice(invoices, each)]
    return any(invoices.failure_of(each.slot) is None for each in unannounced)


def status_of_document(invoices: Invoices, document: Document) -> DocumentStatus:
    """Returns the status of a document; FAILED also if it is announced and cannot be drawn up again."""
    is_waiting = document.status is DocumentStatus.PENDING and document.intent is None
    blocked = is_waiting and invoices.failure_of(document.slot) is not None
    return DocumentStatus.FAILED if blocked else document.status


def _status_of(order: Order, due: list[DueDocument]) -> DocumentStatus:
    """Returns FAILED if one of the documents failed, PENDING if one is not stamped, else EMITTED."""
    statuses = {_status(order.invoices, each) for each in due}
    precedence = (DocumentStatus.FAILED, DocumentStatus.PENDING, DocumentStatus.EMITTED)
    return next(status for status in precedence if status in statuses)


def _status(invoices: Invoices | None, due: DueDocument) -> DocumentStatus:
    if invoices is not None and due.document is not None:
        return status_of_document(invoices, due.document)
    blocked = invoices is not None and invoices.failure_of(due.slot) is not None
    return DocumentStatus.FAILED if blocked else DocumentStatus.PENDING
