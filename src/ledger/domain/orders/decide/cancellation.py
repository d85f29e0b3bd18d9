"""The deciders of cancellation: of one payment, of a whole order, and of a void's outcome; and of a payer's erasure.

If no processor has to release anything, close the order before its payments end: a payment that ends on an open
order would make the order FAILED in between.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from ledger.domain.money import ZERO
from ledger.domain.orders.commands import CancelOrder, CancelPayment, ErasePayer, RecordVoidOutcome, RefundOrder
from ledger.domain.orders.decide.closing import with_cancellation_closed
from ledger.domain.orders.decide.guards import require_payment, wrong_state
from ledger.domain.orders.decide.refunds import refund_all
from ledger.domain.orders.decide.sessions import session_end_requested
from ledger.domain.orders.decide.unanswered_calls import call_postponed, call_unanswered
from ledger.domain.orders.events import (
    AbandonedBecause,
    CallAbandoned,
    CancellationRequested,
    CancelledBecause,
    CaptureScheduled,
    OrderCancelled,
    OrderEvent,
    PayerForgotten,
    PaymentCancellationRequested,
    PaymentCancelled,
    ProcessorCall,
    SessionEnd,
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
_CANCELLING: Final = frozenset({PaymentStatus.PENDING_CANCELLATION, PaymentStatus.CANCELLED})


def decide_cancellation(order: Order, command: CancelOrder) -> list[OrderEvent]:
    """Cancels an order (contract N40). The same cancellation again, or another one while one is pending, is absorbed.

    Raises InvalidOrderState if there is nothing to cancel or a processor carries out a call that cannot be stopped,
    and OrderHasCapturedFunds if the order is paid, or holds money that the command does not allow to refund;
    OrderNotRefundable if an account gives nothing back.
    """
    latest = order.cancellation
    if order.cancel_requested or (latest is not None and latest.cancellation_id == command.cancellation_id):
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
        raise wrong_state(
            order, "A payment of the order is being carried out: cancel again after its outcome.", *_CANCELLABLE
        )
    return _cancel_order(order, command)


def decide_payment_cancellation(order: Order, command: CancelPayment) -> list[OrderEvent]:
    """Cancels one part of a split order (contract N40), or starts a void that is due. A pending one is absorbed.

    Raises PaymentNotFound, InvalidOrderState.
    """
    payment = require_payment(order, command.payment_id)
    if command.idempotency_key in payment.keys or payment.status in _CANCELLING:
        return []
    requested = order.cancel_requested or payment.cancellation_requested
    if not (requested or order.terms.allow_partials):
        raise wrong_state(order, "The order is paid in one part: cancel the order instead of its payment.")
    if payment.ends_by_call and payment.cancellation_requested and payment.intent is not None:
        return []
    if payment.status in _WAITING and not _is_being_carried_out(payment):
        if payment.ends_by_call:
            key, deadline_at = command.idempotency_key, command.deadline_at
            return [session_end_requested(payment, SessionEnd.PAYMENT_CANCELLED, key, deadline_at, command.at)]
        because = CancelledBecause.PAYMENT_CANCELLED
        return with_cancellation_closed(
            order, [PaymentCancelled(payment_id=payment.payment_id, because=because, at=command.at)]
        )
    if payment.status is PaymentStatus.PENDING_AUTHORIZATION:
        return [PaymentCancellationRequested(payment_id=payment.payment_id, at=command.at)]
    if payment.is_uncaptured:
        return [_void(payment, command.idempotency_key, command.deadline_at, command.at)]
    raise wrong_state(
        order,
        f"A payment that is {payment.status} cannot be cancelled: it must wait for its payer or be authorised.",
    )


def needs_release(payment: Payment) -> bool:
    """Returns whether a refused capture has ended the payment while its authorisation is not voided yet."""
    failed = payment.status is PaymentStatus.FAILED and payment.lapses_at is not None
    return failed and payment.intent is None and not payment.captured and not payment.void_refused


def decide_release(order: Order, command: CancelPayment) -> list[OrderEvent]:
    """Voids the authorisation of a payment that a refused capture has ended.

    Returns no events once that authorisation has lapsed.
    """
    payment = order.payment(command.payment_id)
    if not needs_release(payment) or payment.lapses_at is None or payment.lapses_at <= command.at:
        return []
    return [_void(payment, command.idempotency_key, command.deadline_at, command.at)]


def decide_void_outcome(order: Order, command: RecordVoidOutcome) -> list[OrderEvent]:
    """Records the outcome of a void. Returns no events if it is recorded already. Never refuses."""
    payment, at = order.payment(command.payment_id), command.at
    intent = payment.intent
    is_open_call = intent is not None and intent.idempotency_key == command.idempotency_key
    match command.outcome:
        case Voided():
            return _voided(order, payment, command, is_open_call=is_open_call)
        case Refusal(code=code, message=message) if is_open_call:
            refused = VoidRefused(payment_id=payment.payment_id, code=code, at=at, message=message)
            return with_cancellation_closed(order, [refused, *_reschedule_capture(order, payment, at)])
        case Unanswered() as outcome if is_open_call and intent is not None and not intent.unknown:
            return [call_unanswered(payment, ProcessorCall.VOID, outcome, at)]
        case NotSent(until=datetime() as until) if is_open_call:
            return call_postponed(payment, ProcessorCall.VOID, until, at)
        case NotSent() | NotFound() if is_open_call:
            sent = isinstance(command.outcome, NotFound)
            because = AbandonedBecause.NOT_FOUND if sent else AbandonedBecause.NOT_SENT
            return [CallAbandoned(payment_id=payment.payment_id, call=ProcessorCall.VOID, because=because, at=at)]
        case _:
            return []


def _is_being_carried_out(payment: Payment) -> bool:
    """Returns whether a call is open that cannot be stopped: a capture, a release, or the payer's authentication."""
    if payment.status is PaymentStatus.CAPTURING or payment.is_being_released:
        return True
    return payment.status is PaymentStatus.REQUIRES_ACTION and payment.intent is not None


