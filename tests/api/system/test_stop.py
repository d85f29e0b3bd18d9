"""The end of an API process whose database completes nothing: requests get their answers, and the process ends."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import psycopg
import pytest
from campaigns.chaos.proxy import proxied
from msgspec.structs import replace
from tests.api.bodies import paid_order
from tests.api.storefront import ORDERS, Merchant, Storefront
from tests.standbys import waiting_backends, without_standby

from ledger.service.child_process import ChildProcess
from ledger.settings import Settings

pytestmark = pytest.mark.anyio


class Process:
    """An API process of its own, with a client."""

    def __init__(self, child: ChildProcess, client: httpx.AsyncClient) -> None:
        self._child, self._client = child, client

    async def create(self, merchant: Merchant, external_id: str) -> httpx.Response:
        return await self._client.post(ORDERS, json=paid_order(externalId=external_id), headers=merchant.key)

    async def show(self, merchant: Merchant) -> httpx.Response:
        return await self._client.get(f"{ORDERS}/once", headers=merchant.key)

    async def stop(self) -> str:
        """Asks it to stop. Returns how it has ended."""
        self._child.ask_to_stop()
        while self._child.is_alive():  # noqa: ASYNC110 - no event
            await asyncio.sleep(0.01)
        return self._child.ending


def _waiting_writers(database_url: str) -> set[int]:
    """Returns the pids of the writers whose commits wait for a standby."""
    waiting = "select pid from pg_stat_activity where datname = current_database() and wait_event = 'SyncRep' and "
    with psycopg.connect(database_url) as connection:
        return {pid for (pid,) in connection.execute(waiting + "application_name = 'ledger-writer'").fetchall()}


@asynccontextmanager
async def process_of(settings: Settings) -> AsyncIterator[Process]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        child = ChildProcess("api", "api.app:create_app", listener=listener.fileno()).configure(settings)
        base = f"http://127.0.0.1:{listener.getsockname()[1]}"
        try:
            while not child.is_ready:
                assert child.is_alive()
                await asyncio.sleep(0.01)
            async with httpx.AsyncClient(base_url=base, timeout=60) as client, asyncio.timeout(60):
                yield Process(child, client)
        finally:
            child.end()


async def test_a_request_whose_commit_waits_for_the_standby_is_answered_and_its_commit_is_left(
    store: Storefront, merchant: Merchant, capfd: pytest.CaptureFixture[str]
) -> None:
    database_url = str(store.settings.database_url)
    async with process_of(store.settings) as process:
        await process.create(merchant, "before")  # takes order numbers for the next ones too
        async with without_standby(database_url):
            creating = asyncio.create_task(process.create(merchant, "once"))
            while not (waiting := _waiting_writers(database_url)):  # noqa: ASYNC110 - no event
                await asyncio.sleep(0.01)
            ended = await process.stop()
            answer = await creating
            assert waiting <= {*await waiting_backends(database_url)}
        assert ended == "exited with 0"
    assert '"event":"process_left_commits"' in capfd.readouterr().err
    assert (answer.status_code, answer.json()["code"]) == (503, "DATABASE_UNAVAILABLE")
    assert answer.json()["message"].startswith(
        "The database has not confirmed the request; it may have been carried out."
    )
    repeated = await merchant.create(paid_order(externalId="once"))
    assert (repeated.status_code, repeated.json()["status"]) == (200, "PROCESSING")  # until the recovery settles it
    assert len(repeated.json()["payments"]) == 1


async def test_an_idle_process_whose_database_is_away_ends(
    store: Storefront, merchant: Merchant, capfd: pytest.CaptureFixture[str]
) -> None:
    async with proxied(str(store.settings.database_url)) as proxy:
        settings = replace(store.settings, database_url=proxy.url, database_app_url=proxy.url)
        async with process_of(settings) as process:
            assert (await process.show(merchant)).status_code == 404
            proxy.go_away()
            assert (await process.show(merchant)).status_code == 503
            assert await process.stop() == "exited with 0"
    assert '"event":"process_left_database"' in capfd.readouterr().err
