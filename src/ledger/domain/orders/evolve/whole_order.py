"""The fold of the events about an order as a whole: changes of its terms, its cancellation, the erasure of its payer,
its reminders, its invoices.

A reminder leaves `updated_at` as it is: it changes nothing that the merchant reads.
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any, Final, get_args
from uuid import UUID

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from ledger.domain.merge_patch import patched
from ledger.domain.orders.events import (
    PERSONAL,
    CancellationRefused,
    CancellationRequested,
    IncludedInGlobalInvoice,
    OrderAmountChanged,
    OrderCancelled,
    OrderCreated,
    OrderDescriptionChanged,
    OrderDueDateChanged,
    OrderInvoiceNumberChanged,
    OrderLineItemsChanged,
    OrderMetadataChanged,
    OrderReceiverChanged,
    PayerForgotten,
    PaymentStarted,
    ReleasedFromGlobalInvoice,
    ReminderEvent,
)
from ledger.domain.orders.evolve.payments import Folds
from ledger.domain.orders.evolve.reminders import evolve_reminders
from ledger.domain.orders.invoices.events import DocumentAnnounced, InvoiceEvent
from ledger.domain.orders.invoices.evolve import evolve_invoices, with_invoice_outdated, without_receivers
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
    if isinstance(event.terms, CreditNoteTerms):
        order = _with_frozen(order, event.terms.payment_id, event.refunded)
        order = _with_frozen(order, event.cause_payment_id, event.cause_refunded)
    return _invoiced(order, event)


def _with_frozen(order: Order, payment_id: UUID | None, refunded: RefundedParts | None) -> Order:
    if refunded is None:
        return order
    payments = tuple(
        _with_frozen_refund(payment, refunded, order.quantum) if payment.payment_id == payment_id else payment
        for payment in order.payments
    )
    return replace(order, payments=payments)


def _with_frozen_refund(payment: Payment, refunded: RefundedParts, quantum: Decimal) -> Payment:
    """Returns the payment with the split of a refund frozen, because a document states it."""
    part, frozen = SurchargeSplit(refunded.subtotal, refunded.surcharge), payment.frozen_refunds
    frozen = freeze_refund(refunded.before, part, payment.captured, payment.requested_split, frozen, quantum)
    return replace(payment, frozen_refunds=frozen)


def _amount_changed(order: Order, event: OrderAmountChanged) -> Order:
    return _stated_anew(order, event.at, amount=event.amount)


def _description_changed(order: Order, event: OrderDescriptionChanged) -> Order:
    return replace(order, terms=replace(order.terms, description=event.description), updated_at=event.at)


def _invoice_number_changed(order: Order, event: OrderInvoiceNumberChanged) -> Order:
    return _stated_anew(order, event.at, invoice_number=event.invoice_number)


def _metadata_changed(order: Order, event: OrderMetadataChanged) -> Order:
    """Returns the order with its metadata patched; unchanged after an erasure, which leaves no patch."""
    after = order.terms.metadata
    if event.removed:
        after = UNSET
    elif not isinstance(event.patch, UnsetType):
        after = patched(after, event.patch)
    return replace(order, terms=replace(order.terms, metadata=after), updated_at=event.at)


def _due_date_changed(order: Order, event: OrderDueDateChanged) -> Order:
    """Returns the order with another due date, whose reminders are scheduled by an event of their own."""
    terms = replace(order.terms, due_date=event.due_date)
    reminders = None if event.due_date is None else order.reminders
    return replace(order, terms=terms, reminders=reminders, updated_at=event.at)


def _line_items_changed(order: Order, event: OrderLineItemsChanged) -> Order:
    return _stated_anew(order, event.at, line_items=event.line_items)


def _receiver_changed(order: Order, event: OrderReceiverChanged) -> Order:
    return _stated_anew(order, event.at, fiscal=event.fiscal)


def _stated_anew(order: Order, at: datetime, **terms: Any) -> Order:
    """Returns the order with terms that its invoice states: one that is not stamped has to be drawn up again."""
    invoices = order.invoices
    if invoices is not None:
        invoices = with_invoice_outdated(invoices, at, drops_receiver="fiscal" in terms)
    return replace(order, terms=replace(order.terms, **terms), invoices=invoices, updated_at=at)


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


def _included(order: Order, event: IncludedInGlobalInvoice) -> Order:
    return replace(order, global_invoice_id=event.global_invoice_id)


def _released(order: Order, event: ReleasedFromGlobalInvoice) -> Order:
    is_own = order.global_invoice_id == event.global_invoice_id
    if not is_own:
        return order
    cancelled = event.cancelled_uuid or order.cancelled_global_uuid
    return replace(order, global_invoice_id=None, cancelled_global_uuid=cancelled)


EVOLVE: Final[Folds] = {
    OrderAmountChanged: _amount_changed,
    OrderDescriptionChanged: _description_changed,
    OrderInvoiceNumberChanged: _invoice_number_changed,
    OrderMetadataChanged: _metadata_changed,
    OrderDueDateChanged: _due_date_changed,
    OrderLineItemsChanged: _line_items_changed,
    OrderReceiverChanged: _receiver_changed,
    IncludedInGlobalInvoice: _included,
    ReleasedFromGlobalInvoice: _released,
    CancellationRequested: _cancellation_requested,
    CancellationRefused: _cancellation_refused,
    OrderCancelled: _cancelled,
    PayerForgotten: _payer_forgotten,
    **dict.fromkeys(get_args(ReminderEvent), _reminded),
    **dict.fromkeys(get_args(InvoiceEvent), _invoiced),
    **dict.fromkeys(get_args(MailEvent), _mailed),
    DocumentAnnounced: _document_announced,
}
