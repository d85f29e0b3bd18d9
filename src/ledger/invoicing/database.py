"""A connection that is opened when it is first used: an installation without electronic invoices opens none."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ledger.postgres.connection import Connection, DatabaseClient


class OnDemandConnection(DatabaseClient):
    """One connection, which its users take in turns. `stop` closes it; a later use opens it again."""

    def __init__(self, url: str, name: str) -> None:
        super().__init__(url, name)
        self._turn = asyncio.Lock()

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Connection]:
        """Yields the connection inside a transaction. Raises DatabaseUnavailable, also for the block."""
        async with self._turn, self._connected() as connection, connection.transaction():
            yield connection

    async def stop(self) -> None:
        async with self._turn:
            if self._connection is not None:
                await self._connection.close()
                self._connection = None
