"""The turns of a process's moves at its connections: a move has one for a few statements, never for a whole move.

Do what becomes due outside of a turn. A merchant whose clock moves by years, or whose processor is slow, then delays
another one's move by the statements of one turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final
from uuid import UUID

import psycopg
from psycopg.pq import TransactionStatus

from ledger.background.clock.lock import being_moved
from ledger.background.scheduler.jobs import use_jobs_schema
from ledger.postgres.connection import Connection, connect_unless_one_waits

_AT_ONCE: Final = 2
"""How many moves have a turn at once, each with a connection: all connections are counted in advance (see
`postgres.connection_count`).
"""


class Turns:
    """The moves of one process, one of each merchant, and the connections at which they take turns.

    With `keeps_connections` they stay open for the next moves, otherwise until the last move ends.
    """

    def __init__(self, url: str) -> None:
        self.keeps_connections = False
        self._url = url
        self._moving: set[UUID] = set()
        self._idle: list[Connection] = []
        # It lets those that wait in by their order. A move asks for one turn at a time, so the merchants alternate.
        self._permits = asyncio.Semaphore(_AT_ONCE)

    @asynccontextmanager
    async def move_of(self, merchant_id: UUID) -> AsyncIterator[None]:
        """Counts a move for as long as the context lasts. Raises ConcurrentUpdate if the merchant has one here."""
        if merchant_id in self._moving:
            raise being_moved()
        self._moving.add(merchant_id)
        try:
            yield
        finally:
            self._moving.discard(merchant_id)
            if not self._moving and not self.keeps_connections:
                await self.close()

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[Connection]:
        """Waits for a turn and yields a connection, in autocommit, which uses the queue's schema.

        Raises psycopg.Error.
        """
        async with self._permits:
            connection = await self._connection()
            try:
                yield connection
            finally:
                if connection.info.transaction_status is TransactionStatus.IDLE:
                    self._idle.append(connection)
                else:
                    await connection.close()

    async def close(self) -> None:
        """Closes the connections that no turn has."""
        while self._idle:
            await self._idle.pop().close()

    async def _connection(self) -> Connection:
        """Returns a connection that was kept, if it still works, or a new one."""
        while self._idle:
            kept = self._idle.pop()
            with suppress(psycopg.OperationalError):
                await kept.execute("")
                return kept
            await kept.close()
        connection = await connect_unless_one_waits(self._url, "ledger-clock")
        await use_jobs_schema(connection)
        return connection
