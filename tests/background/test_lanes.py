"""Messages and renewals have a lane each: a mail server without an answer, or renewals that wait for their pace, delay
no other work, of no merchant.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from tests.background.conftest import LOOK_AFTER, NO_PAYMENT, Done, rows
from tests.operations.conftest import an_order
from tests.operations.test_reminders import to_the_reminder
from tests.operations.test_timers import Ahead
from uuid_utils.compat import uuid7

from ledger.background.effects import EnqueueJob
from ledger.background.pace import Pace
from ledger.background.reactions.registry import HANDLERS
from ledger.background.scheduler.jobs import Jobs
from ledger.background.scheduler.lanes import MAIL_KINDS, MAILS_AT_ONCE, PACED_KINDS, RENEWALS_AT_ONCE
from ledger.domain.invoices.due import InvoiceTimerKind
from ledger.domain.orders.timers import REMINDER
from ledger.domain.subscriptions.notices import NOTICE
from ledger.notifications.contract import Notification
from ledger.operations.context.inputs import Actor
from ledger.operations.context.ledger import Ledger
from ledger.operations.orders.create import create_order
from ledger.postgres.connection import Connection

pytestmark = pytest.mark.anyio

RUNNING = "select count(*) from procrastinate_jobs where status = 'doing' and right(queue_name, 5) = '-mail'"


class Silent:
    """A notifier that never answers. `begun` counts the messages that it was asked to send."""

    name, timeout_s = "silent", 3600.0

    def __init__(self) -> None:
        self.begun = 0
        self.go_on = asyncio.Event()

    async def send(self, notification: Notification, within_s: float) -> None:  # noqa: ARG002 - the contract's
        self.begun += 1
        await self.go_on.wait()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - the jobs send no event
            await asyncio.sleep(0.02)


def test_the_kinds_with_messages_are_those_that_have_a_handler() -> None:
    assert {REMINDER, NOTICE, InvoiceTimerKind.MAIL} == MAIL_KINDS
    assert HANDLERS.keys() > MAIL_KINDS | PACED_KINDS


async def test_a_mail_server_without_an_answer_holds_up_no_other_work(
    ledger: Ledger, merchant: Actor, jobs: Jobs, connection: Connection, done: Done, database_url: str
) -> None:
    due_at = datetime.now(UTC) - timedelta(minutes=1)
    terms = {"due_date": datetime.now(UTC) + timedelta(days=10)}
    orders = [(await create_order(ledger, merchant, an_order(str(n), **terms))).order.terms.order_id for n in range(9)]
    ledger.clock = Ahead(to_the_reminder())
    silent = ledger.notifier = Silent()
    begun: list[UUID] = []

    async def never_ends(_: Ledger, merchant_id: UUID, *__: object) -> None:
        begun.append(merchant_id)
        await silent.go_on.wait()

    jobs._handlers = {REMINDER: HANDLERS[REMINDER], NOTICE: never_ends, LOOK_AFTER: done}
    mails = [(merchant.merchant_id, EnqueueJob(REMINDER, order, order, due_at)) for order in orders]
    await jobs.enqueue(connection, mails)
    for other in [uuid7() for _ in range(10)]:  # more messages than jobs run at once
        for _ in range(4):
            await jobs.enqueue(connection, [(other, EnqueueJob(NOTICE, uuid7(), NO_PAYMENT, due_at))])
    stop = asyncio.Event()
    running = asyncio.create_task(jobs.run(stop))
    try:
        await until(lambda: jobs._queue._full_lanes())
        work = [EnqueueJob(LOOK_AFTER, orders[n % 2], NO_PAYMENT, due_at) for n in range(2)]
        for n in range(8):  # beside the messages of its merchant, and of others
            of = merchant.merchant_id if n % 2 else uuid7()
            await jobs.enqueue(connection, [(of, work[n % 2])])
        await until(lambda: len(done.streams) == 8)
        assert 0 < len(begun) + silent.begun <= MAILS_AT_ONCE
        [(at_once,)] = rows(database_url, RUNNING)  # without other work, which may not have been deleted yet
        assert 0 < at_once <= MAILS_AT_ONCE
    finally:
        silent.go_on.set()
        stop.set()
        await running


async def test_renewals_that_wait_for_their_pace_hold_up_no_other_work(
    ledger: Ledger, connection: Connection, done: Done, database_url: str, stack: AsyncExitStack
) -> None:
    stop, due_at = asyncio.Event(), datetime.now(UTC) - timedelta(minutes=1)
    (renewal,) = PACED_KINDS
    renewed: list[UUID] = []

    async def renews(_: Ledger, merchant_id: UUID, *__: object) -> None:
        renewed.append(merchant_id)

    pace = Pace(PACED_KINDS, 1 / 2_600_000, stop)  # one a month
    handlers = {renewal: renews, LOOK_AFTER: done}
    jobs = await stack.enter_async_context(Jobs(database_url, ledger, handlers, pace=pace))
    for _ in range(2 * RENEWALS_AT_ONCE):  # merchants with one renewal each
        await jobs.enqueue(connection, [(uuid7(), EnqueueJob(renewal, uuid7(), NO_PAYMENT, due_at))])
    running = asyncio.create_task(jobs.run(stop))
    try:
        await until(lambda: bool(jobs._queue._full_lanes()))
        for _ in range(8):
            await jobs.enqueue(connection, [(uuid7(), EnqueueJob(LOOK_AFTER, uuid7(), NO_PAYMENT, due_at))])
        await until(lambda: len(done.streams) == 8)
        assert len(renewed) == 1
    finally:
        stop.set()
        await running
