"""Where list queries run: a few connections apart from the point reads, which a long list must never hold up.

The rule a stranger would break: every list has a time limit and a place in a bounded queue. A list that takes longer
fails alone, with a fault that says "later", and takes nobody with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import psycopg
from psycopg_pool import AsyncConnectionPool, PoolTimeout, TooManyRequests

from ledger.postgres.connection import KEEP_ALIVE, Connection, QueryTimeout
from ledger.postgres.faults import DatabaseUnavailable, QueueFull

# Lists are read in the order of an index; over a small or fresh table the planner prefers to scan and sort, and would
# keep that plan. A plan made anew for the values of each list costs more than the list. What a search finds in a large
# merchant's orders is put together in memory, by at most so many lists at once as there are connections.
_SETTINGS: Final = {
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "jit": "off",
    "work_mem": "32MB",
    "plan_cache_mode": "force_generic_plan",
    "statement_timeout": "5s",
    "lock_timeout": "500ms",  # on top of the patience before the pool: whoever is refused is refused within two seconds
    "idle_in_transaction_session_timeout": "5s",
    "default_transaction_read_only": "on",
}
_CONNECTIONS_MAX: Final = 4
_WAITING_MAX: Final = 200
_PATIENCE_S: Final = 1.5
_ANSWER_MAX_S: Final = 8.0


class ListPool:
    """Runs list queries on a small pool; connections that were lost are replaced behind the scenes."""

    def __init__(self, url: str) -> None:
        options = " ".join(f"-c {name}={value}" for name, value in _SETTINGS.items())
        self._pool: AsyncConnectionPool[Connection] = AsyncConnectionPool(
            url,
            kwargs={
                "autocommit": True,
                "application_name": "ledger-lists",
                "options": options,
                "prepare_threshold": 0,
                "connect_timeout": 5,
                **KEEP_ALIVE,
            },
            min_size=1,
            max_size=_CONNECTIONS_MAX,
            max_waiting=_WAITING_MAX,
            timeout=_PATIENCE_S,
            check=AsyncConnectionPool.check_connection,
            open=False,
            name="ledger-lists",
        )

    async def start(self) -> None:
        """Connect. Raises psycopg.OperationalError."""
        await self._pool.open(wait=True, timeout=10)

    async def stop(self) -> None:
        await self._pool.close()

    async def rows(self, statement: str, parameters: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        """All rows of a list query. Raises DatabaseUnavailable or QueueFull."""
        return await self.first_rows([statement], parameters)

    async def first_rows(self, statements: Iterable[str], parameters: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        """All rows of the first of some list queries that gives any; each has its own time limit.

        Raises DatabaseUnavailable or QueueFull.
        """
        rows: list[tuple[Any, ...]] = []
        try:
            async with self._pool.connection() as connection:
                for statement in statements:
                    with QueryTimeout(connection, _ANSWER_MAX_S):
                        answer = await connection.execute(statement, parameters, binary=True)
                        if rows := await answer.fetchall():
                            break
                return rows
        except TooManyRequests as fault:
            raise QueueFull("too many lists wait") from fault
        except (psycopg.OperationalError, PoolTimeout) as fault:
            raise DatabaseUnavailable(type(fault).__name__) from fault
