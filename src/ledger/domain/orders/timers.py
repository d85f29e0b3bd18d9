"""The timers of an order: what falls due by its merchant's clock, and the decision that each timer leads to.

Treat a timer as a reminder: it can fire late, twice, or in two workers at once. Ask the decider each time; it returns
no events where the timer no longer applies.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Final
from uuid import UUID

from msgspec import Struct

from ledger.domain.orders.commands import CancelPayment, ExpirePayment, StartScheduledCapture
from ledger.domain.orders.decide.cancellation import decide_payment_cancellation, decide_release, needs_release
from ledger.domain.orders.decide.captures import decide_scheduled_capture
from ledger.domain.orders.decide.disputes_and_settlement import decide_expiry
from ledger.domain.orders.events import OrderEvent
from ledger.domain.orders.payment import Payment
from ledger.domain.orders.state import Order
from ledger.domain.orders.statuses import PaymentStatus

_AUTHORIZED: Final = frozenset({PaymentStatus.AUTHORIZED, PaymentStatus.PARTIALLY_AUTHORIZED})


class TimerKind(StrEnum):
    """What is due: a capture, the end of a session or reference, the end of an authorisation, a void."""

    CAPTURE = "CAPTURE"
    EXPIRY = "EXPIRY"
    LAPSE = "LAPSE"
    VOID = "VOID"


class Timer(Struct, frozen=True):
    """Work on a payment that is due at `at`, by the merchant's clock."""

    kind: TimerKind
    payment_id: UUID
    at: datetime


def timers_of(order: Order) -> tuple[Timer, ...]:
    """Returns what falls due on this order in its current state: at most two timers for each payment."""
    return tuple(timer for payment in order.payments for timer in _timers_of_payment(order, payment))


def timer_key(order: Order, timer: Timer) -> str:
    """Returns the idempotency key of the call that the timer starts: the same for every worker that handles it."""
    return f"{timer.payment_id}:{timer.kind.lower()}:{len(order.payment(timer.payment_id).keys)}"


def decide_timer(order: Order, timer: Timer, key: str, deadline_at: datetime, at: datetime) -> list[OrderEvent]:
    """Decides what a due timer leads to. Returns no events where it no longer applies.

    `at` is the present time by the merchant's clock; `deadline_at` ends the processor's call, in real time. `key` is
    the `timer_key` of the order when the timer was read.
    """
    payment = order.payment(timer.payment_id)
    match timer.kind:
        case TimerKind.CAPTURE:
            capture = StartScheduledCapture(
                payment_id=timer.payment_id, idempotency_key=key, deadline_at=deadline_at, at=at
            )
            return decide_scheduled_capture(order, capture)
        case TimerKind.VOID:
            if not _needs_void(order, payment):
                return []
            void = CancelPayment(payment_id=timer.payment_id, idempotency_key=key, deadline_at=deadline_at, at=at)
            return decide_release(order, void) if needs_release(payment) else decide_payment_cancellation(order, void)
        case TimerKind.EXPIRY | TimerKind.LAPSE:
            return decide_expiry(order, ExpirePayment(payment_id=timer.payment_id, at=at))


def _timers_of_payment(order: Order, payment: Payment) -> list[Timer]:
    payment_id, timers = payment.payment_id, []
    if _needs_void(order, payment):
        timers.append(Timer(TimerKind.VOID, payment_id, payment.updated_at))
    elif payment.status is PaymentStatus.PENDING_CAPTURE and payment.capture_due_at is not None:
        timers.append(Timer(TimerKind.CAPTURE, payment_id, payment.capture_due_at))
    if payment.status is PaymentStatus.REQUIRES_ACTION and payment.action_expires_at is not None:
        timers.append(Timer(TimerKind.EXPIRY, payment_id, payment.action_expires_at))
    if payment.status in _AUTHORIZED and payment.lapses_at is not None:
        timers.append(Timer(TimerKind.LAPSE, payment_id, payment.lapses_at))
    return timers


def _needs_void(order: Order, payment: Payment) -> bool:
    """Returns whether an authorisation is still to be voided: it was cancelled, or its capture was finally refused.

    No void of it is open or was refused.
    """
    requested = order.cancel_requested or payment.cancellation_requested
    cancelled = requested and payment.is_uncaptured and not payment.void_refused and payment.intent is None
    return cancelled or needs_release(payment)
