"""The reminders of an order's due date: when they come, when none is sent, and how an attempt ends."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.domain.builders import NOON, create, new_payment
from tests.domain.scenario import given

from ledger.domain.customers.terms import Accepted, AttemptOutcome, NotAccepted, Refused
from ledger.domain.fold import fold
from ledger.domain.orders.commands import (
    RecordReminder,
    RemindPayer,
)
from ledger.domain.orders.decide.payments import decide_create
from ledger.domain.orders.events import (
    OrderCancelled,
    OrderDueDateChanged,
    PayerForgotten,
    ReminderDropped,
    ReminderDroppedBecause,
    ReminderDue,
    ReminderKind,
    ReminderPostponed,
    ReminderRequested,
    ReminderSent,
    RemindersScheduled,
)
from ledger.domain.orders.evolve.order import evolve
from ledger.domain.orders.evolve.reminders import reminder_times
from ledger.domain.orders.state import Order
from ledger.domain.orders.terms import ReminderPolicy
from ledger.domain.orders.timers import decide_reminder, decide_reminder_outcome, reminder_at

DAY = timedelta(days=1)
DUE = datetime(2026, 2, 11, 5, 59, 59, 999000, tzinfo=UTC)  # the end of 10 February in Mexico City, which is UTC-6
THREE_BEFORE, ON_IT = (datetime(2026, 2, day, 15, tzinfo=UTC) for day in (7, 10))
OVERDUE_AT, NEXT_MORNING = DUE + timedelta(milliseconds=1), datetime(2026, 2, 11, 15, tzinfo=UTC)
POLICY = ReminderPolicy(days=(3, 0), time_zone="America/Mexico_City")
REAL = datetime(2026, 1, 1, tzinfo=UTC)
UNTIL = REAL + timedelta(seconds=15)
B = ReminderDroppedBecause


def created(due_date: datetime = DUE, policy: ReminderPolicy = POLICY, **terms: Any) -> list[Any]:
    return decide_create(None, create(due_date=due_date, reminders=policy, **terms))


def remind(at: datetime, **changes: Any) -> RemindPayer:
    fields: dict[str, Any] = {"notifier": "smtp", "real_at": REAL, "deadline_at": UNTIL, "at": at}
    return RemindPayer(**(fields | changes))


def after(*commands: RemindPayer | RecordReminder, start: list[Any] | None = None) -> Order:
    """Returns the order after these commands."""
    order = fold(evolve, None, start or created())
    for command in commands:
        decide: Any = decide_reminder if isinstance(command, RemindPayer) else decide_reminder_outcome
        order = fold(evolve, order, decide(order, command))
    return order


def ended(outcome: AttemptOutcome, at: datetime = THREE_BEFORE, order: Order | None = None) -> RecordReminder:
    order = order or after(remind(at))
    assert order.reminders is not None
    return RecordReminder(reminder_id=order.reminders.recorded[-1].reminder_id, outcome=outcome, at=at)


def test_reminders_come_in_the_morning_of_their_days_and_overdue_as_soon_as_the_due_date_has_passed() -> None:
    scheduled = RemindersScheduled(due_date=DUE, policy=POLICY, at=NOON)
    assert reminder_times(scheduled) == [
        (THREE_BEFORE, THREE_BEFORE, ReminderKind.PAYMENT),
        (ON_IT, ON_IT, ReminderKind.PAYMENT),
        (OVERDUE_AT, NEXT_MORNING, ReminderKind.OVERDUE),
    ]
    early = RemindersScheduled(due_date=ON_IT - timedelta(hours=5), policy=POLICY, at=NOON)  # at 4 in the morning
    assert [each.at for each in reminder_times(early)[1:]] == [
        early.due_date,
        early.due_date + timedelta(milliseconds=1),
    ]
    assert reminder_times(early)[2].send_at == ON_IT  # the same morning


def test_the_morning_is_local_on_both_sides_of_a_change_of_daylight_saving_time() -> None:
    due = datetime(2026, 3, 9, 20, tzinfo=UTC)  # Tijuana changed to UTC-7 on 8 March
    policy = ReminderPolicy(days=(3, 0), time_zone="America/Tijuana")
    times = [each.at for each in reminder_times(RemindersScheduled(due_date=due, policy=policy, at=NOON))]
    assert times[:2] == [datetime(2026, 3, 6, 17, tzinfo=UTC), datetime(2026, 3, 9, 16, tzinfo=UTC)]


@pytest.mark.parametrize("due", [datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)])
def test_the_first_and_the_last_due_date_of_an_order_before_there_were_bounds_have_reminders(due: datetime) -> None:
    scheduled = RemindersScheduled(due_date=due, policy=POLICY, at=NOON)
    assert len(reminder_times(scheduled)) == 1 + len(POLICY.days)


def test_an_order_schedules_reminders_only_where_it_has_a_due_date() -> None:
    assert [type(event).__name__ for event in created()] == ["OrderCreated", "RemindersScheduled"]
    assert len(decide_create(None, create())) == 1
    assert reminder_at(fold(evolve, None, decide_create(None, create()))) is None
    assert reminder_at(fold(evolve, None, created())) == THREE_BEFORE


def test_times_before_the_order_are_left_out() -> None:
    for at, following in ((THREE_BEFORE, ON_IT), (ON_IT, OVERDUE_AT), (OVERDUE_AT, None), (DUE + 9 * DAY, None)):
        assert reminder_at(fold(evolve, None, created(at=at))) == following


def test_a_due_date_that_is_moved_moves_the_reminders() -> None:
    later = RemindersScheduled(due_date=DUE + 10 * DAY, policy=POLICY, at=ON_IT)
    sent = after(remind(THREE_BEFORE), ended(Accepted()))
    assert reminder_at(sent) == ON_IT
    assert reminder_at(fold(evolve, sent, [later])) == THREE_BEFORE + 10 * DAY


def test_a_reminder_is_recorded_and_its_attempt_announced_at_its_time_and_not_before() -> None:
    order = after()
    assert decide_reminder(order, remind(THREE_BEFORE - timedelta(milliseconds=1))) == []
    due, requested = decide_reminder(order, remind(THREE_BEFORE))
    assert due == ReminderDue(
        reminder_id=due.reminder_id, kind=ReminderKind.PAYMENT, due_date=DUE, scheduled_at=THREE_BEFORE,
        send_at=THREE_BEFORE, at=THREE_BEFORE,
    )  # fmt: skip
    assert requested == ReminderRequested(
        reminder_id=due.reminder_id, notifier="smtp", deadline_at=UNTIL, at=THREE_BEFORE
    )
    assert decide_reminder(order, remind(THREE_BEFORE + DAY))[0].reminder_id == due.reminder_id  # from the time alone


def test_an_attempt_that_runs_is_not_repeated_and_one_that_ended_is_recorded_once() -> None:
    running = after(remind(THREE_BEFORE))
    assert decide_reminder(running, remind(THREE_BEFORE)) == []
    assert reminder_at(running) is None
    (sent,) = decide_reminder_outcome(running, ended(Accepted()))
    assert isinstance(sent, ReminderSent)
    done = fold(evolve, running, [sent])
    assert decide_reminder_outcome(done, ended(Accepted())) == []
    assert (decide_reminder(done, remind(THREE_BEFORE)), reminder_at(done)) == ([], ON_IT)
    assert done.updated_at == NOON  # nothing that the merchant reads has changed


def test_of_several_times_that_have_passed_the_latest_counts() -> None:
    due, *_ = decide_reminder(after(), remind(ON_IT))
    assert due.scheduled_at == ON_IT
    overdue, dropped = decide_reminder(after(), remind(DUE + 9 * DAY))
    assert (overdue.kind, dropped.because) == (ReminderKind.OVERDUE, B.MISSED)
    assert reminder_at(after(remind(DUE + 9 * DAY))) is None


def test_the_message_about_an_overdue_order_waits_for_the_morning() -> None:
    (overdue,) = decide_reminder(after(), remind(OVERDUE_AT))
    assert (overdue.kind, overdue.send_at) == (ReminderKind.OVERDUE, NEXT_MORNING)
    order = after(remind(OVERDUE_AT))
    assert reminder_at(order) == NEXT_MORNING
    assert decide_reminder(order, remind(NEXT_MORNING - timedelta(seconds=1))) == []
    assert [type(event) for event in decide_reminder(order, remind(NEXT_MORNING))] == [ReminderRequested]
    assert decide_reminder(after(), remind(DUE)) != [overdue]  # at the due date itself, the order is not overdue


@pytest.mark.parametrize("because", [B.ERASED, B.UNWANTED, B.NO_ADDRESS])
def test_a_customer_who_gets_no_message_is_not_written_to(because: ReminderDroppedBecause) -> None:
    due, dropped = decide_reminder(after(), remind(THREE_BEFORE, withheld=because))
    assert dropped == ReminderDropped(reminder_id=due.reminder_id, because=because, at=THREE_BEFORE)
    assert reminder_at(after(remind(THREE_BEFORE, withheld=because))) == ON_IT


def test_an_order_whose_payer_was_erased_reminds_no_one() -> None:
    order = after(start=[*created(), PayerForgotten(at=NOON)])
    assert decide_reminder(order, remind(THREE_BEFORE))[1].because is B.ERASED


def test_a_merchant_without_reminders_has_the_overdue_order_recorded_and_no_message_sent() -> None:
    order = after(start=created(policy=ReminderPolicy(days=(), time_zone="America/Mexico_City")))
    assert reminder_at(order) == OVERDUE_AT
    overdue, dropped = decide_reminder(order, remind(OVERDUE_AT))
    assert (overdue.kind, dropped.because) == (ReminderKind.OVERDUE, B.TURNED_OFF)


def test_an_order_that_owes_nothing_or_is_being_paid_reminds_no_one() -> None:
    cancelled = after(start=[*created(), OrderCancelled(at=NOON)])
    processing = after(start=created(payment=new_payment()))
    for order in (cancelled, processing):
        assert (reminder_at(order), decide_reminder(order, remind(THREE_BEFORE))) == (None, [])
    waiting = fold(evolve, after(remind(OVERDUE_AT)), [OrderCancelled(at=OVERDUE_AT)])
    (dropped,) = decide_reminder(waiting, remind(NEXT_MORNING))
    assert dropped.because is B.NOTHING_OWED


def test_what_was_certainly_not_accepted_is_tried_again_with_growing_pauses_until_an_end() -> None:
    order, at, pauses = after(), THREE_BEFORE, []
    while not isinstance(last := _attempt(order, at, NotAccepted("CONNECT FAILED"))[-1], ReminderDropped):
        order = fold(evolve, order, _attempt(order, at, NotAccepted("CONNECT FAILED")))
        assert isinstance(last, ReminderPostponed)
        pauses.append(last.retry_at - at)
        assert decide_reminder(order, remind(last.retry_at - timedelta(milliseconds=1))) == []
        at = last.retry_at
        assert reminder_at(order) == at
    assert (last.because, last.code) == (B.UNDELIVERED, "CONNECT FAILED")
    assert pauses == sorted(pauses)
    assert len(pauses) == 6
    assert sum(pauses, timedelta()) < DAY


def _attempt(order: Order, at: datetime, outcome: AttemptOutcome) -> list[Any]:
    events = decide_reminder(order, remind(at))
    order = fold(evolve, order, events)
    return [*events, *decide_reminder_outcome(order, ended(outcome, at, order))]


def test_a_refusal_is_final() -> None:
    (dropped,) = decide_reminder_outcome(after(remind(THREE_BEFORE)), ended(Refused("RCPT 550 5.1.1")))
    assert (dropped.because, dropped.code) == (B.REFUSED, "RCPT 550 5.1.1")


@pytest.mark.parametrize("crashes", [True, False])
def test_a_message_whose_outcome_is_unknown_is_sent_once_more_and_not_a_third_time(*, crashes: bool) -> None:
    """An attempt without an answer, and one whose worker ended before it recorded anything."""
    order = after(remind(THREE_BEFORE))
    at, later = THREE_BEFORE, UNTIL
    if not crashes:
        order = fold(evolve, order, decide_reminder_outcome(order, ended(NotAccepted("DATA TIMEOUT", unknown=True))))
        at = at + timedelta(minutes=1)
    second = decide_reminder(order, remind(at, real_at=later, deadline_at=later + timedelta(seconds=15)))
    assert [type(event) for event in second] == [ReminderRequested]
    order = fold(evolve, order, second)
    (dropped,) = decide_reminder(order, remind(at, real_at=later + DAY))
    assert dropped.because is B.UNKNOWN
    (dropped,) = decide_reminder_outcome(order, ended(NotAccepted("DATA TIMEOUT", unknown=True), at, order))
    assert dropped.because is B.UNKNOWN


def test_the_commands_can_be_repeated() -> None:
    given(*created()).when(remind(THREE_BEFORE)).then_events()
    running = [*created(), *decide_reminder(after(), remind(THREE_BEFORE))]
    given(*running).when(ended(Accepted())).then_events()


def test_reminders_follow_a_due_date_that_is_moved_or_taken_away() -> None:
    later = DUE + 30 * DAY
    moved = [
        OrderDueDateChanged(due_date=later, at=THREE_BEFORE),
        RemindersScheduled(due_date=later, policy=POLICY, at=THREE_BEFORE),
    ]
    postponed = after(remind(THREE_BEFORE), ended(NotAccepted("451"), THREE_BEFORE))
    order = fold(evolve, postponed, moved)
    assert order.reminders is not None
    assert order.reminders.pending is not None, "of the former date"
    dropped = decide_reminder(order, remind(THREE_BEFORE + DAY))
    assert [(type(each), each.because) for each in dropped] == [(ReminderDropped, B.RESCHEDULED)]
    order = fold(evolve, order, dropped)
    assert reminder_at(order) == THREE_BEFORE + 30 * DAY
    gone = fold(evolve, order, [OrderDueDateChanged(at=THREE_BEFORE + DAY)])
    assert (reminder_at(gone), decide_reminder(gone, remind(later))) == (None, [])
