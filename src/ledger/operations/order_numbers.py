"""Ordinals for order numbers: unique over the installation, taken from the database a block at a time.

The rule a stranger would break: an ordinal is used at most once and may be used never. A process that ends leaves the
rest of its block unused, and nobody reads meaning into the gaps.
"""

from __future__ import annotations

import asyncio
from typing import Final

import psycopg

from ledger.postgres.connection import connect
from ledger.postgres.faults import DatabaseUnavailable

_BLOCK: Final = 1000

# The next block of a thousand ordinals.
_NEXT_BLOCK: Final = "select nextval('order_number_block')"


class OrderNumbers:
    """Hands out ordinals, one database visit per thousand."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._next = self._end = 0
        self._lock = asyncio.Lock()

    async def take(self) -> int:
        """An ordinal that nobody else has. Raises DatabaseUnavailable when a new block cannot be had."""
        while self._next == self._end:
            async with self._lock:
                if self._next == self._end:
                    await self._take_block()
        ordinal = self._next
        self._next += 1
        return ordinal

    async def _take_block(self) -> None:
        try:
            async with await connect(self._url, "ledger-ordinals") as connection:
                row = await (await connection.execute(_NEXT_BLOCK)).fetchone()
        except psycopg.OperationalError as fault:
            raise DatabaseUnavailable(type(fault).__name__) from fault
        assert row is not None, "a sequence always answers"
        self._next = row[0] * _BLOCK
        self._end = self._next + _BLOCK
