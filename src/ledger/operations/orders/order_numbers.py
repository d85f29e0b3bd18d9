"""Order numbers: made under the installation's key of ordinals that the database gives in blocks.

An ordinal is used once or never: a process that ends leaves the rest of its block unused. Gaps have no meaning.
"""

from __future__ import annotations

import asyncio
from typing import Final

from ledger.domain.ids import order_number
from ledger.postgres.connection import DatabaseClient, QueryTimeout
from ledger.postgres.faults import DatabaseUnavailable
from ledger.security.permutation import permute

_BLOCK: Final = 1000

# The next block of a thousand ordinals.
_NEXT_BLOCK: Final = "select nextval('order_number_block')"


class OrderNumbers(DatabaseClient):
    """Issues order numbers, with one query for each thousand. All processes of an installation have the same `key`."""

    def __init__(self, url: str, key: bytes) -> None:
        super().__init__(url, "ledger-ordinals")
        self._key = key
        self._unused: list[int] = []
        self._lock = asyncio.Lock()

    async def take(self) -> str:
        """Returns a number that no other order has.

        Raises DatabaseUnavailable where a new block is needed and missing.
        """
        while not self._unused:
            await self.provide()
        return order_number(self._unused.pop())

    async def provide(self) -> None:
        """Takes a new block where the last one is used up. Raises DatabaseUnavailable."""
        async with self._lock:
            if not self._unused:
                try:
                    await self._take_block()
                except DatabaseUnavailable:  # the connection may have been lost since the last block, long ago
                    await self._take_block()

    async def _take_block(self) -> None:
        async with self._connected() as connection:
            with QueryTimeout(connection):
                row = await (await connection.execute(_NEXT_BLOCK)).fetchone()
        assert row is not None, "a select without from has one row"
        first = row[0] * _BLOCK
        self._unused = permute(range(first, first + _BLOCK), self._key)
