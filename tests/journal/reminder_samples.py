"""The samples of the reminders of a due date, with every field filled."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from ledger.domain.orders import events as orders
from ledger.domain.orders.terms import ReminderPolicy

AT = datetime(2026, 1, 31, 18, 30, 15, 123456, tzinfo=UTC)
LATER = datetime(2026, 1, 31, 18, 30, 45, tzinfo=UTC)
REMINDER = UUID("01890a5d-ac96-774b-bcce-b302099a8091")

REMINDERS: dict[str, Any] = {
    "reminders-scheduled.v1": orders.RemindersScheduled(
        due_date=LATER, policy=ReminderPolicy(days=(3, 0), time_zone="America/Tijuana"), at=AT
    ),
    "reminder-due.v1": orders.ReminderDue(
        reminder_id=REMINDER,
        kind=orders.ReminderKind.OVERDUE,
        due_date=AT,
        scheduled_at=AT,
        send_at=LATER,
        at=AT,
    ),
    "reminder-requested.v1": orders.ReminderRequested(reminder_id=REMINDER, notifier="smtp", deadline_at=LATER, at=AT),
    "reminder-postponed.v1": orders.ReminderPostponed(
        reminder_id=REMINDER, code="DATA TIMEOUT", retry_at=LATER, at=AT, unknown=True
    ),
    "reminder-sent.v1": orders.ReminderSent(reminder_id=REMINDER, at=AT),
    "reminder-dropped.v1": orders.ReminderDropped(
        reminder_id=REMINDER, because=orders.ReminderDroppedBecause.REFUSED, at=AT, code="RCPT 550 5.1.1"
    ),
}
