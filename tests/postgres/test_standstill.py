"""What a process that is to stop takes for a standstill, and what it does not."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import pytest
from campaigns.chaos.proxy import proxied
from tests.standbys import without_standby

from ledger.postgres import standstill as stops
from ledger.postgres.connection import SharedClient, connect
from ledger.postgres.standstill import standstill

pytestmark = pytest.mark.anyio


@pytest.fixture
async def client(database_url: str) -> AsyncIterator[SharedClient]:
    client = SharedClient(database_url, "test-looks")
    yield client
    await client.stop()


async def test_commits_that_wait_for_a_standby_are_one(database_url: str, client: SharedClient) -> None:
    async with await connect(database_url, "test-waits") as waits, asyncio.timeout(60):
        async with without_standby(database_url):
            waiting = asyncio.create_task(waits.execute("select pg_logical_emit_message(true, 'test', '')"))
            assert await standstill(client, lambda: True) == ["test-waits"]
        await waiting


async def test_a_database_that_is_away_is_one_and_so_is_a_node_of_citus(
    database_url: str, client: SharedClient
) -> None:
    async with proxied(database_url) as proxy, asyncio.timeout(60):
        proxy.go_away()
        assert await standstill(SharedClient(proxy.url, "test-looks"), lambda: True) == ()
        assert await standstill(client, lambda: False) == ()


async def test_a_database_that_answers_while_the_process_is_busy_is_none(
    client: SharedClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    look, looks = stops._look, 0

    async def look_in_a_busy_process(client: SharedClient) -> object:
        nonlocal looks
        looks += 1
        asyncio.get_running_loop().call_soon(time.sleep, stops._AWAY_S + 0.1)
        return await look(client)

    monkeypatch.setattr(stops, "_look", look_in_a_busy_process)
    stopping = asyncio.create_task(standstill(client, lambda: True))
    while looks < 2 and not stopping.done():  # noqa: ASYNC110 - no event
        await asyncio.sleep(0.01)
    assert not stopping.done()
    stopping.cancel()
