"""Reminders: handed over once, with the intent before and the outcome after, and to no customer who wants none."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, time, timedelta
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from structlog.testing import capture_logs
from tests.operations.conftest import Open, an_order
from tests.operations.test_timers import Ahead

from ledger.domain.orders.events import ReminderDroppedBecause
from ledger.domain.orders.evolve.reminders import Reminder
from ledger.domain.orders.state import Order
from ledger.journal.journal import Journal
from ledger.notifications.contract import Notification, NotificationRefused, NotificationUnanswered
from ledger.operations.context.inputs import Actor, CustomerFields, CustomerInput
from ledger.operations.context.ledger import Ledger
from ledger.operations.customers.change import change_customer
from ledger.operations.erasure.erase_customer import delete_customer
from ledger.operations.orders.create import create_order
from ledger.operations.orders.due import remind
from ledger.operations.orders.due.remind import AttemptRunning, remind_payer
from ledger.operations.pipeline.unit_of_work import load_order

pytestmark = pytest.mark.anyio

B = ReminderDroppedBecause
MEXICO = ZoneInfo("America/Mexico_City")


def to_the_reminder() -> timedelta:
    """Returns how long it is to an hour after the first reminder of an order that is due in ten days, at any time of day.

    Reminders come at 9:00. Computed from the present, as the order was: a fixed time would be more than 24 hours after
    it, and the reminder missed, in the evening.
    """
    now = datetime.now(MEXICO)
    day = (now.astimezone(UTC) + timedelta(days=10)).astimezone(MEXICO).date() - timedelta(days=3)
    return datetime.combine(day, time(10), MEXICO) - now


class Crash(BaseException):
    """Ends an operation where the process would have ended."""


class Mailbox:
    """A notifier that keeps what it accepts. `failures` are raised first, one for each message."""

    name = "mailbox"
    timeout_s = 300.0

    def __init__(self, *failures: BaseException) -> None:
        self.accepted: list[Notification] = []
        self.asked: list[UUID] = []
        self.failures = list(failures)
        self.go_on = asyncio.Event()
        self.go_on.set()

    async def send(self, notification: Notification, within_s: float) -> None:
        assert 0 < within_s <= self.timeout_s
        self.asked.append(notification.notification_id)
        await self.go_on.wait()
        if self.failures:
            raise self.failures.pop(0)
        self.accepted.append(notification)


async def an_order_to_remind(
    ledger: Ledger, merchant: Actor, name: str = "1", customer: CustomerInput | None = None
) -> UUID:
    """Returns a pending order that is due in ten days."""
    terms: dict[str, Any] = {"due_date": datetime.now(UTC) + timedelta(days=10), "invoice_number": "A-17"}
    if customer is not None:
        terms["customer"] = customer
    return (await create_order(ledger, merchant, an_order(name, **terms))).order.terms.order_id


async def reminder_of(ledger: Ledger, merchant: Actor, order_id: UUID) -> Reminder:
    order: Order = await load_order(ledger, merchant.merchant_id, order_id)
    assert order.reminders is not None
    (reminder,) = order.reminders.recorded
    return reminder


def in_a_week(*ledgers: Ledger) -> None:
    for ledger in ledgers:
        ledger.clock = Ahead(to_the_reminder())


async def test_many_workers_make_one_attempt(ledger: Ledger, merchant: Actor, open_another: Open) -> None:
    order_id = await an_order_to_remind(ledger, merchant)
    before = await load_order(ledger, merchant.merchant_id, order_id)
    ledgers = [ledger, await open_another()]
    mailbox = Mailbox()
    mailbox.go_on.clear()
    in_a_week(*ledgers)
    for each in ledgers:
        each.notifier = mailbox
    running = [asyncio.create_task(remind_payer(each, merchant.merchant_id, order_id)) for each in ledgers * 3]
    pending = set(running)
    while len(pending) > 1:
        done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED, timeout=60)
        assert done, "all but the one attempt end"
    mailbox.go_on.set()
    ended = await asyncio.gather(*running, return_exceptions=True)
    assert [type(each) for each in ended].count(AttemptRunning) == len(running) - 1, ended
    assert ended.count(None) == 1
    (sent,) = mailbox.accepted
    assert (sent.recipient, sent.sender_name, sent.message.language) == ("ana@example.com", "Café Tacuba", "es")
    for part in ("$100.00 MXN", "A-17", "Hola, Ana:"):
        assert part in sent.message.text
    reminder = await reminder_of(ledger, merchant, order_id)
    assert (reminder.reminder_id, reminder.send_at) == (sent.notification_id, None)
    await remind_payer(ledger, merchant.merchant_id, order_id)
    assert len(mailbox.asked) == 1
    after = await load_order(ledger, merchant.merchant_id, order_id)
    assert (after.updated_at, after.status) == (before.updated_at, before.status)


@pytest.mark.parametrize("place", ["before the message", "after the message", "no answer"])
async def test_a_message_is_sent_twice_at_most_after_crashes_and_missing_answers(
    place: str, ledger: Ledger, merchant: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    order_id = await an_order_to_remind(ledger, merchant)
    in_a_week(ledger)
    mailbox = ledger.notifier = Mailbox()

    def crash(*_: Any) -> None:
        raise Crash

    if place == "after the message":
        monkeypatch.setattr(remind.ReminderCall, "record", crash)
    elif place == "before the message":
        mailbox.failures = [Crash(), Crash()]
    else:
        mailbox.failures = [NotificationUnanswered("DATA TIMEOUT"), NotificationUnanswered("DATA TIMEOUT")]
    for attempt in (1, 2):
        ends = pytest.raises(Crash) if place != "no answer" else _nothing()
        with ends:
            await remind_payer(ledger, merchant.merchant_id, order_id)
        assert len(mailbox.asked) == attempt
        if place != "no answer":
            with pytest.raises(AttemptRunning):  # until the attempt's deadline, another worker may be making it
                await remind_payer(ledger, merchant.merchant_id, order_id)
        monkeypatch.setattr(remind, "datetime", _later(hours=attempt))
        ledger.clock = Ahead(to_the_reminder() + timedelta(hours=attempt))
    await remind_payer(ledger, merchant.merchant_id, order_id)
    assert len(mailbox.asked) == 2
    assert len(set(mailbox.asked)) == 1, "a mail that comes twice has one Message-ID"
    assert (await reminder_of(ledger, merchant, order_id)).dropped is B.UNKNOWN


class _nothing:  # noqa: N801 - a context like pytest.raises
    def __enter__(self) -> None: ...
    def __exit__(self, *_: object) -> None: ...


def _later(hours: int) -> type[datetime]:
    class Later(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:
            return datetime.now(tz) + timedelta(hours=hours)

    return Later


async def test_a_crash_before_the_intent_leaves_a_reminder_that_is_due(
    ledger: Ledger, merchant: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    order_id = await an_order_to_remind(ledger, merchant)
    in_a_week(ledger)
    mailbox = ledger.notifier = Mailbox()

    async def crash(*_: Any) -> None:
        raise Crash

    with monkeypatch.context() as patched:
        patched.setattr(Journal, "commit", crash)
        with pytest.raises(Crash):
            await remind_payer(ledger, merchant.merchant_id, order_id)
    assert mailbox.asked == []
    await remind_payer(ledger, merchant.merchant_id, order_id)
    assert len(mailbox.accepted) == 1


async def test_a_customer_who_wants_no_message_or_has_no_address_gets_none(ledger: Ledger, merchant: Actor) -> None:
    wishes = {
        "no-mail": ({"email": False}, B.UNWANTED),
        "no-reminders": ({"payment_reminders": False}, B.UNWANTED),
        "english": ({"language": "en"}, None),
        "no-address": ({}, B.NO_ADDRESS),
        "erased": ({}, B.ERASED),
    }
    orders = {}
    for name, (preferences, _) in wishes.items():
        customer = CustomerInput(external_id=name, email=None if name == "no-address" else f"{name}@example.com")
        orders[name] = await an_order_to_remind(ledger, merchant, name, customer)
        if preferences:
            await change_customer(ledger, merchant, name, CustomerFields(preferences=preferences))

    async def no_orders(*_: Any) -> list[UUID]:
        return []  # the order itself is erased later: the customer decides

    await delete_customer(ledger, merchant, "erased", no_orders)
    in_a_week(ledger)
    mailbox = ledger.notifier = Mailbox()
    for name, (_, because) in wishes.items():
        await remind_payer(ledger, merchant.merchant_id, orders[name])
        assert (await reminder_of(ledger, merchant, orders[name])).dropped is because, name
    (sent,) = mailbox.accepted
    assert (sent.recipient, sent.message.language) == ("english@example.com", "en")


async def test_a_refusal_is_recorded_with_its_code_and_no_address(ledger: Ledger, merchant: Actor) -> None:
    order_id = await an_order_to_remind(ledger, merchant)
    in_a_week(ledger)
    ledger.notifier = Mailbox(NotificationRefused("RCPT 550 5.1.1"))
    with capture_logs() as lines:
        await remind_payer(ledger, merchant.merchant_id, order_id)
    assert [line for line in lines if line["event"] == "reminder_dropped"] == [
        {
            "event": "reminder_dropped",
            "log_level": "warning",
            "merchant_id": str(merchant.merchant_id),
            "order_id": str(order_id),
            "because": "REFUSED",
            "code": "RCPT 550 5.1.1",
            "message": "The mail server refused the message for good.",
        }
    ]
    assert (await reminder_of(ledger, merchant, order_id)).dropped is B.REFUSED
    events = await ledger.journal.reader.stream(merchant.merchant_id, order_id)
    assert events[-1].code == "RCPT 550 5.1.1"
    assert all("ana@example.com" not in repr(event) for event in events)
    assert "ana@example.com" not in repr(lines)
