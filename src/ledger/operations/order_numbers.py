"""Ordinals for order numbers: unique over the installation, taken from the database in blocks.

An ordinal is used once or never: a process that ends leaves the rest of its block unused. Gaps have no meaning.
"""

from __future__ import annotations

import asyncio
from typing import Final

from ledger.postgres.connection import DatabaseClient, QueryTimeout
from ledger.postgres.faults import DatabaseUnavailable

_BLOCK: Final = 1000

# The next block of a thousand ordinals.
_NEXT_BLOCK: Final = "select nextval('order_number_block')"


class OrderNumbers(DatabaseClient):
    """Issues ordinals, with one query for each thousand."""

    def __init__(self, url: str) -> None:
        super().__init__(url, "ledger-ordinals")
        self._next = self._end = 0
        self._lock = asyncio.Lock()

    async def take(self) -> int:
        """Returns an ordinal that no other order has.

        Raises DatabaseUnavailable where a new block is needed and missing.
        """
        while self._next == self._end:
            await self.provide()
        ordinal = self._next
        self._next += 1
        return ordinal

    async def provide(self) -> None:
        """Takes a new block where the last one is used up. Raises DatabaseUnavailable."""
        async with self._lock:
            if self._next == self._end:
                try:
                    await self._take_block()
                except DatabaseUnavailable:  # the connection may have been lost since the last block, long ago
                    await self._take_block()

    async def _take_block(self) -> None:
        async with self._connected() as connection:
            with QueryTimeout(connection):
                row = await (await connection.execute(_NEXT_BLOCK)).fetchone()
        assert row is not None, "a select without from has one row"
        self._next = row[0] * _BLOCK
        self._end = self._next + _BLOCK
