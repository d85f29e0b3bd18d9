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
_LEFT_MIN: Final = 300
"""How many numbers are left when the next block is taken, ahead of its use."""

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
        self._taking: asyncio.Task[None] | None = None

    async def __aexit__(self, *_: object) -> None:
        if self._taking is not None:
            self._taking.cancel()
        await super().__aexit__()

    def at_hand(self) -> str | None:
        """Returns a number that no other order has, or None if a new block has to be waited for."""
        if len(self._unused) <= _LEFT_MIN:
            self._begin()
        return self._unused.pop() if self._unused else None

    async def take(self) -> str:
        """Returns a number that no other order has.

        Raises DatabaseUnavailable if a new block is needed and missing.
        """
        while (number := self.at_hand()) is None:
            await self.provide()
        return number

    async def provide(self) -> None:
        """Waits for a new block if the last one is used up. Raises DatabaseUnavailable."""
        if not self._unused:
            await asyncio.shield(self._begin())

    def _begin(self) -> asyncio.Task[None]:
        """Takes the next block, unless that is under way. All callers that wait for it continue at once.

        A lock would be left by one of them in each turn of the event loop, while new callers took the numbers.
        """
        if self._taking is None or self._taking.done():
            self._taking = asyncio.create_task(self._take_block())
            self._taking.add_done_callback(_note_end)
        return self._taking

    async def _take_block(self) -> None:
        try:
            first = await self._next_block()
        except DatabaseUnavailable:  # the connection may have been lost since the last block, long ago
            first = await self._next_block()
        block = [order_number(place) for place in permute(range(first, first + _BLOCK), self._key)]
        self._unused = block + self._unused

    async def _next_block(self) -> int:
        """Returns the first ordinal of a block that no other process has."""
        async with self._connected() as connection:
            with QueryTimeout(connection):
                row = await (await connection.execute(_NEXT_BLOCK)).fetchone()
        assert row is not None, "a select without from has one row"
        return int(row[0]) * _BLOCK


def _note_end(taking: asyncio.Task[None]) -> None:
    """Takes note of the fault of a block that was taken ahead: the caller that needs the block meets its own."""
    if not taking.cancelled():
        taking.exception()


def move_on(connection: psycopg.Connection) -> None:
    """Leaves out the order numbers that may have been given out after the moment of a restored copy, as its owner.

    A second restore of the same backup moves on further than the first: the blocks follow the clock.
    """
    connection.execute(_MOVE_ON, (_SKIPPED_MIN, _BLOCKS_PER_SECOND))
