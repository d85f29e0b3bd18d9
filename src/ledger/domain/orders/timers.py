"""What falls due on an order by its merchant's clock, and the command that it turns into.

The rule a stranger would break: a due is a reminder, not a decision. Whoever is reminded too late, twice or by two workers
at once asks the decider, and what no longer applies gives no events.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Final
from uuid import UUID

from msgspec import Struct

from ledger.domain.orders.commands import CancelPayment, ExpirePayment, StartScheduledCapture
from ledger.domain.orders.decide.cancellation import decide_payment_cancellation
from ledger.domain.orders.decide.captures import decide_scheduled_capture
from ledger.domain.orders.decide.disputes_and_settlement import decide_expiry
from ledger.domain.orders.events import OrderEvent
from ledger.domain.orders.payment import Payment
from ledger.domain.orders.state import Order
from ledger.domain.orders.statuses import PaymentStatus

_GRANTED: Final = frozenset({PaymentStatus.AUTHORIZED, PaymentStatus.PARTIALLY_AUTHORIZED})


class TimerKind(StrEnum):
    """What there is to be done."""

    CAPTURE = "CAPTURE"
    EXPIRY = "EXPIRY"
    LAPSE = "LAPSE"
    VOID = "VOID"


class Timer(Struct, frozen=True):
    """Something to be done about a payment at `at`, by the merchant's clock."""

    kind: TimerKind
    payment_id: UUID
    at: datetime


def timers_of(order: Order) -> tuple[Timer, ...]:
    """What falls due on this order as it stands: at most two things for each payment."""
    return tuple(due for payment in order.payments for due in _dues(order, payment))


def timer_key(order: Order, due: Timer) -> str:
    """The idempotency key of the call that a due begins: the same for every worker that is reminded of it."""
    return f"{due.payment_id}:{due.kind.lower()}:{len(order.payment(due.payment_id).keys)}"


def decide_timer(order: Order, due: Timer, key: str, deadline_at: datetime, at: datetime) -> list[OrderEvent]:
    """Do what is due, at the merchant's present moment `at`; a processor's call ends at `deadline_at` (real time).

    `key` is `due_key` of the order when the due was read. No events where it no longer applies.
    """
    payment = order.payment(due.payment_id)
    match due.kind:
        case TimerKind.CAPTURE:
            capture = StartScheduledCapture(
                payment_id=due.payment_id, idempotency_key=key, deadline_at=deadline_at, at=at
            )
            return decide_scheduled_capture(order, capture)
        case TimerKind.VOID:
            if not _wants_void(order, payment):
                return []
            void = CancelPayment(payment_id=due.payment_id, idempotency_key=key, deadline_at=deadline_at, at=at)
            return decide_payment_cancellation(order, void)
        case TimerKind.EXPIRY | TimerKind.LAPSE:
            return decide_expiry(order, ExpirePayment(payment_id=due.payment_id, at=at))


def _dues(order: Order, payment: Payment) -> list[Timer]:
    payment_id, found = payment.payment_id, []
    if _wants_void(order, payment):
        found.append(Timer(TimerKind.VOID, payment_id, payment.updated_at))
    elif payment.status is PaymentStatus.PENDING_CAPTURE and payment.capture_due_at is not None:
        found.append(Timer(TimerKind.CAPTURE, payment_id, payment.capture_due_at))
    if payment.status is PaymentStatus.REQUIRES_ACTION and payment.action_expires_at is not None:
        found.append(Timer(TimerKind.EXPIRY, payment_id, payment.action_expires_at))
    if payment.status in _GRANTED and payment.lapses_at is not None:
        found.append(Timer(TimerKind.LAPSE, payment_id, payment.lapses_at))
    return found


def _wants_void(order: Order, payment: Payment) -> bool:
    """Whether an authorisation that came after its cancellation, or whose void came to nothing, is still to be voided."""
    asked = order.cancel_requested or payment.cancel_asked
    return asked and payment.is_uncaptured and not payment.void_refused and payment.intent is None
