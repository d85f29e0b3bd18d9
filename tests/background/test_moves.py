"""Moves of sandbox clocks: they are bounded, take turns, end with their client, and lose a lease that expired."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from uuid import UUID, uuid4

import psycopg
import pytest
from tests.background.conftest import LOOK_AFTER, NO_PAYMENT, Done, register, rows

from ledger.background.clock import advance as clock_advance
from ledger.background.clock import lock
from ledger.background.clock.advance import ClockAdvancer
from ledger.domain.rejections import ConcurrentUpdate, InvalidField
from ledger.operations.context import clock
from ledger.operations.context.inputs import Actor
from ledger.operations.context.ledger import Ledger
from ledger.postgres.connection import Connection

pytestmark = pytest.mark.anyio

_SET_TIMER = "insert into due_time (merchant_id, kind, stream_id, payment_id, due_at) values (%s, %s, %s, %s, %s)"
_EXPIRE = "update merchant_clock set moving_until = now() - interval '1 second' where merchant_id = %s"
_LEASE = "select moving_until > now(), holder from merchant_clock where merchant_id = %s"


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets processes read each clock every time, so that the first move of one waits for none."""
    for module in (clock, clock_advance):
        monkeypatch.setattr(module, "BELIEVED_S", 0.0)


@pytest.fixture
def bound(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Sets after how many due things a move ends."""
    return lambda due_max: monkeypatch.setattr(clock_advance, "DUE_MAX", due_max)


class Worker:
    """A handler that calls `then` after each task, with the number of tasks that it has done."""

    def __init__(self, then: Callable[[int], None] = lambda _: None) -> None:
        self.done: list[UUID] = []
        self._then = then

    async def __call__(self, ledger: Ledger, merchant_id: UUID, stream_id: UUID, _: UUID, due_at: datetime) -> None:
        assert ledger.clock.now(merchant_id) >= due_at, "done before it was due"
        await asyncio.sleep(0)
        self.done.append(stream_id)
        self._then(len(self.done))


def set_timers(url: str, merchant_id: UUID, moments: list[datetime]) -> list[UUID]:
    """Sets a timer of a stream of its own for each of these moments; returns the streams."""
    streams = [uuid4() for _ in moments]
    with psycopg.connect(url) as connection:
        for stream_id, at in zip(streams, moments, strict=True):
            connection.execute(_SET_TIMER, (merchant_id, LOOK_AFTER, stream_id, NO_PAYMENT, at))
    return streams


async def hourly(ledger: Ledger, url: str, merchant_id: UUID, count: int) -> list[UUID]:
    """Sets a timer for each of the next hours."""
    now = await ledger.clock.refresh(merchant_id)
    return set_timers(url, merchant_id, [now + timedelta(hours=n + 1) for n in range(count)])


def years_later(now: datetime) -> datetime:
    return now + timedelta(days=20 * 365)


def an_hour_later(now: datetime) -> datetime:
    return now + timedelta(hours=1)


async def test_two_clocks_that_move_by_years_do_not_stop_the_clock_of_another_merchant(
    ledger: Ledger, database_url: str
) -> None:
    slow, third = [(await register(ledger)).merchant_id for _ in range(2)], (await register(ledger)).merchant_id
    for merchant_id in slow:
        await hourly(ledger, database_url, merchant_id, 40)
    third_has_moved = asyncio.Event()
    first_tasks = dict.fromkeys(slow, 0)
    both_move = asyncio.Event()

    async def work(_: Ledger, merchant_id: UUID, *__: object) -> None:
        first_tasks[merchant_id] += 1
        if all(first_tasks.values()):
            both_move.set()
        if first_tasks[merchant_id] == 40:
            await third_has_moved.wait()

    async with asyncio.timeout(60), ClockAdvancer(database_url, ledger, (), {LOOK_AFTER: work}) as advancer:
        moves = [asyncio.create_task(advancer.advance(merchant_id, "advanceBy", years_later)) for merchant_id in slow]
        await both_move.wait()
        await advancer.advance(third, "advanceBy", an_hour_later)
        assert not any(move.done() for move in moves)
        third_has_moved.set()
        assert [move.jobs_run for move in await asyncio.gather(*moves)] == [40, 40]


async def test_a_slow_task_of_two_merchants_does_not_stop_the_clock_of_another_one(
    ledger: Ledger, database_url: str
) -> None:
    slow, third = [(await register(ledger)).merchant_id for _ in range(2)], (await register(ledger)).merchant_id
    for merchant_id in slow:
        await hourly(ledger, database_url, merchant_id, 1)
    third_has_moved, waiting = asyncio.Event(), asyncio.Semaphore(0)

    async def work(*_: object) -> None:
        waiting.release()
        await third_has_moved.wait()

    async with asyncio.timeout(60), ClockAdvancer(database_url, ledger, (), {LOOK_AFTER: work}) as advancer:
        moves = [asyncio.create_task(advancer.advance(merchant_id, "advanceBy", years_later)) for merchant_id in slow]
        for _ in slow:
            await waiting.acquire()
        await advancer.advance(third, "advanceBy", an_hour_later)
        third_has_moved.set()
        assert [move.more for move in await asyncio.gather(*moves)] == [False, False]


async def test_a_move_does_no_more_than_its_bound_and_the_next_one_does_the_rest(
    ledger: Ledger, merchant: Actor, database_url: str, bound: Callable[[int], None]
) -> None:
    merchant_id, done = merchant.merchant_id, Done()
    streams = await hourly(ledger, database_url, merchant_id, 5)
    advancer = ClockAdvancer(database_url, ledger, (), {LOOK_AFTER: done})
    bound(2)
    first = await advancer.advance(merchant_id, "advanceBy", years_later)
    assert (first.jobs_run, first.more, done.streams) == (2, True, streams[:2])
    assert first.now < first.until - timedelta(days=7_000)
    second = await advancer.advance(merchant_id, "advanceTo", lambda _: first.until)
    assert (second.jobs_run, second.more, done.streams) == (2, True, streams[:4])
    assert (second.until, second.now > first.now) == (first.until, True)
    last = await advancer.advance(merchant_id, "advanceTo", lambda _: first.until)
    assert (last.jobs_run, last.more, done.streams) == (1, False, streams)
    assert last.now >= first.until


async def test_things_that_are_due_at_one_moment_are_bounded_too(
    ledger: Ledger, merchant: Actor, database_url: str, bound: Callable[[int], None]
) -> None:
    merchant_id, done = merchant.merchant_id, Done()
    due_at = await ledger.clock.refresh(merchant_id) + timedelta(hours=1)
    streams = set_timers(database_url, merchant_id, [due_at] * 5)
    advancer = ClockAdvancer(database_url, ledger, (), {LOOK_AFTER: done})
    bound(3)
    first = await advancer.advance(merchant_id, "advanceBy", years_later)
    assert (first.jobs_run, first.more, len(done.streams)) == (3, True, 3)
    last = await advancer.advance_fully(merchant_id, "advanceTo", lambda _: first.until)
    assert (last.jobs_run, last.more, sorted(done.streams)) == (2, False, sorted(streams))


async def test_a_move_whose_time_is_over_begins_no_task_and_leaves_what_it_took_to_the_next_one(
    ledger: Ledger, merchant: Actor, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    merchant_id, done = merchant.merchant_id, Done()
    streams = await hourly(ledger, database_url, merchant_id, 2)
    advancer = ClockAdvancer(database_url, ledger, (), {LOOK_AFTER: done})
    monkeypatch.setattr(clock_advance, "WORK_MAX_S", 0.0)
    first = await advancer.advance(merchant_id, "advanceBy", years_later)
    assert (first.jobs_run, first.more, done.streams) == (1, True, [])
    monkeypatch.setattr(clock_advance, "WORK_MAX_S", 20.0)
    rest = await advancer.advance(merchant_id, "advanceTo", lambda _: first.until)
    assert (rest.jobs_run, rest.more, done.streams) == (1, False, streams)


async def test_a_move_ends_with_its_client_between_two_due_things(
    ledger: Ledger, merchant: Actor, database_url: str
) -> None:
    merchant_id = merchant.merchant_id
    streams = await hourly(ledger, database_url, merchant_id, 5)
    worker = Worker()
    advancer = ClockAdvancer(database_url, ledger, (), {LOOK_AFTER: worker})
    left = await advancer.advance(merchant_id, "advanceBy", years_later, lambda: len(worker.done) < 3)
    assert (left.jobs_run, left.more, worker.done) == (3, True, streams[:3])
    assert rows(database_url, _LEASE, merchant_id) == [(None, None)]
    rest = await advancer.advance(merchant_id, "advanceTo", lambda _: left.until)
    assert (rest.jobs_run, rest.more, worker.done) == (2, False, streams)


async def test_what_is_due_at_the_moment_when_the_client_leaves_is_left_whole_for_the_next_move(
    ledger: Ledger, merchant: Actor, database_url: str
) -> None:
    merchant_id = merchant.merchant_id
    due_at = await ledger.clock.refresh(merchant_id) + timedelta(hours=1)
    streams = set_timers(database_url, merchant_id, [due_at] * 90)
    worker = Worker()
    advancer = ClockAdvancer(database_url, ledger, (), {LOOK_AFTER: worker})
    left = await advancer.advance(merchant_id, "advanceBy", years_later, lambda: not worker.done)
    assert left.more
    assert 0 < len(worker.done) < 90
    assert due_at <= left.now < due_at + timedelta(minutes=1)
    rest = await advancer.advance(merchant_id, "advanceTo", lambda _: left.until)
    assert (rest.more, sorted(worker.done)) == (False, sorted(streams))


async def test_a_merchants_second_move_in_this_process_is_refused_at_once(
    ledger: Ledger, merchant: Actor, database_url: str
) -> None:
    await hourly(ledger, database_url, merchant.merchant_id, 1)
    begun, refused = asyncio.Event(), asyncio.Event()

    async def work(*_: object) -> None:
        begun.set()
        await refused.wait()

    advancer = ClockAdvancer(database_url, ledger, (), {LOOK_AFTER: work})
    move = asyncio.create_task(advancer.advance(merchant.merchant_id, "advanceBy", years_later))
    async with asyncio.timeout(30):
        await begun.wait()
        with pytest.raises(ConcurrentUpdate):
            await advancer.advance(merchant.merchant_id, "advanceBy", an_hour_later)
        refused.set()
        assert not (await move).more


async def test_only_its_holder_renews_or_ends_a_lease(
    ledger: Ledger, merchant: Actor, connection: Connection, database_url: str
) -> None:
    merchant_id, old, new = merchant.merchant_id, uuid4(), uuid4()
    later = await ledger.clock.refresh(merchant_id) + timedelta(days=1)
    assert await lock.acquire(connection, merchant_id, old)
    assert await lock.acquire(connection, merchant_id, new) is None
    await connection.execute(_EXPIRE, (merchant_id,))
    assert await lock.acquire(connection, merchant_id, new) is False
    with pytest.raises(ConcurrentUpdate):
        await lock.move(connection, merchant_id, old, later)
    await lock.release(connection, [merchant_id], old)
    assert rows(database_url, _LEASE, merchant_id) == [(True, new)]
    assert await ledger.clock.refresh(merchant_id) < later
    await lock.move(connection, merchant_id, new, later)
    await lock.release(connection, [merchant_id], new)
    assert rows(database_url, _LEASE, merchant_id) == [(None, None)]
    assert await ledger.clock.refresh(merchant_id) >= later


async def test_a_move_that_has_lost_its_lease_stops(
    ledger: Ledger, merchant: Actor, connection: Connection, database_url: str
) -> None:
    merchant_id, other = merchant.merchant_id, uuid4()
    await hourly(ledger, database_url, merchant_id, 3)
    done: list[UUID] = []

    async def work(_: Ledger, __: UUID, stream_id: UUID, *___: object) -> None:
        done.append(stream_id)
        await connection.execute(_EXPIRE, (merchant_id,))
        assert await lock.acquire(connection, merchant_id, other) is False

    with pytest.raises(ConcurrentUpdate):
        await ClockAdvancer(database_url, ledger, (), {LOOK_AFTER: work}).advance(merchant_id, "advanceBy", years_later)
    assert len(done) == 1
    assert rows(database_url, _LEASE, merchant_id) == [(True, other)]


async def test_a_time_of_the_last_minute_is_now_and_an_earlier_one_is_refused(
    ledger: Ledger, merchant: Actor, database_url: str
) -> None:
    advancer = ClockAdvancer(database_url, ledger, (), {})
    moved = await advancer.advance(merchant.merchant_id, "advanceBy", an_hour_later)
    again = await advancer.advance(merchant.merchant_id, "advanceTo", lambda now: now - timedelta(seconds=59))
    assert (again.more, again.now >= moved.now) == (False, True)
    with pytest.raises(InvalidField):
        await advancer.advance(merchant.merchant_id, "advanceTo", lambda now: now - timedelta(seconds=61))
