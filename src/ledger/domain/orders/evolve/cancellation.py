"""The fold of the events about an order as a whole: its cancellation, the erasure of its payer, its reminders, its
invoices.

A reminder leaves `updated_at` as it is: it changes nothing that the merchant reads.
"""

from __future__ import annotations

from decimal import Decimal

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
from ledger.domain.orders.evolve.reminders import evolve_reminders
from ledger.domain.orders.invoices.events import DocumentAnnounced, InvoiceEvent
from ledger.domain.orders.invoices.evolve import evolve_invoices, without_receivers
from ledger.domain.orders.invoices.terms import CreditNoteTerms, RefundedParts
from ledger.domain.orders.payment import Payment
from ledger.domain.orders.state import Cancellation, Order
from ledger.domain.orders.surcharge import SurchargeSplit, freeze_refund
from ledger.personal_data import without

_CancellationEvent = CancellationRequested | CancellationRefused | OrderCancelled
WholeOrderEvent = _CancellationEvent | PayerForgotten | ReminderEvent | InvoiceEvent


def evolve_whole_order(order: Order, event: WholeOrderEvent) -> Order:
    """Returns the order after an event that is about no single payment."""
    if isinstance(event, ReminderEvent):
        return replace(order, reminders=evolve_reminders(order.reminders, event))
    match event:
        case PayerForgotten():
            return _evolve_payer_erasure(order, event)
        case CancellationRequested() | CancellationRefused() | OrderCancelled():
            return _evolve_cancellation(order, event)
        case DocumentAnnounced(terms=CreditNoteTerms(payment_id=payment_id), refunded=RefundedParts() as refunded):
            invoices = evolve_invoices(order.invoices, event)
            payments = tuple(
                _with_frozen_refund(payment, refunded, order.quantum) if payment.payment_id == payment_id else payment
                for payment in order.payments
            )
            return replace(order, invoices=invoices, payments=payments, updated_at=event.at)
        case _:
            return replace(order, invoices=evolve_invoices(order.invoices, event), updated_at=event.at)


def _with_frozen_refund(payment: Payment, refunded: RefundedParts, quantum: Decimal) -> Payment:
    """Returns the payment with the split of a refund frozen, because a document states it."""
    part, frozen = SurchargeSplit(refunded.subtotal, refunded.surcharge), payment.frozen_refunds
    frozen = freeze_refund(refunded.before, part, payment.captured, payment.requested_split, frozen, quantum)
    return replace(payment, frozen_refunds=frozen)


def _evolve_cancellation(order: Order, event: _CancellationEvent) -> Order:
    """Returns the order after a cancellation event. Keeps the latest cancellation, to recognise a repeated request."""
    match event:
        case CancellationRequested():
            requested = Cancellation(event.cancellation_id, event.reason, event.refund_captured)
            return replace(order, cancel_requested=True, cancellation=requested, updated_at=event.at)
        case CancellationRefused():
            return replace(order, cancel_requested=False, updated_at=event.at)
        case OrderCancelled():
            completed = _completed(order.cancellation, event)
            return replace(order, cancel_requested=False, closed=True, cancellation=completed, updated_at=event.at)


def _completed(requested: Cancellation | None, event: OrderCancelled) -> Cancellation:
    """Returns the cancellation that closed the order: the one that the event names, else the requested one."""
    if requested is None or event.cancellation_id not in {None, requested.cancellation_id}:
        return Cancellation(event.cancellation_id, event.reason)
    return requested


def _evolve_payer_erasure(order: Order, event: PayerForgotten) -> Order:
    """Returns the order without the personal data of its payer."""
    payments = tuple(
        replace(payment, started=without(payment.started, PERSONAL[PaymentStarted])) for payment in order.payments
    )
    terms = without(order.terms, PERSONAL[OrderCreated])
    invoices = None if order.invoices is None else without_receivers(order.invoices)
    return replace(order, terms=terms, payments=payments, invoices=invoices, payer_forgotten=True, updated_at=event.at)
