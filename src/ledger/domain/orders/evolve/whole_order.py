"""The fold of the events about an order as a whole: its cancellation, the erasure of its payer, its reminders, its
invoices.

A reminder leaves `updated_at` as it is: it changes nothing that the merchant reads.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Final, get_args

from msgspec.structs import replace

from ledger.domain.orders.events import (
    PERSONAL,
    CancellationRefused,
    CancellationRequested,
    OrderCancelled,
    OrderCreated,
    PayerForgotten,
    PaymentStarted,
    ReminderEvent,
)
from ledger.domain.orders.evolve.payments import Folds
from ledger.domain.orders.evolve.reminders import evolve_reminders
from ledger.domain.orders.invoices.events import DocumentAnnounced, InvoiceEvent
from ledger.domain.orders.invoices.evolve import evolve_invoices, without_receivers
from ledger.domain.orders.invoices.mail_events import MailEvent
from ledger.domain.orders.invoices.terms import CreditNoteTerms, RefundedParts
from ledger.domain.orders.payment import Payment
from ledger.domain.orders.state import Cancellation, Order
from ledger.domain.orders.surcharge import SurchargeSplit, freeze_refund
from ledger.personal_data import without


def _reminded(order: Order, event: ReminderEvent) -> Order:
    return replace(order, reminders=evolve_reminders(order.reminders, event))


def _invoiced(order: Order, event: InvoiceEvent) -> Order:
    return replace(order, invoices=evolve_invoices(order.invoices, event), updated_at=event.at)


def _mailed(order: Order, event: MailEvent) -> Order:
    """Returns the order with the same time of its last change: a message to a person changes nothing of it."""
    return replace(order, invoices=evolve_invoices(order.invoices, event))


def _document_announced(order: Order, event: DocumentAnnounced) -> Order:
    terms, refunded = event.terms, event.refunded
    if isinstance(terms, CreditNoteTerms) and refunded is not None:
        payments = tuple(
            _with_frozen_refund(payment, refunded, order.quantum) if payment.payment_id == terms.payment_id else payment
            for payment in order.payments
        )
        order = replace(order, payments=payments)
    return _invoiced(order, event)


def _with_frozen_refund(payment: Payment, refunded: RefundedParts, quantum: Decimal) -> Payment:
    """Returns the payment with the split of a refund frozen, because a document states it."""
    part, frozen = SurchargeSplit(refunded.subtotal, refunded.surcharge), payment.frozen_refunds
    frozen = freeze_refund(refunded.before, part, payment.captured, payment.requested_split, frozen, quantum)
    return replace(payment, frozen_refunds=frozen)


def _cancellation_requested(order: Order, event: CancellationRequested) -> Order:
    """Returns the order with its latest cancellation, by which a repeated request is recognised."""
    requested = Cancellation(event.cancellation_id, event.reason, event.refund_captured)
    return replace(order, cancel_requested=True, cancellation=requested, updated_at=event.at)


def _cancellation_refused(order: Order, event: CancellationRefused) -> Order:
    return replace(order, cancel_requested=False, updated_at=event.at)


def _cancelled(order: Order, event: OrderCancelled) -> Order:
    completed = _completed(order.cancellation, event)
    return replace(order, cancel_requested=False, closed=True, cancellation=completed, updated_at=event.at)


def _completed(requested: Cancellation | None, event: OrderCancelled) -> Cancellation:
    """Returns the cancellation that closed the order: the one that the event names, else the requested one."""
    if requested is None or event.cancellation_id not in {None, requested.cancellation_id}:
        return Cancellation(event.cancellation_id, event.reason)
    return requested


def _payer_forgotten(order: Order, event: PayerForgotten) -> Order:
    """Returns the order without the personal data of its payer."""
    payments = tuple(
        replace(
            payment,
            started=without(payment.started, PERSONAL[PaymentStarted]),
            senders=tuple(None for _ in payment.senders),
        )
        for payment in order.payments
    )
    refunds = tuple(
        replace(refund, parts=tuple(replace(part, destination=None) for part in refund.parts))
        for refund in order.refunds
    )
    terms = without(order.terms, PERSONAL[OrderCreated])
    invoices = None if order.invoices is None else without_receivers(order.invoices)
    return replace(
        order,
        terms=terms,
        payments=payments,
        refunds=refunds,
        invoices=invoices,
        payer_forgotten=True,
        updated_at=event.at,
    )


EVOLVE: Final[Folds] = {
    CancellationRequested: _cancellation_requested,
    CancellationRefused: _cancellation_refused,
    OrderCancelled: _cancelled,
    PayerForgotten: _payer_forgotten,
    **dict.fromkeys(get_args(ReminderEvent), _reminded),
    **dict.fromkeys(get_args(InvoiceEvent), _invoiced),
    **dict.fromkeys(get_args(MailEvent), _mailed),
    DocumentAnnounced: _document_announced,
}
