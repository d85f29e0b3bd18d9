"""A server whose commits wait for a standby that does not exist."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import psycopg

WAITING = "select pid from pg_stat_activity where datname = current_database() and wait_event = 'SyncRep'"


async def lose_standby(url: str) -> None:
    """Lets every commit of the server wait from now on. The server reads the setting in its own time."""
    await _set_standbys(url, "nowhere")
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as probe:
        while True:
            commit = asyncio.create_task(probe.execute("select pg_logical_emit_message(true, 'test', '')"))
            while not commit.done():
                if probe.info.backend_pid in await waiting_backends(url):
                    probe.pgconn.finish()  # it is left to wait
                    await asyncio.gather(commit, return_exceptions=True)
                    return
                await asyncio.sleep(0.005)


async def regain_standby(url: str) -> None:
    """Lets the commits of the server return, those that wait too."""
    await _set_standbys(url, "")


@asynccontextmanager
async def without_standby(url: str) -> AsyncIterator[None]:
    """Lets every commit of the server wait, until the block ends."""
    try:
        await lose_standby(url)
        yield
    finally:
        await regain_standby(url)


async def waiting_backends(url: str) -> list[Any]:
    """Returns the pids of the database's backends that wait for a standby."""
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        return [pid for (pid,) in await (await connection.execute(WAITING)).fetchall()]


async def until_waiting(url: str, pid: int) -> None:
    """Returns once this backend waits for a standby."""
    while pid not in await waiting_backends(url):  # noqa: ASYNC110 - no event
        await asyncio.sleep(0.005)


async def _set_standbys(url: str, names: str) -> None:
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        await connection.execute(f"alter system set synchronous_standby_names = '{names}'")  # type: ignore[arg-type]
        await connection.execute("select pg_reload_conf()")
