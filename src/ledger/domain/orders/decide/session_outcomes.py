"""The decider of what the call that ends a session has come to.

If the payer was quicker, the money counts: a capture stays, and an authorisation that is no longer wanted is voided.
"""

from __future__ import annotations

from datetime import datetime

from ledger.domain.orders.commands import RecordSessionEnd, RecordVoidOutcome
from ledger.domain.orders.decide.authentication import (
    AMOUNT_EXCEEDS_PENDING,
    PAID_OTHERWISE,
    authenticated,
    authentication_declined,
    capture_after_authentication,
)
from ledger.domain.orders.decide.authorizations import late_capture
from ledger.domain.orders.decide.cancellation import decide_void_outcome
from ledger.domain.orders.decide.closing import with_cancellation_closed
from ledger.domain.orders.decide.unanswered_calls import call_postponed, call_unanswered
from ledger.domain.orders.events import (
    AbandonedBecause,
    CallAbandoned,
    CancelledBecause,
    ExpiredBecause,
    OrderEvent,
    PaymentCancelled,
    PaymentDeclined,
    PaymentExpired,
    ProcessorCall,
    SessionEnd,
)
from ledger.domain.orders.payment import Payment
from ledger.domain.orders.processor_outcomes import Approved, Declined, NotFound, NotSent, Unanswered, Voided
from ledger.domain.orders.state import Order


def decide_session_end_outcome(order: Order, command: RecordSessionEnd) -> list[OrderEvent]:
    """Records the outcome of a session's end. Returns no events if it is recorded already. Never refuses."""
    payment, at = order.payment(command.payment_id), command.at
    intent = payment.intent
    if intent is None or intent.idempotency_key != command.idempotency_key or intent.ends is None:
        return _recorded_before(order, payment, command)
    match command.outcome:
        case Voided():
            return with_cancellation_closed(order, [_ended(payment, intent.ends, at)])
        case Approved() as approval:
            return with_cancellation_closed(order, _approved(order, payment, intent.ends, approval, command))
        case Declined() as refusal:
            return with_cancellation_closed(order, [authentication_declined(payment, refusal, at)])
        case Unanswered() as outcome:
            return [] if intent.unknown else [call_unanswered(payment, ProcessorCall.VOID, outcome, at)]
        case NotSent(until=datetime() as until):
            return call_postponed(payment, ProcessorCall.VOID, until, at)
        case NotSent() | NotFound():
            return [_abandoned(payment, command)]


def _recorded_before(order: Order, payment: Payment, command: RecordSessionEnd) -> list[OrderEvent]:
    """Returns what a second outcome adds: money, or the end of an authorisation that was recorded meanwhile."""
    match command.outcome:
        case Approved() as approval:
            return with_cancellation_closed(order, late_capture(payment, approval, command))
        case Voided() as voided:
            late = RecordVoidOutcome(
                payment_id=payment.payment_id, idempotency_key=command.idempotency_key, outcome=voided, at=command.at
            )
            return decide_void_outcome(order, late)
        case _:
            return []


def _ended(payment: Payment, because: SessionEnd, at: datetime) -> OrderEvent:
    """Returns the event by which a payment ends whose payer can no longer pay."""
    match because:
        case SessionEnd.EXPIRED:
            return PaymentExpired(payment_id=payment.payment_id, because=ExpiredBecause.SESSION, at=at)
        case SessionEnd.ORDER_CANCELLED:
            return PaymentCancelled(payment_id=payment.payment_id, because=CancelledBecause.ORDER_CANCELLED, at=at)
        case SessionEnd.PAYMENT_CANCELLED:
            return PaymentCancelled(payment_id=payment.payment_id, because=CancelledBecause.PAYMENT_CANCELLED, at=at)
        case SessionEnd.REPLACED:
            return PaymentDeclined(
                payment_id=payment.payment_id, code=AMOUNT_EXCEEDS_PENDING, at=at, message=PAID_OTHERWISE
            )


def _approved(
    order: Order, payment: Payment, because: SessionEnd, approval: Approved, command: RecordSessionEnd
) -> list[OrderEvent]:
    """Returns the events of a payer who was quicker. Nothing is captured of what is to be voided."""
    granted = authenticated(payment, approval, command)
    if because is not SessionEnd.EXPIRED:
        return granted
    return [*granted, *capture_after_authentication(order, payment, approval, command.at)]


def _abandoned(payment: Payment, command: RecordSessionEnd) -> CallAbandoned:
    sent = isinstance(command.outcome, NotFound)
    because = AbandonedBecause.NOT_FOUND if sent else AbandonedBecause.NOT_SENT
    return CallAbandoned(payment_id=payment.payment_id, call=ProcessorCall.VOID, because=because, at=command.at)
