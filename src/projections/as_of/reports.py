"""What reports of the past share: they may fold very many streams, and so one of them runs at a time in a process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final
from uuid import UUID
from weakref import WeakValueDictionary

from psycopg import IsolationLevel

from ledger.domain.rejections import ReportTooLarge
from ledger.postgres.connection import Connection, SharedClient

FOLDED_MAX: Final = 50_000
"""How many streams a report folds at most."""


class SnapshotClient(SharedClient):
    """A connection for several tasks in turn, whose transactions each see the database at one moment."""

    async def _open(self) -> Connection:
        connection = await super()._open()
        await connection.set_isolation_level(IsolationLevel.REPEATABLE_READ)
        return connection

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[Connection]:
        """Yields the connection in a transaction to one task at a time. Raises DatabaseUnavailable."""
        async with self.turn() as connection, connection.transaction():
            yield connection


class ReportClient(SnapshotClient):
    """The connection of reports, at which merchants take turns.

    The requests of a merchant wait for each other first, so that many of them delay another merchant by one alone.
    """

    def __init__(self, url: str) -> None:
        super().__init__(url, "ledger-summaries")
        self._of_merchants = WeakValueDictionary[UUID, asyncio.Lock]()

    @asynccontextmanager
    async def report(self, merchant_id: UUID) -> AsyncIterator[Connection]:
        """Yields the connection in a transaction to one report at a time. Raises DatabaseUnavailable."""
        of_merchant = self._of_merchants.setdefault(merchant_id, asyncio.Lock())
        async with of_merchant, self.snapshot() as connection:
            yield connection


def too_large(what: str, why: str, orders: int) -> ReportTooLarge:
    """Returns the refusal of a report."""
    return ReportTooLarge(
        f"The {what} would take too long: {why}. Ask as of a later time, or count in the file of `ledger export`.",
        orders=orders,
    )
