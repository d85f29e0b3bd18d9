"""A sweep shows each reaction the events of its topics once, in any number of ranges and beside other dispatchers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import AsyncExitStack
from uuid import UUID

import psycopg
import pytest
from tests.background.conftest import LookAfter, register, rows, worker_connection
from tests.background.test_dispatcher import cursors, due, enqueued, make_all_due, orders
from tests.domain.builders import NOON
from tests.operations.conftest import an_order, by_card

from ledger.background.effects import Effect, EnqueueJob
from ledger.background.reactions.dispatcher import Dispatcher
from ledger.background.scheduler import timers
from ledger.background.scheduler.jobs import Jobs
from ledger.journal.reader import SeenEvent
from ledger.operations.context.inputs import Actor
from ledger.operations.context.ledger import Ledger
from ledger.operations.orders.create import create_order
from ledger.postgres.connection import Connection

pytestmark = pytest.mark.anyio


class Noted:
    """Records what it is shown, by position and topic, and enqueues a job for each event."""

    def __init__(self, name: str, *topics: str) -> None:
        self.name = name
        self.topics = frozenset(topics)
        self.shown: list[tuple[int, str]] = []

    def react(self, recorded: SeenEvent) -> Iterable[Effect]:
        self.shown.append((recorded.position, recorded.topic))
        yield EnqueueJob(self.name, recorded.stream_id, UUID(int=recorded.position), NOON)


async def test_one_sweep_shows_each_reaction_all_events_of_its_topics_once(
    ledger: Ledger, jobs: Jobs, connection: Connection, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for limit, size in (("_AT_ONCE", 4), ("_EVENTS_AT_ONCE", 3), ("_BEHIND_MAX", 5)):
        monkeypatch.setattr(f"ledger.background.reactions.dispatcher.{limit}", size)
    some = Noted("some", "order-created.v1", "payment-captured.v1")
    other = Noted("other", "order-created.v1", "payment-authorized.v1")
    for reactions in ([some], [some, other]):  # the cursor of `some` is far ahead of the one of `other`
        for _ in range(3):
            await orders(ledger, await register(ledger), 2)
        assert await Dispatcher(ledger.journal, jobs, reactions).sweep(connection)
    for reaction in (some, other):
        logged = rows(database_url, "select position, topic from event where topic = any(%s)", list(reaction.topics))
        assert len(logged) == 24
        assert sorted(reaction.shown) == sorted(logged)
    assert len(enqueued(database_url)) == 48


async def test_a_cursor_that_another_dispatcher_moves_during_the_statement_does_not_go_back(
    ledger: Ledger, merchant: Actor, jobs: Jobs, connection: Connection, stack: AsyncExitStack, database_url: str
) -> None:
    made = await orders(ledger, merchant, 1)
    late, dispatcher = await worker_connection(database_url, stack), Dispatcher(ledger.journal, jobs, [LookAfter()])
    execute = late.execute

    async def held_up(query, *args, **named):  # type: ignore[no-untyped-def]
        # The statement sees the log as it is now, and the cursor as it is when the lock is free.
        slowly = "where (select pg_advisory_xact_lock_shared(1)) is not null and (reaction,"
        return await execute(str(query).replace("where (reaction,", slowly), *args, **named)

    late.execute = held_up  # type: ignore[method-assign]
    with psycopg.connect(database_url) as holding:
        holding.execute("select pg_advisory_xact_lock(1)")
        sweeping = asyncio.create_task(dispatcher.sweep(late))
        while not rows(database_url, "select from pg_locks where pid = %s and not granted", late.info.backend_pid):
            assert not sweeping.done()
            await asyncio.sleep(0.01)
        made.add(str((await create_order(ledger, merchant, an_order("another", by_card()))).order.terms.order_id))
        assert await dispatcher.sweep(connection)
        await make_all_due(connection)
        await timers.enqueue_due(connection, jobs)
    assert await sweeping
    assert [position == head for position, head in cursors(database_url)] == [True]
    assert await dispatcher.sweep(connection)
    assert (due(database_url), enqueued(database_url)) == ([], sorted(made))


async def test_after_a_full_batch_the_timers_of_each_merchant_are_taken_in_turn(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timers, "_AT_ONCE", 10)
    busy, other = UUID(int=1), UUID(int=2)
    batches: list[list[UUID]] = []

    class Noting:
        async def enqueue(self, _: Connection, due: list[tuple[UUID, EnqueueJob]]) -> None:
            batches.append([merchant_id for merchant_id, _ in due])

    for merchant_id, count, minutes in ((busy, 35, 60), (other, 3, 1)):
        await connection.execute(
            """
            insert into due_time (merchant_id, kind, stream_id, payment_id, due_at)
            select %s, 'test', gen_random_uuid(), gen_random_uuid(), now() - make_interval(mins => %s)
              from generate_series(1, %s)
            """,
            (merchant_id, minutes, count),
        )
    assert await timers.enqueue_due(connection, Noting()) == 38  # type: ignore[arg-type]
    assert [batch.count(other) for batch in batches] == [0, 3, 0, 0]
    assert [len(batch) for batch in batches] == [10, 10, 10, 8]
