"""The reminders of an order's due date: their times, their state, and the fold of their events.

Never refuse an event here, as in the rest of this package. The times follow from the due date and from the merchant's
policy as the order keeps it, in the merchant's time zone.
"""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from typing import Final, NamedTuple, assert_never
from uuid import UUID
from zoneinfo import ZoneInfo

from msgspec import Struct
from msgspec.structs import replace

from ledger.domain.customers.terms import Attempts, begun, postponed
from ledger.domain.orders.events import (
    ReminderDropped,
    ReminderDroppedBecause,
    ReminderDue,
    ReminderEvent,
    ReminderKind,
    ReminderPostponed,
    ReminderRequested,
    ReminderSent,
    RemindersScheduled,
)
from ledger.domain.orders.terms import DUE_DATE_MAX, DUE_DATE_MIN

_MORNING: Final = time(9)
"""When messages are sent, in the merchant's time zone."""
_AFTER: Final = timedelta(milliseconds=1)
"""An order is overdue after its due date, not at it; the interface's times have milliseconds."""


class ReminderTime(NamedTuple):
    """When a reminder comes, and from when on its message may be sent."""

    at: datetime
    send_at: datetime
    kind: ReminderKind


class Reminder(Attempts, frozen=True, kw_only=True):
    """One reminder whose time came.

    `send_at` is when the next attempt is due by the merchant's clock; None once the reminder is sent or dropped.
    """

    reminder_id: UUID
    kind: ReminderKind
    due_date: datetime
    scheduled_at: datetime
    send_at: datetime | None
    sent_at: datetime | None = None
    dropped: ReminderDroppedBecause | None = None


class Reminders(Struct, frozen=True, kw_only=True):
    """The reminders of an order: the latest due date with its policy, and those whose time came, oldest first."""

    scheduled: RemindersScheduled
    recorded: tuple[Reminder, ...] = ()

    @property
    def pending(self) -> Reminder | None:
        """The reminder that is neither sent nor dropped. There is at most one."""
        latest = self.recorded[-1] if self.recorded else None
        return None if latest is None or latest.send_at is None else latest

    def ahead(self) -> list[ReminderTime]:
        """Returns the times that have not come yet, in their order: after what was scheduled and recorded last."""
        after = self.scheduled.at
        if self.recorded:
            after = max(after, self.recorded[-1].scheduled_at)
        return [each for each in reminder_times(self.scheduled) if each.at > after]


def reminder_times(scheduled: RemindersScheduled) -> list[ReminderTime]:
    """Returns the times of all reminders, in their order.

    A reminder comes in the morning of its day, or at the due date if that is earlier. An order is overdue as soon as
    the due date has passed; the message follows in the next morning.
    """
    zone = ZoneInfo(scheduled.policy.time_zone)
    due = min(max(scheduled.due_date, DUE_DATE_MIN), DUE_DATE_MAX)  # of an order before there were bounds
    day = due.astimezone(zone).date()
    times = []
    for days in sorted(set(scheduled.policy.days), reverse=True):
        at = min(datetime.combine(day - timedelta(days=days), _MORNING, zone).astimezone(UTC), due)
        times.append(ReminderTime(at, at, ReminderKind.PAYMENT))
    overdue = due + _AFTER
    return [*times, ReminderTime(overdue, _morning_from(overdue, zone), ReminderKind.OVERDUE)]


def evolve_reminders(reminders: Reminders | None, event: ReminderEvent) -> Reminders:
    """Returns the reminders after `event`. `reminders` is None before the order has a due date."""
    if isinstance(event, RemindersScheduled):
        return Reminders(scheduled=event) if reminders is None else replace(reminders, scheduled=event)
    assert reminders is not None, "a reminder follows the due date"
    if isinstance(event, ReminderDue):
        return replace(reminders, recorded=(*reminders.recorded, opened(event)))
    after = tuple(
        _evolve_reminder(each, event) if each.reminder_id == event.reminder_id else each for each in reminders.recorded
    )
    return replace(reminders, recorded=after)


def opened(event: ReminderDue) -> Reminder:
    """Returns the reminder whose time came."""
    return Reminder(
        reminder_id=event.reminder_id,
        kind=event.kind,
        due_date=event.due_date,
        scheduled_at=event.scheduled_at,
        send_at=event.send_at,
    )


def _evolve_reminder(
    reminder: Reminder, event: ReminderRequested | ReminderPostponed | ReminderSent | ReminderDropped
) -> Reminder:
    match event:
        case ReminderRequested():
            return begun(reminder, event.deadline_at)
        case ReminderPostponed():
            return postponed(reminder, event.retry_at, unknown=event.unknown)
        case ReminderSent():
            return replace(reminder, send_at=None, deadline_at=None, sent_at=event.at)
        case ReminderDropped():
            return replace(reminder, send_at=None, deadline_at=None, dropped=event.because)
        case _:
            assert_never(event)


def _morning_from(at: datetime, zone: ZoneInfo) -> datetime:
    """Returns the first morning in the zone that is not before `at`, in UTC."""
    local = at.astimezone(zone)
    day = local.date() if local.time() <= _MORNING else local.date() + timedelta(days=1)
    return datetime.combine(day, _MORNING, zone).astimezone(UTC)
