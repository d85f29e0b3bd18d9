"""Reminds an order's payer of its due date: records the intent, hands the message to the notifier, records the outcome.

A reminder is decided on the order as it is. Two workers that run the same reminder make one attempt, because the
version of the order decides which intent is recorded. After a crash in the middle of an attempt there is one more:
then the payer may receive the message twice, under one Message-ID.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from uuid import UUID

import structlog

from ledger.domain.customers.evolve import evolve as evolve_customer
from ledger.domain.customers.state import Customer
from ledger.domain.customers.terms import Accepted, AttemptOutcome, attempt_outcome
from ledger.domain.orders.commands import (
    RecordReminder,
    RemindPayer,
)
from ledger.domain.orders.events import ReminderDropped, ReminderDroppedBecause, ReminderKind, ReminderPostponed
from ledger.domain.orders.evolve.reminders import Reminder
from ledger.domain.orders.state import Order
from ledger.domain.orders.timers import decide_reminder, decide_reminder_outcome
from ledger.journal.append import Conflict
from ledger.notifications.contract import Notification
from ledger.notifications.hand_over import MARGIN, AttemptRunning, hand_over
from ledger.notifications.messages import Addressee, Row, payment_reminder
from ledger.notifications.not_sent import in_words
from ledger.operations.context.inputs import Actor
from ledger.operations.context.ledger import Ledger
from ledger.operations.pipeline.execute import execute
from ledger.operations.pipeline.unit_of_work import Plan, UnitOfWork
from ledger.telemetry.metrics import REMINDERS

_log = structlog.get_logger()


async def remind_payer(ledger: Ledger, merchant_id: UUID, order_id: UUID) -> None:
    """Sends the reminder of an order that is due by its merchant's clock, or records why it is not sent.

    Does nothing where none is due. Raises AttemptRunning, ConcurrentUpdate, a Fault: run it again later.
    """
    uow = UnitOfWork(ledger, Actor(merchant_id=merchant_id, request_id="due"), cause=order_id)
    notifier = ledger.notifier

    async def attempt(_: Conflict | None) -> Plan:
        order = await uow.order(order_id)
        uow.streams.pop(order.terms.customer_id, None)  # the latest preferences count
        customer = await _customer(uow, order)
        real_at = datetime.now(UTC)
        command = RemindPayer(
            notifier=notifier.name,
            deadline_at=real_at + timedelta(seconds=notifier.timeout_s) + MARGIN,
            real_at=real_at,
            at=uow.now,
            withheld=_withheld(customer),
        )
        return Plan(changes=[uow.change_order(order_id, decide_reminder(order, command))])

    plan = await execute(uow, attempt)
    _report(uow, plan)
    order = await uow.order(order_id)
    reminder = None if order.reminders is None else order.reminders.pending
    if reminder is None or reminder.deadline_at is None:
        return
    if not plan.events:
        raise AttemptRunning
    outcome = await _send(uow, order, reminder)
    await _record(uow, order_id, reminder, outcome)


async def _customer(uow: UnitOfWork, order: Order) -> Customer:
    customer = await uow.load(order.terms.customer_id, evolve_customer)
    assert customer is not None, "an order's customer is never deleted"
    return customer


def _withheld(customer: Customer) -> ReminderDroppedBecause | None:
    """Returns why the customer gets no message (contract N49), or None."""
    wanted = customer.preferences
    if customer.erased:
        return ReminderDroppedBecause.ERASED
    if not (wanted.email and wanted.payment_reminders):
        return ReminderDroppedBecause.UNWANTED
    return None if customer.email else ReminderDroppedBecause.NO_ADDRESS


async def _send(uow: UnitOfWork, order: Order, reminder: Reminder) -> AttemptOutcome:
    """Makes the attempt that was just recorded. Never raises: whatever goes wrong is an outcome."""
    assert reminder.deadline_at is not None, "the attempt was just recorded"
    about = _about(uow, order.terms.order_id)
    written = _notification(uow, order, reminder, about)
    ended = await hand_over(uow.ledger.notifier, written, reminder.deadline_at, **about)
    return attempt_outcome(ended.code, refused=ended.refused, unknown=ended.unknown)


async def _notification(uow: UnitOfWork, order: Order, reminder: Reminder, about: Mapping[str, str]) -> Notification:
    merchant, customer = await uow.ledger.merchant(uow.merchant_id), await _customer(uow, order)
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
        references=_references(order, uow.now),
        overdue=reminder.kind is ReminderKind.OVERDUE,
    )
    return Notification(
        notification_id=reminder.reminder_id,
        sender_name=merchant.name,
        recipient=customer.email,
        message=message,
        about=about,
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


async def _record(uow: UnitOfWork, order_id: UUID, reminder: Reminder, outcome: AttemptOutcome) -> None:
    uow.now = await uow.ledger.clock.refresh(uow.merchant_id)  # the attempt took time

    async def attempt(_: Conflict | None) -> Plan:
        order = await uow.order(order_id)
        command = RecordReminder(reminder_id=reminder.reminder_id, outcome=outcome, at=uow.now)
        return Plan(changes=[uow.change_order(order_id, decide_reminder_outcome(order, command))])

    _report(uow, await execute(uow, attempt, is_fact=True))
    if isinstance(outcome, Accepted):
        REMINDERS.labels("sent").inc()


def _report(uow: UnitOfWork, plan: Plan) -> None:
    """Counts and logs what was not sent. Only what a mail server caused is a warning."""
    about = _about(uow, plan.stream_id)
    for event in plan.events:
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


def _about(uow: UnitOfWork, order_id: UUID) -> dict[str, str]:
    """Returns what the log lines of an order's reminder name."""
    return {"merchant_id": str(uow.merchant_id), "order_id": str(order_id)}
