"""The numbers of public events: one sequence for each merchant, whoever numbers it and wherever that ends."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import psycopg
import pytest
from tests.background.conftest import rows
from tests.background.deliveries import until
from tests.operations.conftest import an_order, by_card, register

from ledger.background.reactions import numbering
from ledger.background.reactions.dispatcher import Dispatcher
from ledger.background.reactions.feed import Feed
from ledger.background.reactions.numbering import EventNumbers, Standing, move_on
from ledger.background.reactions.runner import ReactionRunner
from ledger.background.scheduler.jobs import Jobs
from ledger.operations.context.inputs import Actor
from ledger.operations.context.ledger import Ledger
from ledger.operations.orders.create import create_order
from ledger.postgres.connection import Connection

pytestmark = pytest.mark.anyio

_EVENTS = "select sequence, id, kind, position, until_position, version, at from public_event where merchant_id = %s order by sequence"
_PLACE = "select f.position, f.sequence, h.position from event_feed f join merchant_head h using (merchant_id) where merchant_id = %s"


async def begun(url: str, ledger: Ledger, merchant: Actor) -> None:
    feed = Feed(url, ledger.journal)
    await feed.catch_up(merchant.merchant_id)
    await feed.stop()


async def caught_up(numbers: EventNumbers, connection: Connection) -> None:
    while await numbers.sweep(connection):
        pass


def again(url: str, merchant_id: UUID) -> None:
    """Takes the numbers away, as if none had ever been given."""
    with psycopg.connect(url) as connection:
        connection.execute("delete from public_event where merchant_id = %s", [merchant_id])
        connection.execute("update event_feed set position = 0, sequence = 0 where merchant_id = %s", [merchant_id])


async def test_the_same_log_has_the_same_numbers_in_slices_of_any_size_and_from_several_processes(
    ledger: Ledger, merchant: Actor, connection: Connection, database_url: str, monkeypatch: Any
) -> None:
    merchant_id = merchant.merchant_id
    await create_order(ledger, merchant, an_order("0", by_card()))
    assert await EventNumbers(database_url, ledger.journal).sweep(connection) is False, (
        "a merchant without a feed is not numbered"
    )
    await begun(database_url, ledger, merchant)
    for n in range(1, 4):
        await create_order(ledger, merchant, an_order(str(n), by_card()))
    await caught_up(EventNumbers(database_url, ledger.journal), connection)
    expected = rows(database_url, _EVENTS, merchant_id)
    assert [row[0] for row in expected] == list(range(1, len(expected) + 1))
    ((position, sequence, head),) = rows(database_url, _PLACE, merchant_id)
    assert (position, sequence) == (head, len(expected))
    for events, streams in ((1, 200), (3, 200), (500, 1)):
        again(database_url, merchant_id)
        monkeypatch.setattr(numbering, "_EVENTS_AT_ONCE", events)
        monkeypatch.setattr(numbering, "_STREAMS_AT_ONCE", streams)
        await caught_up(EventNumbers(database_url, ledger.journal), connection)
        found = rows(database_url, _EVENTS, merchant_id)
        if streams == 1:  # a command that is cut between its streams has its events in the order of those
            assert sorted(row[1] for row in found) == sorted(row[1] for row in expected)
        else:
            assert found == expected
    again(database_url, merchant_id)
    monkeypatch.setattr(numbering, "_EVENTS_AT_ONCE", 2)
    monkeypatch.setattr(numbering, "_STREAMS_AT_ONCE", 200)
    feeds = [Feed(database_url, ledger.journal) for _ in range(3)]
    await asyncio.gather(*[feed.catch_up(merchant_id) for feed in feeds])
    await asyncio.gather(*[feed.stop() for feed in feeds])
    assert rows(database_url, _EVENTS, merchant_id) == expected


async def test_a_merchant_without_an_endpoint_that_never_reads_the_feed_costs_a_look_and_no_row(
    ledger: Ledger,
    merchant: Actor,
    dispatcher: Dispatcher,
    jobs: Jobs,
    connection: Connection,
    database_url: str,
    monkeypatch: Any,
) -> None:
    monkeypatch.setattr("ledger.background.reactions.runner._LOOK_EVERYWHERE_S", 3600.0)
    merchants, numbered = [merchant, *[await register(ledger) for _ in range(2)]], await register(ledger)
    ids = [each.merchant_id for each in merchants]
    looked: set[UUID] = set()
    woken: set[UUID] = set()
    statements: list[Any] = []
    execute = Connection.execute

    async def counted(connection: Connection, query: Any, *values: Any, **options: Any) -> Any:
        statements.append(query)
        return await execute(connection, query, *values, **options)

    class Numbers(EventNumbers):
        async def among(self, connection: Connection, merchants: Sequence[UUID]) -> Standing:
            looked.update(merchants)
            return await super().among(connection, merchants)

    stop, numbers = asyncio.Event(), Numbers(database_url, ledger.journal)
    running = asyncio.create_task(ReactionRunner(database_url, dispatcher, jobs, numbers, woken.update).run(stop))
    try:
        await until(lambda: bool(rows(database_url, "select from pg_stat_activity where query like 'listen%%'")))
        await begun(database_url, ledger, numbered)
        for each in (*merchants, numbered):
            await create_order(ledger, each, an_order("0", by_card()))
        await until(lambda: numbered.merchant_id in woken and looked.issuperset(ids))
        await until(lambda: bool(rows(database_url, _EVENTS, numbered.merchant_id)))
    finally:
        stop.set()
        await running
    assert woken == {numbered.merchant_id}
    monkeypatch.setattr(Connection, "execute", counted)
    assert await numbers.sweep(connection, ids) is False
    assert statements == [numbering._NUMBERED]
    tables = rows(
        database_url,
        "select distinct table_name::text from information_schema.columns"
        " where column_name = 'merchant_id' and table_name ~ '^(webhook|public_event|event_feed)'",
    )
    assert len(tables) >= 6
    for (table,) in tables:
        query = f"select from {table} where merchant_id = any(%s)"
        assert rows(database_url, query, ids) == [], table


async def test_while_events_follow_each_other_none_waits_for_a_notification(
    ledger: Ledger, merchant: Actor, dispatcher: Dispatcher, jobs: Jobs, database_url: str, monkeypatch: Any
) -> None:
    monkeypatch.setattr("ledger.background.reactions.runner._LOOK_EVERYWHERE_S", 3600.0)
    rested = asyncio.Event()

    async def rest(_: asyncio.Event, __: float) -> None:
        await rested.wait()
        await asyncio.sleep(0.01)

    async def lost(*_: Any) -> None: ...

    monkeypatch.setattr("ledger.background.reactions.runner.pause", rest)
    stop, numbers = asyncio.Event(), EventNumbers(database_url, ledger.journal)
    running = asyncio.create_task(ReactionRunner(database_url, dispatcher, jobs, numbers).run(stop))
    try:
        await until(lambda: bool(rows(database_url, "select from pg_stat_activity where query like 'listen%%'")))
        await begun(database_url, ledger, merchant)
        await create_order(ledger, merchant, an_order("1", by_card()))
        await until(lambda: bool(rows(database_url, _EVENTS, merchant.merchant_id)))
        monkeypatch.setattr("ledger.journal.commit.notifier.Notifier._notify", lost)
        await create_order(ledger, merchant, an_order("2", by_card()))
        first = len(rows(database_url, _EVENTS, merchant.merchant_id))
        rested.set()
        await until(lambda: len(rows(database_url, _EVENTS, merchant.merchant_id)) > first)
    finally:
        rested.set()
        stop.set()
        await running


async def test_long_pasts_take_turns_and_the_others_wait_for_no_round_of_them(
    ledger: Ledger,
    merchant: Actor,
    dispatcher: Dispatcher,
    jobs: Jobs,
    connection: Connection,
    database_url: str,
    monkeypatch: Any,
) -> None:
    monkeypatch.setattr(numbering, "_EVENTS_AT_ONCE", 20)
    monkeypatch.setattr("ledger.background.reactions.runner._FAR_S", 0.0)
    healthy, long = merchant, [await register(ledger) for _ in range(3)]
    for each in (healthy, *long):
        await begun(database_url, ledger, each)
    for n in range(9):
        for each in long:
            await create_order(ledger, each, an_order(str(n), by_card()))
    stop, advanced = asyncio.Event(), list[UUID]()
    ids = [each.merchant_id for each in long]

    class Numbers(EventNumbers):
        async def advance(self, connection: Connection, merchant_id: UUID) -> bool:
            advanced.append(merchant_id)
            if merchant_id in ids and advanced.count(healthy.merchant_id) < 3:
                await create_order(ledger, healthy, an_order(f"among-{len(advanced)}", by_card()))
                runner._grown_unnumbered.add(healthy.merchant_id)
            return await super().advance(connection, merchant_id)

    numbers = Numbers(database_url, ledger.journal)
    runner = ReactionRunner(database_url, dispatcher, jobs, numbers)

    async def rest(_: asyncio.Event, __: float) -> None:
        if await numbers.behind(connection) == []:
            stop.set()

    monkeypatch.setattr("ledger.background.reactions.runner.pause", rest)
    await runner._number(numbers, connection, stop)
    assert advanced[:6:2] == ids, "long pasts take turns"
    assert advanced[1:6:2] == [healthy.merchant_id] * 3, "and the others wait for one slice alone"
    for each in (healthy, *long):
        ((position, sequence, head),) = rows(database_url, _PLACE, each.merchant_id)
        assert position == head
        assert [row[0] for row in rows(database_url, _EVENTS, each.merchant_id)] == list(range(1, sequence + 1))


async def test_a_read_of_the_feed_waits_for_one_slice_of_the_long_pasts_that_others_read(
    ledger: Ledger, merchant: Actor, database_url: str, monkeypatch: Any
) -> None:
    monkeypatch.setattr(numbering, "_EVENTS_AT_ONCE", 20)
    long = [await register(ledger) for _ in range(3)]
    await begun(database_url, ledger, merchant)
    for n in range(9):
        for each in long:
            await create_order(ledger, each, an_order(str(n), by_card()))
    await create_order(ledger, merchant, an_order("0", by_card()))
    advanced: list[UUID] = []
    advance = EventNumbers.advance
    is_reading = asyncio.Event()

    async def noted(numbers: EventNumbers, connection: Connection, merchant_id: UUID) -> bool:
        advanced.append(merchant_id)
        if len(advanced) > 1 and merchant_id != merchant.merchant_id:
            is_reading.set()
            await asyncio.sleep(0)  # the read of the other merchant begins here
        return await advance(numbers, connection, merchant_id)

    monkeypatch.setattr(EventNumbers, "advance", noted)
    feed = Feed(database_url, ledger.journal)
    reading = [asyncio.create_task(feed.catch_up(each.merchant_id)) for each in long]
    await is_reading.wait()
    before = len(advanced)
    await feed.catch_up(merchant.merchant_id)
    assert advanced[before] == merchant.merchant_id, "after the slice that was under way"
    await asyncio.gather(*reading)
    await feed.stop()
    turns = [merchant_id for merchant_id in advanced if merchant_id != merchant.merchant_id]
    assert set(turns[:3]) == {each.merchant_id for each in long}, "long pasts take turns"
    for each in (merchant, *long):
        ((position, _, head),) = rows(database_url, _PLACE, each.merchant_id)
        assert position == head


@pytest.mark.parametrize(("took_s", "rest_s"), [(0.0, 0.05), (0.03, 0.12), (1.0, 0.25)])
async def test_the_rest_after_a_round_follows_from_its_length(
    ledger: Ledger,
    merchant: Actor,
    dispatcher: Dispatcher,
    jobs: Jobs,
    connection: Connection,
    database_url: str,
    monkeypatch: Any,
    took_s: float,
    rest_s: float,
) -> None:
    await begun(database_url, ledger, merchant)
    await create_order(ledger, merchant, an_order("0", by_card()))
    now_s, stop, rests = 1_000.0, asyncio.Event(), list[float]()

    class Numbers(EventNumbers):
        async def advance(self, connection: Connection, merchant_id: UUID) -> bool:
            nonlocal now_s
            now_s += took_s
            return await super().advance(connection, merchant_id)

    async def rest(_: asyncio.Event, seconds: float) -> None:
        rests.append(seconds)
        stop.set()

    monkeypatch.setattr("ledger.background.reactions.runner.time", SimpleNamespace(monotonic=lambda: now_s))
    monkeypatch.setattr("ledger.background.reactions.runner.pause", rest)
    numbers = Numbers(database_url, ledger.journal)
    await ReactionRunner(database_url, dispatcher, jobs, numbers)._number(numbers, connection, stop)
    assert rests == [pytest.approx(rest_s)]


async def test_a_crash_before_the_commit_leaves_no_number_and_none_is_given_twice(
    ledger: Ledger, merchant: Actor, connection: Connection, database_url: str, monkeypatch: Any
) -> None:
    await begun(database_url, ledger, merchant)
    await create_order(ledger, merchant, an_order("0", by_card()))
    numbers = EventNumbers(database_url, ledger.journal)
    await connection.execute("set synchronous_commit = off")
    with monkeypatch.context() as patch:
        patch.setattr(numbering, "_NUMBER", numbering._NUMBER.replace("select true from moved", "select 1 / 0"))
        with pytest.raises(psycopg.Error):
            await numbers.sweep(connection)
    assert rows(database_url, _EVENTS, merchant.merchant_id) == []
    waits = numbering._NUMBER.replace(
        "true from moved",
        # Of each row, so that it is not asked before the statement begins.
        "true from moved where current_setting('synchronous_commit' || left(merchant_id::text, 0)) = 'on'",
    )
    monkeypatch.setattr(numbering, "_NUMBER", waits)
    await caught_up(numbers, connection)
    found = rows(database_url, _EVENTS, merchant.merchant_id)
    assert numbers.numbered == len(found) > 0, "the commit of a number waits for the disk"
    kinds = [row[2] for row in found]
    assert kinds[:2] == ["customer.created", "payment_order.created"]
    assert len({row[1] for row in found}) == len(found) == kinds.index("payment_order.completed") + 1
    ((_, _, head),) = rows(database_url, _PLACE, merchant.merchant_id)
    assert all(row[3] <= row[4] <= head for row in found)


async def test_a_restored_copy_goes_on_behind_every_number_that_may_have_been_sent(
    ledger: Ledger, merchant: Actor, connection: Connection, database_url: str
) -> None:
    await begun(database_url, ledger, merchant)
    lasts = [0]
    for n in range(2):
        with psycopg.connect(database_url, autocommit=True) as owner:
            move_on(owner)
        await create_order(ledger, merchant, an_order(str(n), by_card()))
        await caught_up(EventNumbers(database_url, ledger.journal), connection)
        numbers = [row[0] for row in rows(database_url, _EVENTS, merchant.merchant_id)]
        assert numbers == sorted(set(numbers))
        assert numbers[-1] >= lasts[-1] + 1_000_000
        lasts.append(numbers[-1])
    assert lasts[-1] < 2**53


def restored(url: str) -> tuple[float, int]:
    """Restores the same copy, without numbers, once more. Returns the database's time and where numbers begin then."""
    with psycopg.connect(url, autocommit=True) as owner:
        owner.execute("update event_numbers set behind = 0")
        owner.execute("update event_feed set sequence = 0")
        move_on(owner)
        row = owner.execute(
            "select extract(epoch from clock_timestamp())::float8, behind from event_numbers"
        ).fetchone()
    assert row is not None
    return row


