"""A merchant with a slow processor and much pending work: another merchant's work is done meanwhile.

`pytest -m long -s tests/background/test_fairness.py` prints how long another merchant's work takes beside 10,000 pieces
of the first one's. SLOW_S in the environment lets each call of the first merchant end after so many seconds.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import psycopg
import pytest
from structlog.testing import capture_logs
from tests.background.conftest import LOOK_AFTER, NO_PAYMENT, register, rows, worker_connection
from tests.operations.conftest import SILENT, an_order, by_card
from uuid_utils.compat import uuid7

from ledger.background import erasure, recovery
from ledger.background.effects import EnqueueJob
from ledger.background.erasure import ErasureSweep
from ledger.background.inbox.consumer import Applied, InboxConsumer
from ledger.background.inbox.delivery import InboxDelivery
from ledger.background.reactions.dispatcher import Dispatcher
from ledger.background.reactions.runner import ReactionRunner
from ledger.background.recovery import Recovery, Windows
from ledger.background.scheduler.jobs import Jobs
from ledger.operations.context.inputs import Actor
from ledger.operations.context.ledger import Ledger
from ledger.operations.orders.create import create_order
from ledger.processors import messages
from ledger.processors.contract import LookUpRequest
from ledger.processors.inbox_store import Inbox
from ledger.processors.messages import DisputeOpened
from projections.erasures import Erasures
from projections.orders.open_calls import OpenCalls

pytestmark = pytest.mark.anyio

_SLOW_S = float(os.environ.get("SLOW_S", "3600"))
_OTHERS = 20

Part = Callable[[asyncio.Event], Awaitable[None]]


class Setting:
    """Two merchants on one ledger. Every call about `slow` takes `_SLOW_S`, until the test ends."""

    def __init__(self, url: str, ledger: Ledger, stack: AsyncExitStack, slow: UUID, other: UUID, pending: int) -> None:
        self.url, self.ledger, self.stack = url, ledger, stack
        self.slow, self.other, self.pending = slow, other, pending
        self.begun, self._ends = asyncio.Event(), asyncio.Event()

    async def call(self, merchant_id: UUID) -> None:
        if merchant_id == self.slow:
            self.begun.set()
            try:
                await asyncio.wait_for(self._ends.wait(), _SLOW_S)
            except TimeoutError:
                return
            raise RuntimeError("the test has ended")

    def end(self) -> None:
        self._ends.set()

    def execute(self, statement: str, *values: Any) -> None:
        with psycopg.connect(self.url, options="-c search_path=public,public_jobs", autocommit=True) as connection:
            connection.execute(statement, values)  # type: ignore[arg-type]

    def count(self, query: str, *values: Any) -> int:
        [(count,)] = rows(self.url, query, *values)
        return int(count)

    async def until(self, query: str, count: int, *values: Any) -> None:
        while self.count(query, *values) != count:  # noqa: ASYNC110 - a table sends no event
            await asyncio.sleep(0.01)


class Messages:
    """Messages of a processor whose handling calls the processor."""

    pending = "select count(*) from processor_message where merchant_id = %s and handled_at is null"

    def __init__(self, setting: Setting) -> None:
        self._in = setting

    async def parts(self) -> Sequence[Part]:
        self._inbox = await self._in.stack.enter_async_context(Inbox(self._in.url, lease_s=3600))
        consumer = InboxConsumer(self._inbox, {DisputeOpened: self._take})
        return [InboxDelivery(self._in.ledger, self._inbox, consumer, None).run]

    async def _take(self, message: DisputeOpened) -> Applied:
        await self._in.call(message.merchant_id)
        return Applied()

    def _message(self, merchant_id: UUID) -> DisputeOpened:
        fields = {"processor": "p", "message_id": uuid7().hex, "occurred_at": datetime.now(UTC), "order_id": uuid7()}
        amount = Decimal(1)
        return DisputeOpened(merchant_id=merchant_id, dispute_id="d", processor_reference="r", amount=amount, **fields)

    async def fill(self) -> None:
        self._in.execute(
            """
            insert into processor_message (processor, merchant_id, message_id, order_id, body)
            select 'p', %s, n::text, gen_random_uuid(), replace(%s, 'ID', n::text) from generate_series(1, %s) n
            """,
            self._in.slow,
            messages.encode(self._message(self._in.slow)).decode().replace('"messageId":"', '"messageId":"ID'),
            self._in.pending,
        )

    async def one(self) -> None:
        message = self._message(self._in.other)
        await self._inbox.receive(message)
        await self._in.until(self.pending, 0, self._in.other)


class LookUps:
    """Calls without an outcome, which the recovery looks up at the processor."""

    pending = "select count(*) from payment_order where merchant_id = %s and call_deadline_at < now()"

    def __init__(self, setting: Setting) -> None:
        self._in = setting

    async def parts(self) -> Sequence[Part]:
        calls = await self._in.stack.enter_async_context(OpenCalls(self._in.url))
        windows = Windows(margin_s=-3600, late_s=3600, look_up_s=3600, poll_s=0.05)
        return [Recovery(self._in.ledger, calls.due, windows).run]

    async def fill(self) -> None:
        ledger, slow = self._in.ledger, self._in.slow
        for n in range(_OTHERS):
            await create_order(ledger, self._actor(self._in.other), an_order(str(n), by_card(SILENT)))
        order = (await create_order(ledger, self._actor(slow), an_order("1", by_card(SILENT)))).order
        self._in.execute("update payment_order set call_deadline_at = now() + interval '1 day'")
        self._in.execute(
            """
            insert into payment_order select (jsonb_populate_record(o, jsonb_build_object(
              'order_id', gen_random_uuid(), 'call_deadline_at', now() - interval '1 hour'))).*
              from payment_order o, generate_series(1, %s) where merchant_id = %s
            """,
            self._in.pending,
            slow,
        )
        load, look_up = recovery.load_order, ledger.processors.sandbox.look_up  # type: ignore[union-attr, attr-defined]

        async def load_copy(ledger: Ledger, merchant_id: UUID, order_id: UUID) -> Any:
            return order if merchant_id == slow else await load(ledger, merchant_id, order_id)

        async def look_up_slowly(request: LookUpRequest) -> Any:
            await self._in.call(request.merchant_id)
            return await look_up(request)

        recovery.load_order = load_copy  # type: ignore[attr-defined]
        self._in.stack.callback(setattr, recovery, "load_order", load)
        ledger.processors.sandbox.look_up = look_up_slowly  # type: ignore[union-attr, method-assign, assignment]

    def _actor(self, merchant_id: UUID) -> Actor:
        return Actor(merchant_id=merchant_id, request_id="test")

    async def one(self) -> None:
        other = self._in.other
        self._in.execute(
            """
            update payment_order set call_deadline_at = now() - interval '1 second' where (merchant_id, order_id) in (
              select merchant_id, order_id from payment_order
               where merchant_id = %s and call_deadline_at is not null limit 1)
            """,
            other,
        )
        await self._in.until(self.pending, 0, other)


class Tasks:
    """Due work that calls the processor: a hundred tasks in each job."""

    pending = """
        select coalesce(sum(jsonb_array_length(args->'things')), 0) from procrastinate_jobs
         where queue_name = replace(%s::text, '-', '')
    """

    def __init__(self, setting: Setting) -> None:
        self._in = setting

    async def parts(self) -> Sequence[Part]:
        self._connection = await worker_connection(self._in.url, self._in.stack)
        self._jobs = await self._in.stack.enter_async_context(
            Jobs(self._in.url, self._in.ledger, {LOOK_AFTER: self._do})
        )
        return [self._jobs.run]

    async def _do(self, _: Ledger, merchant_id: UUID, *__: Any) -> None:
        await self._in.call(merchant_id)

    def _task(self) -> EnqueueJob:
        return EnqueueJob(LOOK_AFTER, uuid7(), NO_PAYMENT, datetime.now(UTC) - timedelta(minutes=1))

    async def fill(self) -> None:
        await self._jobs.enqueue(self._connection, [(self._in.slow, self._task()) for _ in range(self._in.pending)])

    async def one(self) -> None:
        await self._jobs.enqueue(self._connection, [(self._in.other, self._task())])
        await self._in.until(self.pending, 0, self._in.other)


class SingleTasks(Tasks):
    """Due work that has failed before: each task is a job of its own, half of them waiting for their next attempt."""

    async def fill(self) -> None:
        self._in.execute(
            """
            insert into procrastinate_jobs (queue_name, task_name, lock, args, scheduled_at)
            select replace(merchant, '-', ''), 'ledger.due', stream, jsonb_build_object('merchant_id', merchant,
                   'things', jsonb_build_array(jsonb_build_array(kind, stream, stream, now()::text))),
                   case when mod(n, 2) = 0 then now() + interval '1 hour' end
              from (select n, gen_random_uuid()::text as stream, %s::text as merchant, %s::text as kind
                      from generate_series(1, %s) n) task
            """,
            str(self._in.slow),
            LOOK_AFTER,
            self._in.pending,
        )


class Timers(Tasks):
    """Timers that are due, which become jobs, which call the processor."""

    pending = """
        select (select count(*) from due_time where merchant_id = %s) + (
          select coalesce(sum(jsonb_array_length(args->'things')), 0) from procrastinate_jobs
           where queue_name = replace(%s::text, '-', ''))
    """

    async def parts(self) -> Sequence[Part]:
        parts = await super().parts()
        return [
            *parts,
            ReactionRunner(self._in.url, Dispatcher(self._in.ledger.journal, self._jobs, []), self._jobs).run,
        ]

    async def fill(self) -> None:
        self._add(self._in.slow, self._in.pending)

    async def one(self) -> None:
        self._add(self._in.other, 1)
        await self._in.until(self.pending, 0, self._in.other, self._in.other)

    def _add(self, merchant_id: UUID, count: int) -> None:
        self._in.execute(
            """
            insert into due_time (merchant_id, kind, stream_id, payment_id, due_at)
            select %s, %s, gen_random_uuid(), %s, now() - interval '1 minute' from generate_series(1, %s)
            """,
            merchant_id,
            LOOK_AFTER,
            NO_PAYMENT,
            count,
        )


class UnfinishedErasures:
    """Erasures that were interrupted. A merchant is slow here when its orders are."""

    pending = (
        "select count(*) from data_key where merchant_id = %s and destroyed_at is not null and forgotten_at is null"
    )

    def __init__(self, setting: Setting) -> None:
        self._in = setting

    async def parts(self) -> Sequence[Part]:
        erasures = await self._in.stack.enter_async_context(Erasures(self._in.url))

        async def orders_of(merchant_id: UUID, customer_id: UUID, after: UUID, limit: int) -> Sequence[UUID]:
            await self._in.call(merchant_id)
            return await erasures.orders_of(merchant_id, customer_id, after, limit)

        return [ErasureSweep(self._in.ledger, erasures.unfinished, orders_of, erasures.finished).run]

    async def fill(self) -> None:
        self._in.stack.callback(setattr, erasure, "_POLL_S", erasure._POLL_S)
        erasure._POLL_S = 0.05  # type: ignore[misc]
        self._add(self._in.slow, self._in.pending)

    async def one(self) -> None:
        self._add(self._in.other, 1)
        await self._in.until(self.pending, 0, self._in.other)

    def _add(self, merchant_id: UUID, count: int) -> None:
        self._in.execute(
            "insert into data_key (merchant_id, customer_id, destroyed_at) "
            "select %s, gen_random_uuid(), now() from generate_series(1, %s)",
            merchant_id,
            count,
        )


@pytest.mark.parametrize("pending", [300, *(pytest.param(count, marks=pytest.mark.long) for count in (1_500, 10_000))])
@pytest.mark.parametrize("kind", [Messages, LookUps, Tasks, SingleTasks, Timers, UnfinishedErasures])
async def test_a_merchant_with_a_slow_processor_and_much_pending_work_delays_no_other(
    kind: type[Any], pending: int, ledger: Ledger, database_url: str, stack: AsyncExitStack
) -> None:
    slow, other = [(await register(ledger)).merchant_id for _ in range(2)]
    setting = Setting(database_url, ledger, stack, slow, other, pending)
    work = kind(setting)
    parts = await work.parts()
    await work.fill()
    stop, seconds = asyncio.Event(), []
    with capture_logs():
        running = [asyncio.create_task(part(stop)) for part in parts]
        try:
            async with asyncio.timeout(300):
                await setting.begun.wait()
                for _ in range(_OTHERS):
                    began = time.perf_counter()
                    await work.one()
                    seconds.append(time.perf_counter() - began)
            left = setting.count(work.pending, *[slow] * work.pending.count("%s"))
        finally:
            setting.end()
            stop.set()
            await asyncio.gather(*running, return_exceptions=True)
    p50, *_, p99 = sorted(seconds)[_OTHERS // 2 :]
    print(f"{kind.__name__}: {left} of {pending} pending, other p50 {p50:.3f} s, p99 {p99:.3f} s")  # noqa: T201 - what it measures
    if _SLOW_S >= 3600:
        assert left == pending, "nothing of the slow merchant was done meanwhile"
