"""The connections of list queries: a small pool apart from the point reads, which a long list must never delay.

Every list has a time limit and a place in a bounded queue. A list that takes longer fails alone, and its client is
asked to try later.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

import psycopg
from psycopg_pool import AsyncConnectionPool, PoolTimeout, TooManyRequests

from ledger.postgres.connection import QueryTimeout, apply_settings, connect_arguments, session_settings
from ledger.postgres.faults import DatabaseUnavailable, QueueFull

# A list is read in the order of an index. Over a small or fresh table the planner prefers to scan and sort, and would
# keep that plan; a new plan for the values of each list costs more than the list. A search collects its matches of a
# large merchant in memory; at most as many searches run at once as there are connections.
SETTINGS: Final = session_settings(
    work_mem="32MB",
    statement_timeout="5s",
    lock_timeout="500ms",  # beside the wait for a connection: a list that is refused is refused within two seconds
    idle_in_transaction_session_timeout="5s",
    default_transaction_read_only="on",
)
_CONNECTIONS_MAX: Final = 4
_QUEUE_MAX: Final = 200
_CONNECTION_WAIT_S: Final = 1.5
_ANSWER_MAX_S: Final = 8.0


class ListPool:
    """Runs list queries on a small pool, which replaces connections that were lost."""

    def __init__(self, url: str) -> None:
        self._pool: AsyncConnectionPool[psycopg.AsyncConnection[tuple[Any, ...]]] = AsyncConnectionPool(
            url,
            kwargs={"prepare_threshold": 0, **connect_arguments("ledger-lists")},
            configure=partial(apply_settings, settings=SETTINGS),
            min_size=1,
            max_size=_CONNECTIONS_MAX,
            max_waiting=_QUEUE_MAX,
            timeout=_CONNECTION_WAIT_S,
            check=AsyncConnectionPool.check_connection,
            open=False,
            name="ledger-lists",
        )

    async def start(self) -> None:
        """Connects. Raises psycopg.OperationalError."""
        await self._pool.open(wait=True, timeout=10)

    async def stop(self) -> None:
        await self._pool.close()

    async def rows(self, statement: str, parameters: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        """Returns all rows of a list query. Raises DatabaseUnavailable or QueueFull."""
        return await self.first_rows([statement], parameters)

    async def write(self, statement: str, parameters: Mapping[str, Any]) -> None:
        """Runs a statement that writes, on a connection that otherwise may only read. Raises DatabaseUnavailable or
        QueueFull.
        """
        with _as_faults():
            async with self._pool.connection() as connection, connection.transaction():
                await connection.execute("set transaction read write")
                await connection.execute(statement, parameters)

    async def first_rows(self, statements: Iterable[str], parameters: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        """Returns all rows of the first query that has any. Each query has its own time limit.

        Raises DatabaseUnavailable or QueueFull.
        """
        rows: list[tuple[Any, ...]] = []
        with _as_faults():
            async with self._pool.connection() as connection:
                for statement in statements:
                    with QueryTimeout(connection, _ANSWER_MAX_S):
                        cursor = await connection.execute(statement, parameters, binary=True)
                        if rows := await cursor.fetchall():
                            break
        return rows


@contextmanager
def _as_faults() -> Iterator[None]:
    try:
        yield
    except TooManyRequests as fault:
        raise QueueFull("too many lists wait") from fault
    except (psycopg.OperationalError, PoolTimeout) as fault:
        raise DatabaseUnavailable(type(fault).__name__) from fault
