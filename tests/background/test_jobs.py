"""A job of many tasks: each is done once, fails by itself, and is not lost when its worker ends in between."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from procrastinate.exceptions import ConnectorException
from psycopg.conninfo import make_conninfo
from tests.background.conftest import LOOK_AFTER, NO_PAYMENT, Done, register, rows
from tests.metric_values import JobsCounted
from tests.standbys import waiting_backends, without_standby
from uuid_utils.compat import uuid7

from ledger.background.effects import EnqueueJob
from ledger.background.scheduler import retry_policy
from ledger.background.scheduler.failed_jobs import failed_jobs, resume_given_up, retry_jobs
from ledger.background.scheduler.jobs import Jobs
from ledger.operations.context.inputs import Actor
from ledger.operations.context.ledger import Ledger
from ledger.postgres.connection import Connection

pytestmark = pytest.mark.anyio

JOBS = """
select status::text, attempts, coalesce(scheduled_at > now(), false), jsonb_array_elements(args->'things')->>1
  from procrastinate_jobs order by id
"""


@pytest.fixture(autouse=True)
def long_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets no failed task run again by itself: on a busy machine half a second passes before a test looks."""
    monkeypatch.setattr(retry_policy, "back_off_s", lambda *_: 3600.0)


def tasks(count: int) -> list[EnqueueJob]:
    due_at = datetime.now(UTC) - timedelta(minutes=1)
    return [EnqueueJob(LOOK_AFTER, uuid7(), NO_PAYMENT, due_at) for _ in range(count)]


async def put(jobs: Jobs, connection: Connection, merchant: Actor, due: list[EnqueueJob]) -> None:
    await jobs.enqueue(connection, [(merchant.merchant_id, thing) for thing in due])


async def stall_workers(connection: Connection) -> None:
    """Makes the workers of all running jobs look as if they had stopped their heartbeat long ago."""
    worker = await connection.execute("insert into procrastinate_workers default values returning id")
    await connection.execute(
        "update procrastinate_jobs set status = 'doing', worker_id = %s where status = 'todo'", await worker.fetchone()
    )
    await connection.execute("update procrastinate_workers set last_heartbeat = now() - interval '1 minute'")


def failing(done: Done, *streams: UUID) -> Any:
    async def handler(ledger: Ledger, merchant_id: UUID, stream_id: UUID, payment_id: UUID, due_at: datetime) -> None:
        if stream_id in streams:
            raise RuntimeError("not yet")
        await done(ledger, merchant_id, stream_id, payment_id, due_at)

    return handler


async def test_a_hundred_tasks_of_a_merchant_are_one_job_and_each_is_done_once(
    merchant: Actor, jobs: Jobs, connection: Connection, done: Done, database_url: str
) -> None:
    due, counted = tasks(250), JobsCounted()
    await put(jobs, connection, merchant, due)
    assert rows(database_url, "select count(*) from procrastinate_jobs") == [(3,)]
    await asyncio.gather(*[jobs.run_all_of(connection, merchant.merchant_id) for _ in range(2)])
    assert sorted(done.streams) == sorted(thing.stream_id for thing in due)
    assert (rows(database_url, JOBS), counted()) == ([], (250, 0, 0))


async def test_a_task_waits_for_a_clock_that_is_a_little_behind_and_fails_where_it_is_far_behind(
    merchant: Actor, jobs: Jobs, connection: Connection, done: Done, database_url: str
) -> None:
    now, counted = datetime.now(UTC), JobsCounted()
    soon, later = (EnqueueJob(LOOK_AFTER, uuid7(), NO_PAYMENT, now + timedelta(seconds=s)) for s in (1, 60))
    await put(jobs, connection, merchant, [soon, later])
    await jobs.run_all_of(connection, merchant.merchant_id)
    assert done.streams == [soon.stream_id], "its handler would have found nothing due"
    assert rows(database_url, JOBS) == [("todo", 0, True, str(later.stream_id))]
    assert counted() == (1, 1, 0)


