"""The timers of an order: what falls due by its merchant's clock, and the decision that each timer leads to.

Treat a timer as a reminder: it can fire late, twice, or in two workers at once. Ask the decider each time; it returns
no events if the timer no longer applies.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final
from uuid import UUID, uuid5

from msgspec import Struct

from ledger.domain.customers.terms import Accepted, NotAccepted, after_failure, why_not_begun
from ledger.domain.orders.commands import (
    CancelPayment,
    EndSession,
    ExpirePayment,
    RecordReminder,
    RemindPayer,
    StartScheduledCapture,
)
from ledger.domain.orders.decide.cancellation import decide_payment_cancellation, decide_release, needs_release
from ledger.domain.orders.decide.captures import decide_scheduled_capture
from ledger.domain.orders.decide.disputes_and_settlement import decide_expiry
from ledger.domain.orders.decide.sessions import decide_session_end, is_to_be_ended
from ledger.domain.orders.events import (
    OrderEvent,
    ReminderDropped,
    ReminderDroppedBecause,
    ReminderDue,
    ReminderKind,
    ReminderPostponed,
    ReminderRequested,
    ReminderSent,
)
from ledger.domain.orders.evolve.reminders import Reminder, ReminderTime, opened
from ledger.domain.orders.payment import Payment
from ledger.domain.orders.state import Order
from ledger.domain.orders.statuses import OrderStatus, PaymentStatus

REMINDER: Final = "REMINDER"
"""The kind of the timer of an order's next reminder. It is about the order, and about none of its payments."""

_AWAITS_PAYER: Final = frozenset(
    {
        OrderStatus.PENDING,
        OrderStatus.FAILED,
        OrderStatus.PARTIALLY_PAID,
        OrderStatus.REFERENCE_GENERATED,
        OrderStatus.ACTION_REQUIRED,
        OrderStatus.PAYER_AUTHENTICATION_DEVICE_DATA_REQUIRED,
        OrderStatus.PAYER_AUTHENTICATION_CHALLENGE_REQUIRED,
    }
)

_AUTHORIZED: Final = frozenset({PaymentStatus.AUTHORIZED, PaymentStatus.PARTIALLY_AUTHORIZED})


class TimerKind(StrEnum):
    """What is due: a capture, the end of a session or reference, the end of an authorisation, a void.

    A session that is no longer wanted ends by the timer of a void.
    """

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
    """Decides what a due timer leads to. Returns no events if it no longer applies.

    `at` is the present time by the merchant's clock; `deadline_at` ends the processor's call, in real time. `key` is
    the `timer_key` of the order when the timer was read.
    """
    payment = order.payment(timer.payment_id)
    if payment.ends_by_call:
        end = EndSession(payment_id=timer.payment_id, idempotency_key=key, deadline_at=deadline_at, at=at)
        return decide_session_end(order, end)
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


def awaits_payer(order: Order) -> bool:
    """Returns whether the order is owed money that no card authorisation covers, so that the payer has to act.

    What the merchant has released after a partial capture is not owed.
    """
    return order.status in _AWAITS_PAYER and order.amount_pending > order.reserved + order.pending_released


def reminder_at(order: Order) -> datetime | None:
    """Returns when the next reminder, or the next attempt to send one, is due by the merchant's clock, or None.

    While an attempt is running, its job is repeated until there is an outcome, and no timer is needed.
    """
    if order.reminders is None:
        return None
    reminder = order.reminders.pending
    if reminder is not None:
        return reminder.send_at if reminder.deadline_at is None else None
    ahead = order.reminders.ahead()
    return ahead[0].at if ahead and awaits_payer(order) else None


def decide_reminder(order: Order, command: RemindPayer) -> list[OrderEvent]:
    """Records the reminder whose time has come, and the attempt to send it or why it is not sent.

    Of several times that have passed, the latest counts. Returns no events if no time has come, or while another
    worker's attempt is running.
    """
    if order.reminders is None:
        return []
    events: list[OrderEvent] = []
    reminder = order.reminders.pending
    if reminder is None:
        passed = [each for each in order.reminders.ahead() if each.at <= command.at]
        if not passed or not awaits_payer(order):
            return []
        due = _reminder_due(order, passed[-1], command.at)
        events.append(due)
        reminder = opened(due)
    is_interrupted = reminder.deadline_at is not None
    if reminder.deadline_at is not None and command.real_at < reminder.deadline_at:
        return []
    because = _why_not_sent(order, reminder, command)
    if because is not None:
        return [*events, ReminderDropped(reminder_id=reminder.reminder_id, because=because, at=command.at)]
    if not is_interrupted and reminder.send_at is not None and reminder.send_at > command.at:
        return events
    requested = ReminderRequested(
        reminder_id=reminder.reminder_id,
        notifier=command.notifier,
        deadline_at=command.deadline_at,
        at=command.at,
    )
    return [*events, requested]


