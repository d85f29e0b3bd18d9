"""The data loader: its reads while the database is unavailable, and afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import psycopg
import pytest
from campaigns.chaos.proxy import Wire, never, proxied
from tests.metric_values import metric_value

from ledger.postgres import connection as connections
from ledger.postgres.connection import Connection, connect, reconnect
from ledger.postgres.dataloader import DataLoader
from ledger.postgres.faults import DatabaseUnavailable

pytestmark = pytest.mark.anyio


async def echo(connection: Connection, keys: Sequence[int]) -> Mapping[int, int]:
    rows = await connection.execute("select n from unnest(%s::int4[]) as n", (list(keys),))
    return {n: n for (n,) in await rows.fetchall()}


async def sleep(connection: Connection, keys: Sequence[int]) -> Mapping[int, int]:
    await connection.execute("select pg_sleep(0.2)")
    return await echo(connection, keys)


def cut_at_once(_wire: Wire, _piece: bytes, _from_client: bool) -> int:
    return 0


async def test_reads_in_flight_fail_soon_while_the_database_is_unavailable(database_url: str) -> None:
    async with proxied(database_url) as proxy:
        reads = DataLoader[int, int](proxy.url, "test-reads", echo)
        await reads.start()
        assert await reads.get(1) == 1
        proxy.decide = cut_at_once  # connections are cut at their first byte, again and again
        async with asyncio.timeout(30):
            outcomes = await asyncio.gather(*[reads.get(n) for n in range(20)], return_exceptions=True)
        assert {type(outcome) for outcome in outcomes} == {DatabaseUnavailable}
        with pytest.raises(DatabaseUnavailable):
            await reads.get(1)
        proxy.decide = never
        async with asyncio.timeout(30):
            while not reads.alive:  # noqa: ASYNC110 - no event for it
                await asyncio.sleep(0.01)
        assert await reads.get(2) == 2
        await reads.stop()


async def test_a_read_whose_connection_is_cut_is_repeated_if_the_database_is_available(database_url: str) -> None:
    async with proxied(database_url) as proxy:
        reads = DataLoader[int, int](proxy.url, "cut-reads", sleep)
        await reads.start()
        reading = asyncio.create_task(reads.get(1))
        await asyncio.sleep(0.05)
        for wire in list(proxy.wires):
            wire.cut()
        assert await asyncio.wait_for(reading, 30) == 1
        assert metric_value("ledger_database_reconnects_total", "cut-reads") == 1
        await reads.stop()


class Held(DataLoader[int, int]):
    """A loader each of whose new connections opens, or fails to, when the test has `opens` resolved."""

    opens: asyncio.Future[None] | None = None

    async def _open(self) -> Connection:
        if self.opens is not None:
            await self.opens
        return await super()._open()

    def hold(self, fault: Exception | None = None) -> Callable[[], None]:
        """Has the next connection wait; returns what lets it open, or fail with this fault."""
        self.opens = opens = asyncio.get_running_loop().create_future()
        return partial(opens.set_result, None) if fault is None else partial(opens.set_exception, fault)


async def waits(reading: asyncio.Task[int | None]) -> bool:
    """Returns whether a read waits, once the event loop has run it."""
    for _ in range(10):
        await asyncio.sleep(0)
    return not reading.done()


async def test_a_read_waits_for_the_connection_that_replaces_a_lost_one(database_url: str) -> None:
    async with proxied(database_url) as proxy:
        reads = Held(proxy.url, "held-reads", echo)
        await reads.start()
        let_open = reads.hold()
        for wire in list(proxy.wires):
            wire.cut()
        first = asyncio.create_task(reads.get(1))
        while reads.alive:  # noqa: ASYNC110 - no event for it
            await asyncio.sleep(0)
        second = asyncio.create_task(reads.get(2))
        assert await waits(second)
        let_open()
        assert await asyncio.wait_for(asyncio.gather(first, second), 30) == [1, 2]
        await reads.stop()
        with pytest.raises(DatabaseUnavailable):
            await asyncio.wait_for(reads.get(3), 30)


async def test_a_read_waits_for_a_connection_once_another_one_has_found_the_database_and_only_for_one_try(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "_RETRY_FIRST_S", 600.0)
    monkeypatch.setattr(connections, "_RETRY_MAX_S", 600.0)
    async with proxied(database_url) as proxy:
        reads = Held(proxy.url, "held-reads", echo)
        await reads.start()
        proxy.go_away()
        for _ in range(2):  # what finds its connection lost, and what finds none
            with pytest.raises(DatabaseUnavailable):
                await asyncio.wait_for(reads.get(1), 30)
        for fault in (psycopg.OperationalError("a test"), None):
            end_try = reads.hold(fault)
            with pytest.raises(DatabaseUnavailable):  # nothing has found the database since
                await asyncio.wait_for(reads.get(1), 30)
            await (await reconnect("another", partial(connect, database_url, "another"))).close()
            reading = asyncio.create_task(reads.get(1))
            assert await waits(reading)
            assert not reads.alive
            proxy.is_away = False
            end_try()
            if fault is not None:
                with pytest.raises(DatabaseUnavailable):
                    await asyncio.wait_for(reading, 30)
        assert await asyncio.wait_for(reading, 30) == 1
        await reads.stop()


async def test_stop_answers_the_read_in_flight_and_those_that_wait(database_url: str) -> None:
    reads = DataLoader[int, int](database_url, "test-reads", sleep, at_once=1)
    await reads.start()
    reading = [asyncio.create_task(reads.get(n)) for n in range(2)]
    await asyncio.sleep(0.05)  # the first of them is in flight
    await reads.stop()
    outcomes = await asyncio.wait_for(asyncio.gather(*reading, return_exceptions=True), 30)
    assert [type(outcome) for outcome in outcomes] == [DatabaseUnavailable] * 2