async def test_a_heartbeat_over_a_broken_connection_is_repeated(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    faults = [ConnectorException(), ConnectorException()]
    execute = jobs._connector.execute_query_async

    async def break_first(**arguments: Any) -> None:
        if faults:
            raise faults.pop()
        await execute(**arguments)

    monkeypatch.setattr(jobs._connector, "execute_query_async", break_first)
    await jobs._queue.update_heartbeat(1)
    assert not faults


async def test_a_task_that_fails_becomes_a_job_of_its_own_and_the_others_are_done(
    merchant: Actor, jobs: Jobs, connection: Connection, done: Done, database_url: str
) -> None:
    due, counted = tasks(5), JobsCounted()
    bad = [due[1].stream_id, due[3].stream_id]
    jobs._handlers = {LOOK_AFTER: failing(done, *bad)}
    await put(jobs, connection, merchant, due)
    await jobs.run_all_of(connection, merchant.merchant_id)
    assert set(done.streams) == {thing.stream_id for thing in due} - set(bad)
    assert rows(database_url, JOBS) == [("todo", 0, True, str(stream)) for stream in bad]
    assert counted() == (3, 2, 0)
    await connection.execute("update procrastinate_jobs set scheduled_at = now()")
    await jobs.run_all_of(connection, merchant.merchant_id)
    assert rows(database_url, JOBS) == [("todo", 1, True, str(stream)) for stream in bad]
    jobs._handlers = {LOOK_AFTER: done}
    await connection.execute("update procrastinate_jobs set scheduled_at = now()")
    await jobs.run_all_of(connection, merchant.merchant_id)
    assert (len(done.streams), rows(database_url, JOBS)) == (5, [])


async def test_tasks_of_one_stream_run_in_order_and_wait_for_an_earlier_one_that_failed(
    merchant: Actor, jobs: Jobs, connection: Connection, database_url: str
) -> None:
    first, other = tasks(2)
    second = EnqueueJob("second", first.stream_id, NO_PAYMENT, first.due_at)
    tried: list[tuple[str, UUID]] = []

    async def fails(_: Ledger, merchant_id: UUID, stream_id: UUID, payment_id: UUID, due_at: datetime) -> None:
        tried.append(("first", stream_id))
        if stream_id == first.stream_id:
            raise RuntimeError("not yet")

    async def does(_: Ledger, merchant_id: UUID, stream_id: UUID, payment_id: UUID, due_at: datetime) -> None:
        tried.append(("second", stream_id))

    jobs._handlers = {LOOK_AFTER: fails, "second": does}
    await put(jobs, connection, merchant, [first, second, other])
    await jobs.run_all_of(connection, merchant.merchant_id)
    assert sorted(tried) == sorted([("first", first.stream_id), ("first", other.stream_id)])
    assert rows(database_url, JOBS) == [("todo", 0, True, str(first.stream_id))] * 2
    await connection.execute("update procrastinate_jobs set scheduled_at = now()")
    await jobs.run_all_of(connection, merchant.merchant_id)
    assert ("second", first.stream_id) not in tried, "the one before it has not been done"


async def test_tasks_of_one_stream_in_several_jobs_run_one_after_another(
    merchant: Actor, jobs: Jobs, connection: Connection, database_url: str
) -> None:
    (first, *others), running, most, ran = tasks(5), 0, 0, 0
    all_begun, begun = asyncio.Event(), set[UUID]()

    async def handler(_: Ledger, __: UUID, stream_id: UUID, *___: Any) -> None:
        nonlocal running, most, ran
        if stream_id != first.stream_id:
            begun.add(stream_id)
            if len(begun) == len(others):
                all_begun.set()
            return
        running, most, ran = running + 1, max(most, running + 1), ran + 1
        await all_begun.wait()
        running -= 1

    jobs._handlers = {LOOK_AFTER: handler}
    for other in others:  # a timer that was set again while its job was pending
        await put(jobs, connection, merchant, [first, other])
    stop = asyncio.Event()
    worker = asyncio.create_task(jobs.run(stop))
    async with asyncio.timeout(60):
        while rows(database_url, "select from procrastinate_jobs"):  # noqa: ASYNC110 - a table sends no event
            await asyncio.sleep(0.02)
    stop.set()
    await worker
    assert (ran, most) == (4, 1)


async def test_a_worker_killed_within_a_job_leaves_all_of_it_to_others(
    merchant: Actor, jobs: Jobs, connection: Connection, done: Done
) -> None:
    due = tasks(20)
    await put(jobs, connection, merchant, due)
    await stall_workers(connection)
    await jobs.requeue_stalled()
    await jobs.run_all_of(connection, merchant.merchant_id)
    assert sorted(done.streams) == sorted(thing.stream_id for thing in due)


async def test_a_worker_killed_after_it_has_put_tasks_back_has_doubled_none(
    merchant: Actor, jobs: Jobs, connection: Connection, done: Done, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    due = tasks(3)
    jobs._handlers = {LOOK_AFTER: failing(done, due[0].stream_id)}
    await put(jobs, connection, merchant, due)
    finish = jobs._app.job_manager.finish_job

    async def dies(*_: object, **__: object) -> None:
        return

    monkeypatch.setattr(jobs._app.job_manager, "finish_job", dies)
    running = asyncio.create_task(jobs.run_all_of(connection, merchant.merchant_id))
    async with asyncio.timeout(30):
        while len(rows(database_url, JOBS)) != 1:  # noqa: ASYNC110 - a table sends no event
            await asyncio.sleep(0.01)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    monkeypatch.setattr(jobs._app.job_manager, "finish_job", finish)
    await connection.execute("update procrastinate_workers set last_heartbeat = now() - interval '1 minute'")
    await jobs.requeue_stalled()
    await jobs.run_all_of(connection, merchant.merchant_id)
    assert rows(database_url, JOBS) == [("todo", 0, True, str(due[0].stream_id))]
    assert rows(database_url, "select count(*) from procrastinate_jobs") == [(1,)]
    assert sorted(done.streams) == sorted(thing.stream_id for thing in due[1:])


async def test_a_worker_that_is_stopped_finishes_what_has_begun_and_puts_the_rest_back(
    merchant: Actor, jobs: Jobs, connection: Connection, database_url: str
) -> None:
    stop, begun, done = asyncio.Event(), [], []

    async def slow(_: Ledger, merchant_id: UUID, stream_id: UUID, payment_id: UUID, due_at: datetime) -> None:
        begun.append(stream_id)
        stop.set()
        await asyncio.sleep(0.2)
        done.append(stream_id)

    jobs._handlers = {LOOK_AFTER: slow}
    due = tasks(90)
    await put(jobs, connection, merchant, due)
    await asyncio.wait_for(jobs.run(stop), 60)
    assert begun
    assert done == begun
    left = rows(database_url, JOBS)
    assert {stream for *_, stream in left} == {str(thing.stream_id) for thing in due} - set(map(str, begun))
    assert len(left) == 90 - len(begun)
    assert {tuple(states) for *states, _ in left} == {("todo", 0, False)}


async def test_a_stop_whose_cancellation_is_lost_while_the_worker_begins_ends_it(
    jobs: Jobs, monkeypatch: pytest.MonkeyPatch, database_url: str
) -> None:
    """Before Python 3.12, asyncio.wait_for loses a cancellation that comes together with what it waits for."""
    stop, begin = asyncio.Event(), jobs._queue.register_worker

    async def begin_despite_a_cancellation() -> int:
        stop.set()
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(60)
        return await begin()

    monkeypatch.setattr(jobs._queue, "register_worker", begin_despite_a_cancellation)
    async with asyncio.timeout(60):
        await jobs.run(stop)
    assert rows(database_url, "select count(*) from procrastinate_workers") == [(0,)]


async def test_jobs_are_taken_in_turn_and_a_merchant_has_four_at_once(
    ledger: Ledger, jobs: Jobs, connection: Connection, done: Done, database_url: str
) -> None:
    busy, *others = sorted([(await register(ledger)).merchant_id for _ in range(3)], key=lambda one: one.hex)
    hang, stop, begun = asyncio.Event(), asyncio.Event(), Counter[UUID]()

    async def hangs(_: Ledger, merchant_id: UUID, stream_id: UUID, payment_id: UUID, due_at: datetime) -> None:
        begun[merchant_id] += 1
        if merchant_id == busy:
            await hang.wait()

    jobs._handlers = {LOOK_AFTER: hangs}
    for _ in range(20):  # each a job of its own
        await jobs.enqueue(connection, [(busy, *tasks(1))])
    running = asyncio.create_task(jobs.run(stop))
    async with asyncio.timeout(60):
        while begun[busy] < 4:  # noqa: ASYNC110 - a queue sends no event
            await asyncio.sleep(0.01)
        await jobs.enqueue(connection, [(merchant_id, *tasks(1)) for merchant_id in others])
        while begun.keys() != {busy, *others}:  # noqa: ASYNC110 - a queue sends no event
            await asyncio.sleep(0.01)
        assert begun[busy] == 4
        stop.set()
        hang.set()
        await running
    [(left,)] = rows(database_url, "select count(*) from procrastinate_jobs where status = 'todo'")
    assert begun == Counter({busy: 20 - left} | dict.fromkeys(others, 1)), "each job is done once, or left to the next"


async def test_the_next_job_is_of_the_merchant_whose_turn_it_is(
    ledger: Ledger, jobs: Jobs, connection: Connection
) -> None:
    merchants = sorted([(await register(ledger)).merchant_id for _ in range(3)], key=lambda one: one.hex)
    for merchant_id in merchants * 2:
        await jobs.enqueue(connection, [(merchant_id, *tasks(1))])
    taken = [await jobs._queue.fetch_job(None, None) for _ in range(7)]  # type: ignore[arg-type]
    assert [job and job.queue for job in taken] == [one.hex for one in merchants * 2] + [None]


async def test_the_tasks_of_a_merchants_jobs_share_its_slots(
    merchant: Actor, jobs: Jobs, connection: Connection
) -> None:
    begun, hang, stop = 0, asyncio.Event(), asyncio.Event()

    async def hangs(*_: Any) -> None:
        nonlocal begun
        begun += 1
        await hang.wait()

    jobs._handlers = {LOOK_AFTER: hangs}
    await put(jobs, connection, merchant, tasks(250))
    running = asyncio.create_task(jobs.run(stop))
    async with asyncio.timeout(60):
        while len(jobs._slots._waiting.get(merchant.merchant_id, ())) < 218:  # noqa: ASYNC110 - a queue sends no event
            await asyncio.sleep(0.01)
        assert begun == 32
        stop.set()
        while not jobs._stopping:  # noqa: ASYNC110
            await asyncio.sleep(0)
        hang.set()
        await running
    assert begun == 32


async def test_a_job_that_was_given_up_is_listed_and_done_when_it_is_retried(
    merchant: Actor, jobs: Jobs, connection: Connection, done: Done
) -> None:
    (due,) = tasks(1)
    jobs._handlers = {LOOK_AFTER: failing(done, due.stream_id)}
    await put(jobs, connection, merchant, [due])
    await jobs.run_all_of(connection, merchant.merchant_id)
    (waiting,) = await failed_jobs(connection)
    assert (waiting.given_up, waiting.attempts, waiting.order_id) == (False, 1, due.stream_id)
    assert waiting.next_at is not None
    await connection.execute("update procrastinate_jobs set attempts = 39")
    assert await retry_jobs(connection, [waiting.job + 1]) == []
    assert await retry_jobs(connection, [waiting.job]) == [waiting.job]
    await connection.execute("update procrastinate_jobs set attempts = 39")
    await jobs.run_all_of(connection, merchant.merchant_id)
    (given_up,) = await failed_jobs(connection)
    assert (given_up.given_up, given_up.attempts, given_up.next_at, given_up.due_at) == (True, 40, None, due.due_at)
    jobs._handlers = {LOOK_AFTER: done}
    assert await retry_jobs(connection, None) == [given_up.job]
    await jobs.run_all_of(connection, merchant.merchant_id)
    assert (done.streams, await failed_jobs(connection)) == ([due.stream_id], [])


async def test_a_job_that_was_given_up_is_tried_once_an_hour_until_it_is_done(
    merchant: Actor, jobs: Jobs, connection: Connection, done: Done
) -> None:
    (due,) = tasks(1)
    jobs._handlers = {LOOK_AFTER: failing(done, due.stream_id)}
    await put(jobs, connection, merchant, [due])
    await jobs.run_all_of(connection, merchant.merchant_id)
    assert await resume_given_up(connection) == 0, "it waits for its next attempt"
    await connection.execute("update procrastinate_jobs set attempts = 39, scheduled_at = now()")
    for attempts in (40, 41):
        await jobs.run_all_of(connection, merchant.merchant_id)
        (given_up,) = await failed_jobs(connection)
        assert (given_up.given_up, given_up.attempts) == (True, attempts)
        assert await resume_given_up(connection) == 0
        await connection.execute("update procrastinate_jobs set scheduled_at = scheduled_at - interval '2 hours'")
        assert await resume_given_up(connection) == 1
    jobs._handlers = {LOOK_AFTER: done}
    await jobs.run_all_of(connection, merchant.merchant_id)
    assert (done.streams, await failed_jobs(connection)) == ([due.stream_id], [])


@pytest.mark.parametrize("lost", ["begin", "end"])
async def test_a_job_is_done_though_its_worker_lost_the_answer_about_its(
    lost: str, merchant: Actor, jobs: Jobs, connection: Connection, done: Done, database_url: str, monkeypatch: Any
) -> None:
    """A Postgres that restarts quickly: the worker lives on, and so do its heartbeats."""
    failed = asyncio.Event()
    name = "_fetch" if lost == "begin" else "finish_job_by_id_async"
    original = getattr(jobs._queue, name)

    async def once(*args: Any, **options: Any) -> Any:
        if failed.is_set():
            return await original(*args, **options)
        answer = await original(*args, **options) if lost == "begin" else None
        if answer is not None or lost == "end":
            failed.set()
            raise ConnectorException
        return answer

    monkeypatch.setattr(jobs._queue, name, once)
    (task,) = tasks(1)
    await put(jobs, connection, merchant, [task])
    stop = asyncio.Event()
    working = asyncio.create_task(jobs.run(stop))
    async with asyncio.timeout(60):
        await failed.wait()
        while rows(database_url, JOBS):
            await jobs.requeue_stalled()
            await asyncio.sleep(0.05)
    stop.set()
    await working
    assert done.streams == [task.stream_id] * (1 if lost == "begin" else 2)


@pytest.mark.parametrize(("level", "of_session"), [("off", "on"), ("local", "on"), ("remote_apply",) * 2])
async def test_the_queue_commits_no_less_surely_than_the_standby_needs(
    ledger: Ledger, database_url: str, level: str, of_session: str
) -> None:
    string = make_conninfo(database_url, options=f"-c synchronous_commit={level}")
    async with Jobs(string, ledger, {}) as jobs, jobs._connector.pool.connection() as connection:
        assert await (await connection.execute("show synchronous_commit")).fetchone() == (of_session,)


async def test_a_stop_puts_back_the_job_whose_commit_waits_for_the_standby(
    merchant: Actor, jobs: Jobs, connection: Connection, database_url: str
) -> None:
    status = "select status::text from procrastinate_jobs"
    await put(jobs, connection, merchant, tasks(1))
    ((worker_id,),) = rows(database_url, "insert into procrastinate_workers default values returning id")
    async with without_standby(database_url):
        others = await waiting_backends(database_url)
        taking = asyncio.create_task(jobs._queue.fetch_job(None, worker_id))
        while len(await waiting_backends(database_url)) == len(others):  # noqa: ASYNC110 - no event
            await asyncio.sleep(0.005)
        taking.cancel()
        await asyncio.wait([taking], timeout=0.05)
        assert (taking.done(), rows(database_url, status)) == (False, [("todo",)])
    with pytest.raises(asyncio.CancelledError):
        await taking
    assert rows(database_url, status) == [("todo",)]
