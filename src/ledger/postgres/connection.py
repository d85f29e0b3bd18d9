"""How the journal's own connections are opened: direct, in autocommit, bounded in time, with plans that stay on the keys.

The rule a stranger would break: never through a transaction pooler. A lost connection is resolved by ending its backend
by pid, and prepared statements live on the connection.
"""

from __future__ import annotations

import asyncio
import os
import socket
from contextlib import suppress
from typing import Any, Final

import psycopg
from psycopg.rows import tuple_row

from ledger.postgres import arrays

# Sequential and bitmap scans are never right for a probe by key, but a plan made over an empty table prefers them and
# is kept for ever. Time-outs: a stuck neighbour costs its own request, not the service.
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
OPTIONS: Final = " ".join(f"-c {key}={value}" for key, value in _SETTINGS.items())
"""The same as libpq's `options`."""

_RETRY_FIRST_S, _RETRY_MAX_S = 0.05, 1.0

ANSWER_MAX_S: Final = 15.0
"""When a server that says nothing is given up: later than its own time-outs, which it cannot tell us of once it is cut off."""

KEEP_ALIVE: Final[dict[str, Any]] = {
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}
"""A server behind a network that has gone silent is noticed within eleven seconds (libpq's names; seconds, milliseconds)."""

Connection = psycopg.AsyncConnection[tuple[Any, ...]]


async def connect(url: str, name: str, *, lock_timeout: str = _LOCK_TIMEOUT) -> Connection:
    """A direct connection named `name` in the database's activity view. Raises psycopg.OperationalError."""
    connection = await psycopg.AsyncConnection.connect(
        url,
        autocommit=True,
        application_name=name,
        connect_timeout=5,
        options=f"{OPTIONS} -c lock_timeout={lock_timeout}",
        row_factory=tuple_row,
        **KEEP_ALIVE,
    )
    connection.prepare_threshold = 0
    connection.prepared_max = None
    arrays.register(connection)
    return connection


class QueryTimeout:
    """A block that ends within `seconds`: where the server is silent for longer, its connection is cut and breaks.

    Cancelling the query instead would need the silent server's help.
    """

    __slots__ = ("_connection", "_seconds", "_timer")

    def __init__(self, connection: Connection, seconds: float = ANSWER_MAX_S) -> None:
        self._connection = connection
        self._seconds = seconds

    def __enter__(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._seconds, self._cut)

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()

    def _cut(self) -> None:
        abort_connection(self._connection)


def abort_connection(connection: Connection) -> None:
    """Break a connection under whoever waits for its answer."""
    with suppress(OSError, psycopg.OperationalError), socket.socket(fileno=os.dup(connection.fileno())) as wire:
        wire.shutdown(socket.SHUT_RDWR)


async def reconnect(url: str, name: str, *, lock_timeout: str = _LOCK_TIMEOUT) -> Connection:
    """A connection as soon as the database answers again, asking with back-off for as long as it takes."""
    pause = _RETRY_FIRST_S
    while True:
        try:
            return await connect(url, name, lock_timeout=lock_timeout)
        except psycopg.OperationalError:
            await asyncio.sleep(pause)
            pause = min(2 * pause, _RETRY_MAX_S)


# The backend's pid alone may be reused; with its start time it names one backend for ever.
_WHO_AM_I: Final = "select pid, backend_start from pg_stat_activity where pid = pg_backend_pid()"
_END: Final = "select pg_terminate_backend(pid) from pg_stat_activity where pid = %s and backend_start = %s"

Backend = tuple[Any, ...]


async def backend_of(connection: Connection) -> Backend:
    """The server process behind a connection, as `end_backend` takes it."""
    row = await (await connection.execute(_WHO_AM_I)).fetchone()
    assert row is not None, "a backend sees itself"
    return row


async def end_backend(connection: Connection, backend: Backend) -> None:
    """Return only when that server process is gone: what it had received and not committed, it never will."""
    while await (await connection.execute(_END, backend)).fetchone() is not None:  # noqa: ASYNC110 - another process ends, nobody tells us
        await asyncio.sleep(0.01)
