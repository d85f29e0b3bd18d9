"""Letting go: of one payment, of a whole order, and what the processor says to it.

The rule a stranger would break: whoever cancels an order closes it first where no processor has to let go of anything,
because a payment that ends on an order that is not closed would make it FAILED on the way.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from ledger.domain.money import ZERO
from ledger.domain.orders.commands import CancelOrder, CancelPayment, RecordVoidOutcome, RefundOrder
from ledger.domain.orders.decide.closing import with_cancellation_closed
from ledger.domain.orders.decide.guards import require_payment, wrong_state
from ledger.domain.orders.decide.refunds import refund_all
from ledger.domain.orders.events import (
    AbandonedBecause,
    CallAbandoned,
    CallUnanswered,
    CancellationRequested,
    CancelledBecause,
    CaptureScheduled,
    OrderCancelled,
    OrderEvent,
    PaymentCancellationRequested,
    PaymentCancelled,
    ProcessorCall,
    VoidRefused,
    VoidRequested,
)
from ledger.domain.orders.evolve.order import evolve
from ledger.domain.orders.payment import Payment
from ledger.domain.orders.processor_outcomes import NotFound, NotSent, Unanswered, Voided
from ledger.domain.orders.processor_outcomes import VoidRefused as Refusal
from ledger.domain.orders.state import Order
from ledger.domain.orders.statuses import OrderStatus, PaymentStatus
from ledger.domain.orders.terms import CaptureMethod
from ledger.domain.rejections import OrderHasCapturedFunds

_FINAL: Final = frozenset({OrderStatus.CANCELLED, OrderStatus.REFUNDED, OrderStatus.FAILED})
_PAID: Final = frozenset({OrderStatus.COMPLETED, OrderStatus.PARTIALLY_REFUNDED})
_CANCELLABLE: Final = tuple(
    status for status in OrderStatus if status not in _FINAL | _PAID and status is not OrderStatus.REFUND_PROCESSING
)
_WAITING: Final = frozenset({PaymentStatus.CREATED, PaymentStatus.REQUIRES_ACTION})
_ENDED: Final = frozenset({PaymentStatus.PENDING_CANCELLATION, PaymentStatus.CANCELLED})


def decide_cancellation(order: Order, command: CancelOrder) -> list[OrderEvent]:
    """Cancel an order (contract N40). The same cancellation again, or another while one runs, is absorbed.

    Raises InvalidOrderState where there is nothing to cancel or a processor is at work that cannot be stopped, and
    OrderHasCapturedFunds where money is held and may not be given back, or the order is paid.
    """
    known = order.cancellation
    if order.cancel_requested or (known is not None and known.cancellation_id == command.cancellation_id):
        return []
    if order.status in _FINAL or order.status is OrderStatus.REFUND_PROCESSING:
        raise wrong_state(order, f"An order that is {order.status} cannot be cancelled.", *_CANCELLABLE)
    if order.status in _PAID or (order.net > 0 and not command.refund_captured):
        raise OrderHasCapturedFunds(
            "Money is held on this order: refund it instead.",
            currentStatus=order.status,
            refundableAmount=order.refundable,
        )
    if any(_is_being_carried_out(payment) for payment in order.payments):
        raise wrong_state(order, "A payment of the order is being carried out.", *_CANCELLABLE)
    return _cancelled(order, command)


def decide_payment_cancellation(order: Order, command: CancelPayment) -> list[OrderEvent]:
    """Cancel one part of a split order, or carry out a void that is due. What is being cancelled is absorbed.

    Raises PaymentNotFound, InvalidOrderState.
    """
    payment = require_payment(order, command.payment_id)
    if command.idempotency_key in payment.keys or payment.status in _ENDED:
        return []
    asked_for = order.cancel_requested or payment.cancel_asked
    if not (asked_for or order.terms.allow_partials):
        raise wrong_state(order, "The only payment of an order is cancelled with the order.")
    if payment.status in _WAITING and not _is_being_carried_out(payment):
        because = CancelledBecause.PAYMENT_CANCELLED
        return with_cancellation_closed(
            order, [PaymentCancelled(payment_id=payment.payment_id, because=because, at=command.at)]
        )
    if payment.status is PaymentStatus.PENDING_AUTHORIZATION:
        return [PaymentCancellationRequested(payment_id=payment.payment_id, at=command.at)]
    if payment.is_uncaptured:
        return [_void(payment, command.idempotency_key, command.deadline_at, command.at)]
    raise wrong_state(order, f"A payment that is {payment.status} cannot be cancelled.")


def decide_void_outcome(order: Order, command: RecordVoidOutcome) -> list[OrderEvent]:
    """Record what became of a void; no events where that is known already."""
    payment, at = order.payment(command.payment_id), command.at
    intent = payment.intent
    asking = intent is not None and intent.idempotency_key == command.idempotency_key
    match command.outcome:
        case Voided():
            return _voided(order, payment, command, asking=asking)
        case Refusal(code=code, message=message) if asking:
            refused = VoidRefused(payment_id=payment.payment_id, code=code, at=at, message=message)
            return with_cancellation_closed(order, [refused, *_captured_after_all(order, payment, at)])
        case Unanswered(reason=reason) if asking and intent is not None and not intent.unknown:
            return [CallUnanswered(payment_id=payment.payment_id, call=ProcessorCall.VOID, reason=reason, at=at)]
        case NotSent() | NotFound() if asking:
            sent = isinstance(command.outcome, NotFound)
            because = AbandonedBecause.NOT_FOUND if sent else AbandonedBecause.NOT_SENT
            return [CallAbandoned(payment_id=payment.payment_id, call=ProcessorCall.VOID, because=because, at=at)]
        case _:
            return []


def _is_being_carried_out(payment: Payment) -> bool:
    """Whether a processor is at work that cannot be stopped any more: capturing, or authenticating the payer."""
    if payment.status is PaymentStatus.CAPTURING:
        return True
    return payment.status is PaymentStatus.REQUIRES_ACTION and payment.intent is not None


def _cancelled(order: Order, command: CancelOrder) -> list[OrderEvent]:
    at = command.at
    waiting: list[OrderEvent] = [
        PaymentCancelled(payment_id=payment.payment_id, because=CancelledBecause.ORDER_CANCELLED, at=at)
        for payment in order.payments
        if payment.status in _WAITING
    ]
    asked = [event for payment in order.payments for event in _let_go(payment, command)]
    asked += refund_all(order, _refund(command)) if order.net > 0 else []
    in_flight = any(payment.status is PaymentStatus.PENDING_CANCELLATION for payment in order.payments)
    requested = CancellationRequested(
        cancellation_id=command.cancellation_id, refund_captured=command.refund_captured, at=at, reason=command.reason
    )
    if not asked and not in_flight:
        if order.net > 0:
            raise OrderHasCapturedFunds(
                "The money on this order cannot be given back now.",
                currentStatus=order.status,
                refundableAmount=order.refundable,
            )
        closed = OrderCancelled(cancellation_id=command.cancellation_id, reason=command.reason, at=at)
        # An order that is PROCESSING waits for its reference; the table leads from there through the request alone.
        return [requested, closed, *waiting] if order.status is OrderStatus.PROCESSING else [closed, *waiting]
    # The newest waiting part shows in the order's status; once it has ended, the authorised ones do.
    return [*waiting, requested, *asked]


def _let_go(payment: Payment, command: CancelOrder) -> list[OrderEvent]:
    if payment.status is PaymentStatus.PENDING_AUTHORIZATION:
        return [PaymentCancellationRequested(payment_id=payment.payment_id, at=command.at)]
    if payment.is_uncaptured:
        key = f"{command.cancellation_id}:{payment.payment_id}"
        return [_void(payment, key, command.deadline_at, command.at)]
    return []


def _refund(command: CancelOrder) -> RefundOrder:
    return RefundOrder(
        refund_id=command.refund_id,
        amount=ZERO,  # not read: every payment gives back all that it has
        reason=command.reason or "cancelled",
        deadline_at=command.deadline_at,
        at=command.at,
    )


def _void(payment: Payment, key: str, deadline_at: datetime, at: datetime) -> VoidRequested:
    return VoidRequested(payment_id=payment.payment_id, idempotency_key=key, deadline_at=deadline_at, at=at)


def _voided(order: Order, payment: Payment, command: RecordVoidOutcome, *, asking: bool) -> list[OrderEvent]:
    voided = PaymentCancelled(payment_id=payment.payment_id, because=CancelledBecause.VOIDED, at=command.at)
    if asking and payment.status is PaymentStatus.PENDING_CANCELLATION:
        return with_cancellation_closed(order, [voided])
    if not payment.is_uncaptured or payment.intent is not None:
        return []
    void = _void(payment, command.idempotency_key, command.at, command.at)
    known = order.cancellation
    if known is None or known.cancellation_id is None or not _fails_without(order):
        return with_cancellation_closed(order, [void, voided])
    resumed = CancellationRequested(
        cancellation_id=known.cancellation_id, refund_captured=known.refund_captured, at=command.at, reason=known.reason
    )
    return [resumed, *with_cancellation_closed(evolve(order, resumed), [void, voided])]


def _fails_without(order: Order) -> bool:
    """Whether the order would be FAILED by a void that was given up: it is the cancellation that has come about after all."""
    return not (order.terms.allow_partials or order.cancel_requested or order.closed or order.amount_paid)


def _captured_after_all(order: Order, payment: Payment, at: datetime) -> list[OrderEvent]:
    """A capture that was due before the void was asked for is due again."""
    due = payment.capture_due_at
    if due is None or order.terms.capture_method is not CaptureMethod.AUTOMATIC:
        return []
    amount = payment.capture_amount
    return [CaptureScheduled(payment_id=payment.payment_id, amount=amount, due_at=max(due, at), at=at)]
