"""The decider of a session's end, where the payer's own action authorises the payment at the processor.

Such a session is ended at the processor before its payment ends here: otherwise a payer who comes back later would pay
there and fail here. Until that call has an outcome, the payment waits for its payer.
"""

from __future__ import annotations

from datetime import datetime

from ledger.domain.orders.commands import EndSession
from ledger.domain.orders.events import OrderEvent, SessionEnd, SessionEndRequested
from ledger.domain.orders.payment import Payment
from ledger.domain.orders.state import Order


def decide_session_end(order: Order, command: EndSession) -> list[OrderEvent]:
    """Ends a session at its processor if there is a reason to. Returns no events while a call about it is open."""
    payment = order.payment(command.payment_id)
    because = _why(order, payment, command.at) if payment.ends_by_call and payment.intent is None else None
    if because is None:
        return []
    return [session_end_requested(payment, because, command.idempotency_key, command.deadline_at, command.at)]


def is_to_be_ended(order: Order, payment: Payment) -> bool:
    """Returns whether a session is to be ended at its processor now, before its time is over."""
    is_unwanted = payment.ends_by_call and payment.intent is None
    return is_unwanted and _why_before_its_time(order, payment) is not None


def session_end_requested(
    payment: Payment, because: SessionEnd, key: str, deadline_at: datetime, at: datetime
) -> SessionEndRequested:
    """Returns the intent of the call that ends a payment's session at its processor."""
    return SessionEndRequested(
        payment_id=payment.payment_id, because=because, idempotency_key=key, deadline_at=deadline_at, at=at
    )


def _why(order: Order, payment: Payment, at: datetime) -> SessionEnd | None:
    earlier = _why_before_its_time(order, payment)
    if earlier is not None:
        return earlier
    is_over = payment.action_expires_at is not None and payment.action_expires_at <= at
    return SessionEnd.EXPIRED if is_over else None


def _why_before_its_time(order: Order, payment: Payment) -> SessionEnd | None:
    """Returns why the payer may not pay any more: the order or the payment is cancelled, or other money covers it."""
    if order.cancel_requested:
        return SessionEnd.ORDER_CANCELLED
    if payment.started.subtotal > order.unpaid_subtotal:
        return SessionEnd.REPLACED
    return SessionEnd.PAYMENT_CANCELLED if payment.cancellation_requested else None