def decide_reminder_outcome(order: Order, command: RecordReminder) -> list[OrderEvent]:
    """Records how the running attempt to send a reminder ended. Returns no events if none is running."""
    reminder = None if order.reminders is None else order.reminders.pending
    if reminder is None or reminder.reminder_id != command.reminder_id or reminder.deadline_at is None:
        return []
    reminder_id, at, outcome = command.reminder_id, command.at, command.outcome
    if isinstance(outcome, Accepted):
        return [ReminderSent(reminder_id=reminder_id, at=at)]
    pause = after_failure(reminder, outcome)
    if not isinstance(pause, timedelta):
        because = ReminderDroppedBecause(pause)
        return [ReminderDropped(reminder_id=reminder_id, because=because, code=outcome.code, at=at)]
    unknown = isinstance(outcome, NotAccepted) and outcome.unknown
    return [ReminderPostponed(reminder_id=reminder_id, code=outcome.code, retry_at=at + pause, at=at, unknown=unknown)]


def _reminder_due(order: Order, time: ReminderTime, at: datetime) -> ReminderDue:
    assert order.reminders is not None, "only an order with a due date has reminders"
    return ReminderDue(
        reminder_id=uuid5(order.terms.order_id, f"reminder:{time.at.isoformat()}"),
        kind=time.kind,
        due_date=order.reminders.scheduled.due_date,
        scheduled_at=time.at,
        send_at=time.send_at,
        at=at,
    )


def _why_not_sent(order: Order, reminder: Reminder, command: RemindPayer) -> ReminderDroppedBecause | None:
    assert order.reminders is not None, "only an order with a due date has reminders"
    assert reminder.send_at is not None, "the reminder is open"
    if not awaits_payer(order):
        return ReminderDroppedBecause.NOTHING_OWED
    if reminder.due_date != order.reminders.scheduled.due_date:
        return ReminderDroppedBecause.RESCHEDULED
    if reminder.kind is ReminderKind.OVERDUE and not order.reminders.scheduled.policy.days:
        return ReminderDroppedBecause.TURNED_OFF
    if order.payer_forgotten:
        return ReminderDroppedBecause.ERASED
    if command.withheld is not None:
        return command.withheld
    given_up = why_not_begun(reminder, reminder.send_at, command.at)
    return None if given_up is None else ReminderDroppedBecause(given_up)


def _timers_of_payment(order: Order, payment: Payment) -> list[Timer]:
    payment_id, timers = payment.payment_id, []
    if _needs_void(order, payment) or is_to_be_ended(order, payment):
        timers.append(Timer(TimerKind.VOID, payment_id, payment.updated_at))
    elif payment.status is PaymentStatus.PENDING_CAPTURE and payment.capture_due_at is not None:
        timers.append(Timer(TimerKind.CAPTURE, payment_id, payment.capture_due_at))
    if payment.status is PaymentStatus.REQUIRES_ACTION and payment.action_expires_at is not None:
        timers.append(Timer(TimerKind.EXPIRY, payment_id, payment.action_expires_at))
    has_rest = payment.captured > 0 and payment.capturable > 0
    if payment.lapses_at is not None and (payment.status in _AUTHORIZED or has_rest):
        timers.append(Timer(TimerKind.LAPSE, payment_id, payment.lapses_at))
    return timers


def _needs_void(order: Order, payment: Payment) -> bool:
    """Returns whether an authorisation is still to be voided: it was cancelled, or its capture was finally refused.

    No void of it is open or was refused.
    """
    requested = order.cancel_requested or payment.cancellation_requested
    cancelled = requested and payment.is_uncaptured and not payment.void_refused and payment.intent is None
    return cancelled or needs_release(payment)
