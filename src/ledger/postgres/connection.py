"""Connections to Postgres: direct, in autocommit, with time-outs, and with plans that use the keys.

Never connect through a transaction pooler. A lost connection is resolved by ending its backend by pid, and prepared
statements belong to their connection.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from itertools import count
from typing import Any, Final, Self

import psycopg
from psycopg.rows import tuple_row

from ledger.back_off import back_off_s
from ledger.postgres import arrays
from ledger.postgres.faults import UNAVAILABLE, DatabaseUnavailable

# Sequential and bitmap scans are never right for a lookup by key, but a plan that was made for an empty table prefers
# them and is kept. The time-outs limit the cost of a stuck session to its own request.
_LOCK_TIMEOUT: Final = "1s"
_SETTINGS: Final = {
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "jit": "off",
    "plan_cache_mode": "force_generic_plan",
    "statement_timeout": "10s",
    "lock_timeout": _LOCK_TIMEOUT,
    "idle_in_transaction_session_timeout": "10s",
}

_CONNECT_TIMEOUT_S: Final = 5
_RETRY_FIRST_S, _RETRY_MAX_S = 0.05, 1.0

_HAS_TRANSACTION_TIMEOUT: Final = 170_000

ANSWER_MAX_S: Final = 15.0
"""How long to wait for a silent server: longer than its own time-outs, so that their errors still arrive."""

_KEEP_ALIVE: Final[dict[str, Any]] = {
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}
"""Detects a server behind a silent network within eleven seconds (libpq's names; in seconds, the last in ms)."""

Connection = psycopg.AsyncConnection[tuple[Any, ...]]


def session_options(**changes: str) -> str:
    """Returns libpq's `options`: the settings that every connection of the service has, with these changes."""
    return " ".join(f"-c {name}={value}" for name, value in (_SETTINGS | changes).items())


def connect_arguments(name: str, options: str = "") -> dict[str, Any]:
    """Returns psycopg's arguments for a connection in autocommit, named `name` in the database's activity view.

    Without `options`, those of the connection string apply.
    """
    return {
        "autocommit": True,
        "application_name": name,
        "connect_timeout": _CONNECT_TIMEOUT_S,
        "options": options or None,
        **_KEEP_ALIVE,
    }


async def connect(
    url: str, name: str, *, lock_timeout: str = _LOCK_TIMEOUT, transaction_max_s: float | None = None
) -> Connection:
    """Opens a direct connection named `name` in the database's activity view. Raises psycopg.OperationalError.

    Postgres 17 or newer ends the connection at a transaction that takes longer than `transaction_max_s`, even while it
    waits for a client that is stopped in the middle of a transaction. No time-out of an older Postgres applies there.
    """
    arguments = connect_arguments(name, session_options(lock_timeout=lock_timeout))
    connection = await psycopg.AsyncConnection.connect(url, row_factory=tuple_row, **arguments)
    connection.prepare_threshold = 0
    connection.prepared_max = None
    arrays.register(connection)
    if transaction_max_s is not None and connection.info.server_version >= _HAS_TRANSACTION_TIMEOUT:
        await connection.execute(
            f"set transaction_timeout = '{transaction_max_s * 1000:.0f}ms'".encode(), prepare=False
        )
    return connection


async def reconnect(
    url: str, name: str, *, lock_timeout: str = _LOCK_TIMEOUT, transaction_max_s: float | None = None
) -> Connection:
    """Returns a connection as soon as the database answers again. Retries without end, with back-off."""
    for tries in count():
        try:
            return await connect(url, name, lock_timeout=lock_timeout, transaction_max_s=transaction_max_s)
        except psycopg.Error:
            await asyncio.sleep(back_off_s(tries, _RETRY_MAX_S, _RETRY_FIRST_S))
    raise AssertionError("it is tried without end")


class DatabaseClient:
    """A reader or worker with one connection of its own, which is opened again after it was lost.

    The connection is open while the context lasts. It serves one task at a time.
    """

    def __init__(self, url: str, name: str) -> None:
        self._url = url
        self._name = name
        self._connection: Connection | None = None

    async def __aenter__(self) -> Self:
        """Connects. Raises psycopg.OperationalError."""
        self._connection = await self._open()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._connection is not None:
            await self._connection.close()

    async def _open(self) -> Connection:
        return await connect(self._url, self._name)

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[Connection]:
        """Yields the connection. Raises DatabaseUnavailable, also for the block; the next call connects again."""
        try:
            if self._connection is None or self._connection.closed:
                self._connection = await self._open()
            yield self._connection
        except UNAVAILABLE as fault:
            raise DatabaseUnavailable(type(fault).__name__) from fault


class SharedClient(DatabaseClient):
    """A connection for short queries of several tasks, which use it in turn. It is opened for the first one."""

    def __init__(self, url: str, name: str) -> None:
        super().__init__(url, name)
        self._lock = asyncio.Lock()

    async def stop(self) -> None:
        """Disconnects."""
        await self.__aexit__()

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[Connection]:
        """Yields the connection to one task at a time. Raises like `_connected`."""
        async with self._lock, self._connected() as connection:
            yield connection


class QueryTimeout:
    """A block that ends within `seconds`: a server that is silent for longer has its connection cut, which then breaks.

    Cancelling the query instead would need an answer of the silent server.
    """

    __slots__ = ("_connection", "_seconds", "_timer")

    def __init__(self, connection: Connection, seconds: float = ANSWER_MAX_S) -> None:
        self._connection = connection
        self._seconds = seconds
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begins the block, for a caller whose block is no `with` statement."""
        self._timer = asyncio.get_running_loop().call_later(self._seconds, abort_connection, self._connection)

    def stop(self) -> None:
        """Ends the block, if it has begun."""
        if self._timer is not None:
            self._timer.cancel()

    def __enter__(self) -> None:
        self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


def abort_connection(connection: Connection) -> None:
    """Breaks a connection while a task waits for its answer."""
    with suppress(OSError, psycopg.OperationalError), socket.socket(fileno=os.dup(connection.fileno())) as wire:
        wire.shutdown(socket.SHUT_RDWR)


# The server process of this connection. Its pid may be reused; with its start time it identifies one process for ever.
_BACKEND: Final = "select pid, backend_start from pg_stat_activity where pid = pg_backend_pid()"

# Ends that process, and returns a row while it still exists.
_TERMINATE: Final = "select pg_terminate_backend(pid) from pg_stat_activity where pid = %s and backend_start = %s"

Backend = tuple[Any, ...]
"""The pid of a server process and the time of its start."""


async def backend_of(connection: Connection) -> Backend:
    """Returns the server process behind a connection, as `end_backend` takes it."""
    row = await (await connection.execute(_BACKEND)).fetchone()
    assert row is not None, "a backend sees itself"
    return row


async def end_backend(connection: Connection, backend: Backend) -> None:
    """Ends that server process and returns once it is gone: its uncommitted statements stay uncommitted."""
    while await (await connection.execute(_TERMINATE, backend)).fetchone() is not None:  # noqa: ASYNC110 - no event
        await asyncio.sleep(0.01)
