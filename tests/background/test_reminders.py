"""Reminders by the merchant's clock: through the reaction, the timers, the jobs and a real mail server."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from tests.background.conftest import rows
from tests.notifications.conftest import Start, certificate, start
from tests.operations.conftest import an_order, by_card

from ledger.background.clock.advance import ClockAdvancer
from ledger.background.reactions.dispatcher import Dispatcher
from ledger.background.reactions.registry import HANDLERS, REACTIONS
from ledger.background.scheduler.jobs import Jobs
from ledger.domain.orders.events import ReminderEvent
from ledger.notifications.smtp import SmtpNotifier, parse_server
from ledger.operations.context.inputs import Actor
from ledger.operations.context.ledger import Ledger
from ledger.operations.orders.create import charge_order, create_order
from ledger.postgres.connection import Connection

__all__ = ["certificate", "start"]

pytestmark = pytest.mark.anyio

MEXICO = ZoneInfo("America/Mexico_City")


async def test_a_payer_is_reminded_until_the_order_is_paid_and_again_once_it_is_overdue(
    ledger: Ledger, merchant: Actor, start: Start, database_url: str
) -> None:
    server = await start()
    server.replies["RCPT"] = "450 4.2.0 greylisted"
    sender = parse_server(f"smtp://127.0.0.1:{server.port}?tls=none")
    ledger.notifier = SmtpNotifier(sender, "payments@shop.example", timeout_s=60.0)
    day = (datetime.now(MEXICO) + timedelta(days=30)).replace(hour=23, minute=59, second=0, microsecond=0)
    due = day.astimezone(UTC)
    owed = (await create_order(ledger, merchant, an_order("owed", due_date=due))).order.terms.order_id
    paid = (await create_order(ledger, merchant, an_order("paid", due_date=due))).order.terms.order_id
    await create_order(ledger, merchant, an_order("no due date"))

    async with ClockAdvancer(database_url, ledger, REACTIONS, HANDLERS) as advancer:

        async def pass_time(until: datetime) -> int:
            return (await advancer.advance(merchant.merchant_id, "advanceTo", lambda _: until)).jobs_run

        first = (day - timedelta(days=3)).replace(hour=9, minute=0)
        assert await pass_time(first - timedelta(seconds=1)) == 0
        assert await pass_time(first) == 2
        assert server.mails == []
        await charge_order(ledger, merchant, "paid", by_card())
        server.replies.clear()
        assert await pass_time(first + timedelta(hours=1)) == 2  # one is sent, that of the paid order is dropped
        assert [mail["Subject"].split(":")[0] for mail in server.mails] == ["Recordatorio de pago"]
        assert await pass_time(due) == 1
        assert len(server.mails) == 2
        assert await pass_time(due + timedelta(days=40)) == 2
        assert await pass_time(due + timedelta(days=80)) == 0
    assert [mail["Subject"].split(":")[0] for mail in server.mails] == [*["Recordatorio de pago"] * 2, "Pago vencido"]
    assert len({mail["Message-ID"] for mail in server.mails}) == 3
    assert rows(database_url, "select count(*) from due_time where kind = 'REMINDER'") == [(0,)]
    recorded = await ledger.journal.reader.stream(merchant.merchant_id, owed)
    assert [type(event).__name__ for event in recorded if isinstance(event, ReminderEvent)] == [
        "RemindersScheduled",
        *["ReminderDue", "ReminderRequested", "ReminderPostponed", "ReminderRequested", "ReminderSent"],
        *["ReminderDue", "ReminderRequested", "ReminderSent"],
        *["ReminderDue", "ReminderRequested", "ReminderSent"],
    ]
    dropped = (await ledger.journal.reader.stream(merchant.merchant_id, paid))[-1]
    assert dropped.because == "NOTHING_OWED"


async def test_only_an_order_with_a_due_date_that_owes_money_has_a_timer(
    ledger: Ledger, merchant: Actor, jobs: Jobs, connection: Connection, database_url: str
) -> None:
    due = datetime.now(UTC) + timedelta(days=30)
    owed = (await create_order(ledger, merchant, an_order("owed", due_date=due))).order
    await create_order(ledger, merchant, an_order("paid at once", by_card(), due_date=due))
    await create_order(ledger, merchant, an_order("no due date"))
    await create_order(ledger, merchant, an_order("past", due_date=due - timedelta(days=60)))
    dispatcher = Dispatcher(ledger.journal, jobs, REACTIONS)
    assert await dispatcher.sweep(connection)
    stored = "select stream_id, payment_id from due_time where kind = 'REMINDER'"
    assert rows(database_url, stored) == [(owed.terms.order_id, owed.terms.order_id)]
    await charge_order(ledger, merchant, "owed", by_card())
    assert await dispatcher.sweep(connection)
    assert rows(database_url, stored) == []
