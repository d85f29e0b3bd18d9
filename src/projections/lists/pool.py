"""The connections of list queries: a small pool apart from the point reads, which a long list must never delay.

Every list has a time limit and a place in a bounded queue. A list that takes longer fails alone, and its client is
asked to try later.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

import psycopg
from psycopg_pool import AsyncConnectionPool, PoolTimeout, TooManyRequests

from ledger.postgres.connection import LIST_SETTINGS, WITHOUT_WAIT, QueryTimeout, apply_settings, connect_arguments
from ledger.postgres.faults import UNAVAILABLE, DatabaseUnavailable, QueueFull
from ledger.postgres.node_reads import LOCK_TIMEOUT, READ_SHARDS, elsewhere
from ledger.postgres.replica import Position, require_replayed
from ledger.postgres.shards import HOLD, Shard
from ledger.postgres.silent_servers import WatchedConnection

_CONNECTIONS_MAX: Final = 4
_QUEUE_MAX: Final = 200
_CONNECTION_WAIT_S: Final = 1.5
_ANSWER_MAX_S: Final = 8.0
_RETRY_MAX_S: Final = 2.0
"""The pool doubles its pauses, so that it would come back long after its server. A query looks at once."""


async def _check(connection: psycopg.AsyncConnection[Any]) -> None:
    """Raises psycopg.OperationalError if a connection was lost, also at a server that is silent."""
    with QueryTimeout(connection, _ANSWER_MAX_S):
        await AsyncConnectionPool.check_connection(connection)


_configure: Final = partial(apply_settings, settings=LIST_SETTINGS)


class ListPool:
    """Runs list queries on a small pool. It replaces connections that were lost at once, and then with each query."""

    def __init__(
        self,
        url: str,
        name: str = "ledger-lists",
        configure: Callable[[psycopg.AsyncConnection[Any]], Awaitable[None]] = _configure,
    ) -> None:
        self._pool: AsyncConnectionPool[psycopg.AsyncConnection[tuple[Any, ...]]] = AsyncConnectionPool(
            url,
            connection_class=WatchedConnection,
            kwargs={"prepare_threshold": 0, **connect_arguments(name)},
            configure=configure,
            min_size=1,
            max_size=_CONNECTIONS_MAX,
            max_waiting=_QUEUE_MAX,
            timeout=_CONNECTION_WAIT_S,
            reconnect_timeout=_RETRY_MAX_S,
            check=_check,
            open=False,
            name=name,
        )

    async def start(self) -> None:
        """Connects. Raises psycopg.OperationalError."""
        await self._pool.open(wait=True, timeout=10)

    async def begin(self) -> None:
        """Begins to connect, to a server that may be away."""
        await self._pool.open()

    async def stop(self) -> None:
        await self._pool.close()

    async def rows(self, statement: str, parameters: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        """Returns all rows of a list query. Raises DatabaseUnavailable or QueueFull."""
        return await self.first_rows([statement], parameters)

    async def write(self, statement: str, parameters: Mapping[str, Any]) -> None:
        """Runs a statement that writes, on a connection that otherwise may only read. Its commit waits for no disk and
        no standby: a crash may lose what it wrote. Raises DatabaseUnavailable or QueueFull.
        """
        with _as_faults():
            async with self._pool.connection() as connection:
                with QueryTimeout(connection, _ANSWER_MAX_S):
                    async with connection.transaction():
                        await connection.execute("set transaction read write")
                        await connection.execute(WITHOUT_WAIT)
                        await connection.execute(statement, parameters)

    async def first_rows(
        self,
        statements: Iterable[str],
        parameters: Mapping[str, Any],
        position: Position | None = None,
        shard: Shard | None = None,
    ) -> list[tuple[Any, ...]]:
        """Returns all rows of the first query that has any. Each query has its own time limit.

        With a `position`, the server is a replica, which has to show the primary's log up to there. With a `shard`, it
        is a node of Citus, which has to have the shard. Raises DatabaseUnavailable or QueueFull, like
        `require_replayed`, and Elsewhere.
        """
        rows: list[tuple[Any, ...]] = []
        with _as_faults():
            async with self._pool.connection() as connection:
                if position is not None:
                    with QueryTimeout(connection, _ANSWER_MAX_S):
                        await require_replayed(connection, position)
                for statement in statements:
                    with QueryTimeout(connection, _ANSWER_MAX_S):
                        if shard is None:
                            cursor = await connection.execute(statement, parameters, binary=True)
                        else:
                            cursor = await _on_shard(connection, shard, statement, parameters)
                        if rows := await cursor.fetchall():
                            break
        return rows


class NodeLists:
    """The lists of one merchant on the node of Citus that has its shard. They raise Elsewhere if it is not there."""

    def __init__(self, lists: ListPool, shard: Shard) -> None:
        self._lists, self._shard = lists, shard

    async def rows(self, statement: str, parameters: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        return await self.first_rows([statement], parameters)

    async def first_rows(self, statements: Iterable[str], parameters: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        return await self._lists.first_rows(statements, parameters, shard=self._shard)


async def configure_node(connection: psycopg.AsyncConnection[Any]) -> None:
    """Gives a new session at a node of Citus its settings. Raises psycopg.Error."""
    await apply_settings(connection, {**LIST_SETTINGS, "lock_timeout": LOCK_TIMEOUT})
    await connection.execute(READ_SHARDS)


async def _on_shard(
    connection: psycopg.AsyncConnection[Any], shard: Shard, statement: str, parameters: Mapping[str, Any]
) -> psycopg.AsyncCursor[Any]:
    """Executes a query of a shard's merchant in one transaction and one round trip with the hold of the shard: it lets
    go when the query has ended, at the latest after the query's own time limit.
    """
    with elsewhere():
        async with connection.pipeline():
            await connection.execute(HOLD.format(shard=shard.id))
            return await connection.execute(shard.statement(statement), parameters, binary=True)


@contextmanager
def _as_faults() -> Iterator[None]:
    try:
        yield
    except TooManyRequests as fault:
        raise QueueFull("too many lists wait") from fault
    except (*UNAVAILABLE, PoolTimeout) as fault:
        raise DatabaseUnavailable(type(fault).__name__) from fault
