"""The data loader: its reads while the database is unavailable, and afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import pytest
from campaigns.chaos.proxy import Wire, never, proxied
from tests.metric_values import metric_value

from ledger.postgres.connection import Connection
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


async def test_stop_answers_the_read_in_flight_and_those_that_wait(database_url: str) -> None:
    reads = DataLoader[int, int](database_url, "test-reads", sleep, at_once=1)
    await reads.start()
    reading = [asyncio.create_task(reads.get(n)) for n in range(2)]
    await asyncio.sleep(0.05)  # the first of them is in flight
    await reads.stop()
    outcomes = await asyncio.wait_for(asyncio.gather(*reading, return_exceptions=True), 30)
    assert [type(outcome) for outcome in outcomes] == [DatabaseUnavailable] * 2
