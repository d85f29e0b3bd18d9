"""What follows from events is written exactly once, by any number of dispatchers, and wherever one of them is
killed.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from datetime import timedelta

import psycopg
import pytest
from tests.background.conftest import LOOK_AFTER, Done, LookAfter, Open, register, rows, worker_connection
from tests.metric_values import JobsCounted
from tests.operations.conftest import an_order, by_card

from ledger.background.reactions.dispatcher import Dispatcher
from ledger.background.scheduler import timers
from ledger.background.scheduler.jobs import Jobs
from ledger.operations.context.inputs import Actor
from ledger.operations.context.ledger import Ledger
from ledger.operations.orders.create import create_order
from ledger.postgres.connection import Connection

pytestmark = pytest.mark.anyio


async def orders(ledger: Ledger, actor: Actor, count: int) -> set[str]:
    made = await asyncio.gather(*[create_order(ledger, actor, an_order(str(n), by_card())) for n in range(count)])
    return {str(receipt.order.terms.order_id) for receipt in made}


def due(url: str) -> list[str]:
    return [str(stream) for (stream,) in rows(url, "select stream_id from due_time order by stream_id")]


def enqueued(url: str) -> list[str]:
    query = "select thing->>1 from procrastinate_jobs, jsonb_array_elements(args->'things') thing order by 1"
    return [stream for (stream,) in rows(url, query)]


def cursors(url: str) -> list[tuple[int, int]]:
    return rows(url, "select c.position, h.position from reaction_cursor c join merchant_head h using (merchant_id)")


async def make_all_due(connection: Connection) -> None:
    await connection.execute("update due_time set due_at = now() - interval '1 minute'")


async def test_every_order_has_a_timer_and_the_cursor_is_at_the_end_of_the_log(
    ledger: Ledger, merchant: Actor, dispatcher: Dispatcher, connection: Connection, database_url: str
) -> None:
    made = await orders(ledger, merchant, 3)
    assert await dispatcher.sweep(connection)
    assert set(due(database_url)) == made
    assert [position == head for position, head in cursors(database_url)] == [True]
    again = rows(database_url, "select kind, due_at from due_time")
    assert await dispatcher.sweep(connection)
    assert rows(database_url, "select kind, due_at from due_time") == again
    assert {kind for kind, _ in again} == {LOOK_AFTER}


async def test_two_dispatchers_and_two_schedulers_at_once_make_one_job_of_every_order(
    ledger: Ledger, open_another: Open, jobs: Jobs, stack: AsyncExitStack, database_url: str
) -> None:
    merchants = [await register(ledger) for _ in range(6)]
    expected: set[str] = set()
    ends = [asyncio.Event() for _ in range(4)]

    async def dispatch(end: asyncio.Event) -> None:
        connection = await worker_connection(database_url, stack)
        another = Dispatcher((await open_another()).journal, jobs, [LookAfter()])
        while not end.is_set() or not await another.sweep(connection):
            await another.sweep(connection)
            await asyncio.sleep(0.001)

    async def take(end: asyncio.Event) -> None:
        connection = await worker_connection(database_url, stack)
        while not end.is_set():
            await make_all_due(connection)
            await timers.enqueue_due(connection, jobs)

    running = [asyncio.create_task(dispatch(end)) for end in ends[:2]]
    taking = [asyncio.create_task(take(end)) for end in ends[2:]]
    for _ in range(3):
        for actor in merchants:
            made = await asyncio.gather(
                *[create_order(ledger, actor, an_order(f"{len(expected)}-{n}", by_card())) for n in range(10)]
            )
            expected |= {str(receipt.order.terms.order_id) for receipt in made}
    for end in ends[:2]:
        end.set()
    await asyncio.gather(*running)
    for end in ends[2:]:
        end.set()
    await asyncio.gather(*taking)
    connection = await worker_connection(database_url, stack)
    await make_all_due(connection)
    await timers.enqueue_due(connection, jobs)
    assert len(expected) == 180
    assert enqueued(database_url) == sorted(expected)
    assert due(database_url) == []


@pytest.mark.parametrize("point", ["due times written", "cursor moved"])
async def test_a_dispatcher_whose_connection_is_lost_before_its_commit_has_done_nothing(
    point: str,
    ledger: Ledger,
    merchant: Actor,
    jobs: Jobs,
    connection: Connection,
    stack: AsyncExitStack,
    database_url: str,
) -> None:
    made = await orders(ledger, merchant, 2)
    doomed = await worker_connection(database_url, stack)
    dispatcher = Dispatcher(ledger.journal, jobs, [LookAfter()])
    execute = doomed.execute

    async def cut_off(query, *args, **named):  # type: ignore[no-untyped-def]
        moves = "update reaction_cursor" in str(query)
        if not (moves and point == "due times written"):
            result = await execute(query, *args, **named)
        if moves:
            await connection.execute("select pg_terminate_backend(%s)", [doomed.info.backend_pid])
            return await execute("select 1")
        return result

    doomed.execute = cut_off  # type: ignore[method-assign]
    with pytest.raises(psycopg.OperationalError):
        await dispatcher.sweep(doomed)
    assert (due(database_url), [position for position, _ in cursors(database_url)]) == ([], [0])
    await dispatcher.sweep(connection)
    assert set(due(database_url)) == made


async def test_a_timer_is_deleted_in_the_commit_of_its_job_or_not_at_all(
    ledger: Ledger, merchant: Actor, dispatcher: Dispatcher, jobs: Jobs, connection: Connection, stack: AsyncExitStack,
    database_url: str,
) -> None:  # fmt: skip
    made = await orders(ledger, merchant, 2)
    await dispatcher.sweep(connection)
    await make_all_due(connection)
    doomed = await worker_connection(database_url, stack)
    enqueue = jobs.enqueue

    async def cut_off(which: Connection, ready) -> None:  # type: ignore[no-untyped-def]
        await enqueue(which, ready)
        await connection.execute("select pg_terminate_backend(%s)", [which.info.backend_pid])
        await which.execute("select 1")

    jobs.enqueue = cut_off  # type: ignore[method-assign, assignment]
    with pytest.raises(psycopg.OperationalError):
        await timers.enqueue_due(doomed, jobs)
    jobs.enqueue = enqueue  # type: ignore[method-assign]
    assert (set(due(database_url)), enqueued(database_url)) == (made, [])
    assert await timers.enqueue_due(connection, jobs) == 2
    assert (due(database_url), set(enqueued(database_url))) == ([], made)


async def test_a_timer_that_is_due_by_a_clock_ahead_becomes_a_job_once_the_clock_is_not_leased(
    ledger: Ledger, dispatcher: Dispatcher, jobs: Jobs, connection: Connection, database_url: str
) -> None:
    ahead, moving, other = [await register(ledger) for _ in range(3)]
    made = {actor.merchant_id: await orders(ledger, actor, 2) for actor in (ahead, moving, other)}
    await dispatcher.sweep(connection)
    clocks = "insert into merchant_clock (merchant_id, ahead_us, moving_until) values (%s, 7200000000, now() + %s)"
    await connection.execute(clocks, [ahead.merchant_id, timedelta(seconds=-1)])
    await connection.execute(clocks, [moving.merchant_id, timedelta(hours=1)])
    assert await timers.enqueue_due(connection, jobs) == 2
    assert set(enqueued(database_url)) == made[ahead.merchant_id]
    await connection.execute("update merchant_clock set moving_until = null")
    assert await timers.enqueue_due(connection, jobs) == 2
    assert set(due(database_url)) == made[other.merchant_id]


async def test_jobs_run_once_and_leave_the_queue(
    ledger: Ledger,
    merchant: Actor,
    dispatcher: Dispatcher,
    jobs: Jobs,
    connection: Connection,
    done: Done,
    database_url: str,
) -> None:
    made = await orders(ledger, merchant, 5)
    await dispatcher.sweep(connection)
    await make_all_due(connection)
    await timers.enqueue_due(connection, jobs)
    await asyncio.gather(*[jobs.run_all_of(connection, merchant.merchant_id) for _ in range(2)])
    assert sorted(map(str, done.streams)) == sorted(made)
    assert enqueued(database_url) == []


async def test_a_job_that_fails_waits_and_is_tried_again(
    ledger: Ledger,
    merchant: Actor,
    dispatcher: Dispatcher,
    jobs: Jobs,
    connection: Connection,
    done: Done,
    database_url: str,
) -> None:
    async def fails(*_: object) -> None:
        raise RuntimeError("not yet")

    await orders(ledger, merchant, 1)
    await dispatcher.sweep(connection)
    await make_all_due(connection)
    await timers.enqueue_due(connection, jobs)
    jobs._handlers = {LOOK_AFTER: fails}
    counted = JobsCounted()
    await jobs.run_all_of(connection, merchant.merchant_id)
    waiting = rows(database_url, "select status::text, attempts, scheduled_at > now() from procrastinate_jobs")
    assert (waiting, counted()) == ([("todo", 1, True)], (0, 1, 0))
    await connection.execute("update procrastinate_jobs set scheduled_at = now(), attempts = 39")
    await jobs.run_all_of(connection, merchant.merchant_id)
    kept = rows(database_url, "select status::text from procrastinate_jobs")
    assert (kept, counted()) == ([("failed",)], (0, 1, 1))


async def test_jobs_of_a_killed_worker_are_taken_over(
    ledger: Ledger, merchant: Actor, dispatcher: Dispatcher, jobs: Jobs, connection: Connection, done: Done
) -> None:
    made = await orders(ledger, merchant, 1)
    await dispatcher.sweep(connection)
    await make_all_due(connection)
    await timers.enqueue_due(connection, jobs)
    worker = await (
        await connection.execute("insert into procrastinate_workers default values returning id")
    ).fetchone()
    assert worker is not None
    await connection.execute("update procrastinate_jobs set status = 'doing', worker_id = %s", worker)
    await jobs.requeue_stalled()
    assert done.times == [], "its worker still lives"
    await connection.execute("update procrastinate_workers set last_heartbeat = now() - %s", [timedelta(minutes=1)])
    await jobs.requeue_stalled()
    await jobs.run_all_of(connection, merchant.merchant_id)
    assert list(map(str, done.streams)) == list(made)


async def test_a_range_that_another_dispatcher_has_locked_is_left_to_it(
    ledger: Ledger, merchant: Actor, jobs: Jobs, connection: Connection, stack: AsyncExitStack, database_url: str
) -> None:
    made = await orders(ledger, merchant, 2)
    first = await worker_connection(database_url, stack)
    dispatcher = Dispatcher(ledger.journal, jobs, [LookAfter()])
    execute, meanwhile = first.execute, []

    async def locked(query, *args, **named):  # type: ignore[no-untyped-def]
        if "update reaction_cursor" in str(query):
            meanwhile.append(await dispatcher.sweep(connection))
            await make_all_due(connection)
            await timers.enqueue_due(connection, jobs)
        return await execute(query, *args, **named)

    first.execute = locked  # type: ignore[method-assign]
    assert await dispatcher.sweep(first)
    assert meanwhile == [False]
    await make_all_due(connection)
    await timers.enqueue_due(connection, jobs)
    assert enqueued(database_url) == sorted(made)


async def test_merchants_after_a_locked_one_are_dispatched(
    ledger: Ledger, dispatcher: Dispatcher, connection: Connection, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ledger.background.reactions.dispatcher._AT_ONCE", 1)
    merchants = sorted([await register(ledger) for _ in range(3)], key=lambda actor: actor.merchant_id)
    assert await dispatcher.sweep(connection)
    made = [await orders(ledger, actor, 1) for actor in merchants]
    with psycopg.connect(database_url) as holding:
        holding.execute("select from reaction_cursor where merchant_id = %s for update", [merchants[0].merchant_id])
        assert not await dispatcher.sweep(connection)
        assert set(due(database_url)) == made[1] | made[2]
    assert await dispatcher.sweep(connection)
    assert set(due(database_url)) == made[0] | made[1] | made[2]
