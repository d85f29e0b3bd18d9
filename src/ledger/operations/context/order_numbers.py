"""Order numbers: made under the installation's key of ordinals that the database gives in blocks.

An ordinal is used once or never: a process that ends leaves the rest of its block unused. Gaps have no meaning.
"""

from __future__ import annotations

import asyncio
from typing import Final

import psycopg

from ledger.domain.orders.order_number import order_number
from ledger.postgres.connection import DatabaseClient, QueryTimeout
from ledger.postgres.faults import DatabaseUnavailable
from ledger.security.permutation import permute

_BLOCK: Final = 1000

_BLOCKS_PER_SECOND: Final = 64
"""More blocks than an installation uses in any second, so that their count stays behind that of the seconds since 2026.
The numbers suffice for 139 years of it: 2^48 ordinals."""

_SKIPPED_MIN: Final = 1_000_000
"""How many blocks are left out if the machine's clock is behind: a thousand million orders."""

# The next block of a thousand ordinals.
_NEXT_BLOCK: Final = "select nextval('order_number_block')"


# Moves the blocks on: behind every block that was given out before now, however old this copy of the database is.
_MOVE_ON: Final = """
select setval('order_number_block', greatest(
  (select last_value from order_number_block) + %s,
  floor(extract(epoch from clock_timestamp() - timestamptz '2026-01-01Z') * %s)::int8))
"""


class OrderNumbers(DatabaseClient):
    """Issues order numbers, with one query for each thousand. All processes of an installation have the same `key`."""

    def __init__(self, url: str, key: bytes) -> None:
        super().__init__(url, "ledger-ordinals")
        self._key = key
        self._unused: list[str] = []
        self._lock = asyncio.Lock()

    async def take(self) -> str:
        """Returns a number that no other order has.

        Raises DatabaseUnavailable if a new block is needed and missing.
        """
        while not self._unused:
            await self.provide()
        return self._unused.pop()

    async def provide(self) -> None:
        """Takes a new block if the last one is used up. Raises DatabaseUnavailable."""
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
        self._unused = [order_number(place) for place in permute(range(first, first + _BLOCK), self._key)]


def move_on(connection: psycopg.Connection) -> None:
    """Leaves out the order numbers that may have been given out after the moment of a restored copy, as its owner.

    A second restore of the same backup moves on further than the first: the blocks follow the clock.
    """
    connection.execute(_MOVE_ON, (_SKIPPED_MIN, _BLOCKS_PER_SECOND))
