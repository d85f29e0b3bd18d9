"""Notifies the followers of all logs which logs have grown, after the commit.

A lost notification loses no event, because followers also poll. It is sent outside every transaction that writes, on a
connection that the disk's probe shares, so that commands do not wait for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from typing import Final
from uuid import UUID

import psycopg
import structlog

from ledger.postgres.connection import QueryTimeout, SharedClient
from ledger.postgres.faults import DatabaseUnavailable

_log = structlog.get_logger()

CHANNEL: Final = "ledger_log"
_GATHER_S: Final = 0.05
_PAUSE_S: Final = 0.2  # followers pause as long
_MERCHANTS_MAX: Final = 200  # Postgres bounds a notification to 8,000 bytes


class Notifier:
    """The sender of notifications. It gathers grown logs for 50 ms, and notifies at most four times a second."""

    def __init__(self, client: SharedClient) -> None:
        self._client = client
        self._grown: set[UUID] = set()
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Starts the task. It connects with the first notification."""
        self._task = asyncio.create_task(self._run(), name="journal-notifier")

    async def stop(self) -> None:
        """Ends the task. What was noted and is unsent is dropped."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def note(self, merchant_id: UUID) -> None:
        """Records that this merchant's log has grown."""
        if not self._grown:  # else the task is awake already
            self._wake.set()
        self._grown.add(merchant_id)

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            await asyncio.sleep(_GATHER_S)
            await self._notify_all()
            await asyncio.sleep(_PAUSE_S)

    async def _notify_all(self) -> None:
        self._wake.clear()
        grown, self._grown = list(self._grown), set()
        try:
            for n in range(0, len(grown), _MERCHANTS_MAX):
                await self._notify(grown[n : n + _MERCHANTS_MAX])
        except (DatabaseUnavailable, psycopg.Error, OSError) as fault:
            _log.warning("journal_growth_not_told", reason=type(fault).__name__)

    async def _notify(self, grown: Iterable[UUID]) -> None:
        async with self._client.turn() as connection:
            with QueryTimeout(connection):
                await connection.execute("select pg_notify(%s, %s)", (CHANNEL, ",".join(m.hex for m in grown)))


def merchants_in(payload: str) -> Iterable[UUID]:
    """Returns the merchants that a notification names, none if another program sent it."""
    with suppress(ValueError):
        return [UUID(hex=part) for part in payload.split(",")]
    return ()