def _cancel_order(order: Order, command: CancelOrder) -> list[OrderEvent]:
    at = command.at
    cancelled: list[OrderEvent] = [
        PaymentCancelled(payment_id=payment.payment_id, because=CancelledBecause.ORDER_CANCELLED, at=at)
        for payment in order.payments
        if payment.status in _WAITING and not payment.ends_by_call
    ]
    calls = [event for payment in order.payments for event in _release(payment, command)]
    calls += refund_all(order, _refund(command)) if order.net > 0 else []
    in_flight = any(payment.status is PaymentStatus.PENDING_CANCELLATION for payment in order.payments)
    requested = CancellationRequested(
        cancellation_id=command.cancellation_id, refund_captured=command.refund_captured, at=at, reason=command.reason
    )
    if not calls and not in_flight:
        if order.net > 0:
            raise OrderHasCapturedFunds(
                "The money on this order cannot be refunded now: cancel again after its dispute or refund has ended.",
                currentStatus=order.status,
                refundableAmount=order.refundable,
            )
        closed = OrderCancelled(cancellation_id=command.cancellation_id, reason=command.reason, at=at)
        # An order that is PROCESSING waits for its reference. ORDER_EDGES leads to CANCELLED only through the request.
        return [requested, closed, *cancelled] if order.status is OrderStatus.PROCESSING else [closed, *cancelled]
    # The order shows the status of its newest live part. End the waiting parts first, so that an authorised one shows.
    return [*cancelled, requested, *calls]


def _release(payment: Payment, command: CancelOrder) -> list[OrderEvent]:
    if payment.status is PaymentStatus.PENDING_AUTHORIZATION:
        return [PaymentCancellationRequested(payment_id=payment.payment_id, at=command.at)]
    key = f"{command.cancellation_id}:{payment.payment_id}"
    if payment.is_uncaptured:
        return [_void(payment, key, command.deadline_at, command.at)]
    if payment.ends_by_call:
        return [session_end_requested(payment, SessionEnd.ORDER_CANCELLED, key, command.deadline_at, command.at)]
    return []


def _refund(command: CancelOrder) -> RefundOrder:
    return RefundOrder(
        refund_id=command.refund_id,
        amount=ZERO,  # `refund_all` does not read it: every payment gives back all that it holds
        reason=command.reason or "cancelled",
        deadline_at=command.deadline_at,
        at=command.at,
        rules=command.rules,
    )


def _void(payment: Payment, key: str, deadline_at: datetime, at: datetime) -> VoidRequested:
    return VoidRequested(payment_id=payment.payment_id, idempotency_key=key, deadline_at=deadline_at, at=at)


def _voided(order: Order, payment: Payment, command: RecordVoidOutcome, *, is_open_call: bool) -> list[OrderEvent]:
    """Returns the events of a successful void, also of one whose call was given up before."""
    voided = PaymentCancelled(payment_id=payment.payment_id, because=CancelledBecause.VOIDED, at=command.at)
    if is_open_call and payment.status in {PaymentStatus.PENDING_CANCELLATION, PaymentStatus.FAILED}:
        return with_cancellation_closed(order, [voided])
    if needs_release(payment):
        return [_void(payment, command.idempotency_key, command.at, command.at), voided]
    if not payment.is_uncaptured or payment.intent is not None:
        return []
    void = _void(payment, command.idempotency_key, command.at, command.at)
    latest = order.cancellation
    if latest is None or latest.cancellation_id is None or not _fails_by_late_void(order):
        return with_cancellation_closed(order, [void, voided])
    resumed = CancellationRequested(
        cancellation_id=latest.cancellation_id,
        refund_captured=latest.refund_captured,
        at=command.at,
        reason=latest.reason,
    )
    return [resumed, *with_cancellation_closed(evolve(order, resumed), [void, voided])]


def _fails_by_late_void(order: Order) -> bool:
    """Returns whether a void that was given up, and succeeded after all, would make the order FAILED.

    Then the order's refused cancellation is resumed instead: the void has carried it out.
    """
    return not (order.terms.allow_partials or order.cancel_requested or order.closed or order.amount_paid)


def _reschedule_capture(order: Order, payment: Payment, at: datetime) -> list[OrderEvent]:
    """Returns the event that makes an automatic capture due again, if one was due before the void was requested."""
    due_at = payment.capture_due_at
    if due_at is None or order.terms.capture_method is not CaptureMethod.AUTOMATIC:
        return []
    amount = payment.capture_amount
    return [CaptureScheduled(payment_id=payment.payment_id, amount=amount, due_at=max(due_at, at), at=at)]


def decide_payer_erasure(order: Order, command: ErasePayer) -> list[OrderEvent]:
    """Erases the payer's personal data from the order; the amounts stay. Returns no events the second time."""
    return [] if order.payer_forgotten else [PayerForgotten(at=command.at)]
