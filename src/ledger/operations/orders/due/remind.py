"""Reminds an order's payer of its due date: records the attempt, hands the message over, records the outcome.

A reminder is decided on the order as it is. Two workers that run the same reminder make one attempt, because the
version of the order decides which intent is recorded. After a crash in the middle of an attempt there is one more:
then the payer may receive the message twice, under one Message-ID.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar
from uuid import UUID

import structlog

from ledger.domain.customers.state import Customer
from ledger.domain.customers.terms import Accepted, AttemptOutcome
from ledger.domain.orders.commands import RecordReminder, RemindPayer
from ledger.domain.orders.events import (
    OrderEvent,
    ReminderDropped,
    ReminderDroppedBecause,
    ReminderKind,
    ReminderPostponed,
    ReminderRequested,
)
from ledger.domain.orders.evolve.reminders import Reminder
from ledger.domain.orders.state import Order
from ledger.domain.orders.timers import decide_reminder, decide_reminder_outcome
from ledger.domain.streams import CUSTOMERS, ORDERS, Stream
from ledger.journal.append import Change, Conflict
from ledger.notifications.contract import Notification
from ledger.notifications.messages import Addressee, Row, payment_reminder
from ledger.notifications.not_sent import in_words
from ledger.operations.context.inputs import Actor
from ledger.operations.context.ledger import Ledger
from ledger.operations.message_call import AttemptRunning, MessageCall, message_deadline
from ledger.operations.pipeline.execute import execute
from ledger.operations.pipeline.unit_of_work import Plan, UnitOfWork
from ledger.telemetry.metrics import REMINDERS

_log = structlog.get_logger()


class ReminderCall(MessageCall, frozen=True, kw_only=True):
    """An attempt to send a reminder that the order has as running."""

    order: Order
    reminder: Reminder

    stream: ClassVar[Stream[Any]] = ORDERS

    @property
    def stream_id(self) -> UUID:
        return self.order.terms.order_id

    @property
    def deadline_at(self) -> datetime:
        assert self.reminder.deadline_at is not None, "the attempt was just recorded"
        return self.reminder.deadline_at

    @property
    def about(self) -> Mapping[str, str]:
        return _about(self.merchant_id, self.order.terms.order_id)

    async def prepare(self, uow: UnitOfWork) -> Notification:
        return await _notification(self, uow)

    def record(self, state: Order, outcome: AttemptOutcome, now: datetime) -> Sequence[OrderEvent]:
        command = RecordReminder(reminder_id=self.reminder.reminder_id, outcome=outcome, at=now)
        return decide_reminder_outcome(state, command)

    def recorded(self, outcome: AttemptOutcome, change: Change) -> bool:
        _report(self.merchant_id, change)
        if isinstance(outcome, Accepted):
            REMINDERS.labels("sent").inc()
        return True


def reminder_call(
    ledger: Ledger, merchant_id: UUID, order: Order, event: ReminderRequested, _: object = None
) -> ReminderCall | None:
    """Returns the attempt that an event of this order announces."""
    reminder = None if order.reminders is None else order.reminders.pending
    if reminder is None or reminder.reminder_id != event.reminder_id:
        return None
    return ReminderCall(ledger=ledger, merchant_id=merchant_id, order=order, reminder=reminder)


async def remind_payer(ledger: Ledger, merchant_id: UUID, order_id: UUID) -> None:
    """Sends the reminder of an order that is due by its merchant's clock, or records why it is not sent.

    Does nothing if none is due. Raises AttemptRunning, ConcurrentUpdate, a Fault: run it again later.
    """
    uow = UnitOfWork(ledger, Actor(merchant_id=merchant_id, request_id="due"), cause=order_id)

    async def attempt(_: Conflict | None) -> Plan:
        order = await uow.order(order_id)
        customer = await uow.load(CUSTOMERS, order.terms.customer_id, fresh=True)  # the latest preferences count
        assert customer is not None, "an order's customer is never deleted"
        real_at = datetime.now(UTC)
        command = RemindPayer(
            notifier=ledger.notifier.name,
            deadline_at=message_deadline(ledger, real_at),
            real_at=real_at,
            at=uow.now,
            withheld=_withheld(customer),
        )
        return Plan(changes=[uow.change_order(order_id, decide_reminder(order, command))])

    plan = await execute(uow, attempt)
    _report(merchant_id, plan.changes[0])
    order: Order = plan.changes[0].after
    reminder = None if order.reminders is None else order.reminders.pending
    if not plan.events and reminder is not None and reminder.deadline_at is not None:
        raise AttemptRunning


def _withheld(customer: Customer) -> ReminderDroppedBecause | None:
    """Returns why the customer gets no message (contract N49), or None."""
    wanted = customer.preferences
    if customer.erased:
        return ReminderDroppedBecause.ERASED
    if not (wanted.email and wanted.payment_reminders):
        return ReminderDroppedBecause.UNWANTED
    return None if customer.email else ReminderDroppedBecause.NO_ADDRESS


async def _notification(call: ReminderCall, uow: UnitOfWork) -> Notification:
    ledger, order, reminder = call.ledger, call.order, call.reminder
    merchant = await ledger.merchant(call.merchant_id)
    customer = await uow.load(CUSTOMERS, order.terms.customer_id)  # as the attempt was decided on it
    assert customer is not None, "an order's customer is never deleted"
    assert customer.email is not None, "the decider withholds what has no address"
    assert order.reminders is not None, "only an order with a due date has reminders"
    addressee = Addressee(
        merchant=merchant.name,
        time_zone=order.reminders.scheduled.policy.time_zone,
        customer_name=customer.first_name,
        language=customer.preferences.language,
    )
    message = payment_reminder(
        addressee,
        order=order.terms.invoice_number or order.terms.order_number,
        amount=order.amount_pending - order.reserved,
        currency=order.terms.currency,
        due_date=reminder.due_date,
        description=order.terms.description,
        references=_references(order, ledger.clock.now(call.merchant_id)),
        overdue=reminder.kind is ReminderKind.OVERDUE,
    )
    return Notification(
        notification_id=reminder.reminder_id,
        sender_name=merchant.name,
        recipient=customer.email,
        message=message,
        about=call.about,
    )


def _references(order: Order, now: datetime) -> list[Row]:
    """Returns the latest reference that the payer can still pay to: its CLABE, or its number and agreement."""
    for payment in reversed(order.payments):
        is_open = payment.action_expires_at is not None and payment.action_expires_at > now
        if payment.reference is not None and is_open:
            reference = payment.reference
            return [
                ("clabe", reference.clabe),
                ("convenio", reference.convenio),
                ("reference", reference.reference),
            ]
    return []


def _report(merchant_id: UUID, change: Change) -> None:
    """Counts and logs what was not sent. Only what a mail server caused is a warning."""
    about = _about(merchant_id, change.stream_id)
    for event in change.events:
        if isinstance(event, ReminderPostponed):
            REMINDERS.labels("postponed").inc()
            _log.info("reminder_postponed", code=event.code, **about)
        elif isinstance(event, ReminderDropped):
            REMINDERS.labels("dropped").inc()
            reason = {"because": event.because, "message": in_words(event.because)}
            if event.code is None:
                _log.info("reminder_dropped", **reason, **about)
            else:
                _log.warning("reminder_dropped", code=event.code, **reason, **about)


def _about(merchant_id: UUID, order_id: UUID) -> dict[str, str]:
    """Returns what the log lines of an order's reminder name."""
    return {"merchant_id": str(merchant_id), "order_id": str(order_id)}
