"""Tells whoever follows all logs which of them have grown: a word after the commit, never a part of it.

The rule a stranger would break: a lost word loses nothing. It is said on a connection of its own, outside every transaction
that writes, so that no command waits for it; who listens looks by itself, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from typing import Final
from uuid import UUID

import psycopg
import structlog

from ledger.postgres.connection import Connection, QueryTimeout, connect

_log = structlog.get_logger()

CHANNEL: Final = "ledger_log"
_GATHER_S: Final = 0.05
_REST_S: Final = 0.2  # who listens rests as long
_AT_ONCE: Final = 200  # a word holds less than 8,000 bytes


class Notifier:
    """Gathers for a twentieth of a second which merchants' logs have grown, and says so; four times a second at most."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._grown: set[UUID] = set()
        self._wake = asyncio.Event()
        self._connection: Connection | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to listen to `note`; it connects when there is something to say."""
        self._task = asyncio.create_task(self._run(), name="journal-announcer")

    async def stop(self) -> None:
        """Say nothing more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._connection is not None:
            await self._connection.close()

    def note(self, merchant_id: UUID) -> None:
        """Something was committed to this merchant's log."""
        self._grown.add(merchant_id)
        self._wake.set()

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            await asyncio.sleep(_GATHER_S)
            await self._say()
            await asyncio.sleep(_REST_S)

    async def _say(self) -> None:
        self._wake.clear()
        grown, self._grown = list(self._grown), set()
        try:
            for n in range(0, len(grown), _AT_ONCE):
                await self._notify(grown[n : n + _AT_ONCE])
        except (psycopg.Error, OSError) as fault:
            _log.warning("journal_growth_not_told", reason=type(fault).__name__)

    async def _notify(self, grown: Iterable[UUID]) -> None:
        if self._connection is None or self._connection.closed:
            self._connection = await connect(self._url, "ledger-announcer")
        with QueryTimeout(self._connection):
            await self._connection.execute("select pg_notify(%s, %s)", (CHANNEL, ",".join(m.hex for m in grown)))


def merchants_in(word: str) -> Iterable[UUID]:
    """The merchants that a word on the channel names; none where it is somebody else's."""
    with suppress(ValueError):
        return [UUID(hex=part) for part in word.split(",")]
    return ()
