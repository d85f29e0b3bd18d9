"""The connections at which the past is read. A report may fold very many streams: one runs at a time in a process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final, TypeVar
from uuid import UUID
from weakref import WeakValueDictionary

from psycopg import IsolationLevel

from ledger.domain.rejections import ReportTooLarge
from ledger.postgres.connection import Connection, SharedClient
from ledger.postgres.replica import Position, ReplicaUse, connect_replica, require_replayed

T = TypeVar("T")

FOLDED_MAX: Final = 50_000
"""How many streams a report folds at most."""


class SnapshotClient(SharedClient):
    """A connection for several tasks in turn, whose transactions each see the database at one moment.

    The tasks of a merchant wait for each other first, so that many of them delay another merchant by one alone.
    """

    def __init__(self, url: str, name: str) -> None:
        super().__init__(url, name)
        self._of_merchants = WeakValueDictionary[UUID, asyncio.Lock]()

    async def _open(self) -> Connection:
        connection = await self._connect()
        await connection.set_isolation_level(IsolationLevel.REPEATABLE_READ)
        return connection

    async def _connect(self) -> Connection:
        return await super()._open()

    @asynccontextmanager
    async def snapshot(self, merchant_id: UUID) -> AsyncIterator[Connection]:
        """Yields the connection in a transaction to one task at a time. Raises DatabaseUnavailable."""
        async with self._turn_of(merchant_id), self._transaction() as connection:
            yield connection

    def _turn_of(self, merchant_id: UUID) -> asyncio.Lock:
        return self._of_merchants.setdefault(merchant_id, asyncio.Lock())

    @asynccontextmanager
    async def _transaction(self) -> AsyncIterator[Connection]:
        async with self.turn() as connection, connection.transaction():
            yield connection


class _ReplicaClient(SnapshotClient):
    """The same at a replica."""

    async def _connect(self) -> Connection:
        return await connect_replica(self._url, self._name)


class ReportClient(SnapshotClient):
    """The connection of reports. A `replica` answers those that it can."""

    def __init__(self, url: str, replica: ReplicaUse | None = None) -> None:
        super().__init__(url, "ledger-summaries")
        self._replica = replica
        self._at_replica = None if replica is None else _ReplicaClient(replica.url, "ledger-replica-summaries")

    async def stop(self) -> None:
        """Disconnects."""
        await super().stop()
        if self._at_replica is not None:
            await self._at_replica.stop()

    async def read(self, merchant_id: UUID, read: Callable[[Connection], Awaitable[T]]) -> T:
        """Returns what `read` reads in a transaction, one report at a time, at the replica if that can answer.

        Raises DatabaseUnavailable, and like `read`.
        """
        async with self._turn_of(merchant_id):
            found = None
            if self._replica is not None:
                found = await self._replica.ask(lambda position: self._read_at_replica(position, read))
            if found is None:
                async with self._transaction() as connection:
                    found = await read(connection)
        return found

    async def _read_at_replica(self, position: Position, read: Callable[[Connection], Awaitable[T]]) -> T:
        assert self._at_replica is not None, "there is a replica"
        async with self._at_replica.turn() as connection:
            await require_replayed(connection, position)
            async with connection.transaction():
                return await read(connection)


def too_large(what: str, why: str, orders: int) -> ReportTooLarge:
    """Returns the refusal of a report."""
    return ReportTooLarge(
        f"The {what} would take too long: {why}. Ask as of a later time, or count in the file of `ledger export`.",
        orders=orders,
    )