async def test_a_copy_that_is_restored_twice_gives_no_number_again_of_a_long_past(database_url: str) -> None:
    """Between two restores, a feed may have begun: its past is numbered as fast as a process can."""
    (before, first), (after, second) = restored(database_url), restored(database_url)
    assert second - first > (after - before) * 100_000


async def test_a_merchant_whose_events_cannot_be_numbered_delays_no_other(
    ledger: Ledger, merchant: Actor, connection: Connection, database_url: str, monkeypatch: Any
) -> None:
    other = await register(ledger)
    for each in (merchant, other):
        await begun(database_url, ledger, each)
        await create_order(ledger, each, an_order("0", by_card()))
    taken = """insert into public_event (merchant_id, sequence, id, kind, resource_id, stream_id, version, position,
      until_position, at) values (%(m)s, 1, %(m)s, 'x', %(m)s, %(m)s, 1, 1, 1, now())"""
    with psycopg.connect(database_url, autocommit=True) as owner:
        owner.execute(taken, {"m": merchant.merchant_id})
    numbers = EventNumbers(database_url, ledger.journal)
    await caught_up(numbers, connection)
    assert numbers.is_quarantined(merchant.merchant_id)
    assert len(rows(database_url, _EVENTS, other.merchant_id)) == numbers.numbered > 1
    with psycopg.connect(database_url, autocommit=True) as owner:
        owner.execute("delete from public_event where merchant_id = %s", [merchant.merchant_id])
    await caught_up(EventNumbers(database_url, ledger.journal), connection)
    assert await numbers.behind(connection) == []
    assert numbers.quarantine.merchants == 1, "until it is to be tried again"
    monkeypatch.setattr(numbers.quarantine, "_now_s", lambda: time.monotonic() + 3600)
    assert await numbers.behind(connection) == []
    assert numbers.quarantine.merchants == 0, "another process has numbered its events"
