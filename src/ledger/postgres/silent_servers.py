"""Servers that are silent: their connections stay open, and nothing is answered on any of them.

A machine whose processes are stopped is such a server, also after another one was promoted. Each connection would
notice it alone, only once it is asked something, and after a time-out of its own. So the first one that notices it has
all connections of the process to that server cut.

Never call a server silent that has answered on any connection meanwhile. A commit that waits for its synchronous
standby has no answer, and its server is well.
"""

from __future__ import annotations

import os
import select
import socket
import time
from contextlib import suppress
from typing import Any, Final, Self, TypeVar
from weakref import WeakSet

import psycopg
import structlog
from psycopg.abc import PQGen
from psycopg.pq import PipelineStatus, TransactionStatus
from psycopg.pq.abc import PGconn
from psycopg.rows import AsyncRowFactory, tuple_row

from ledger.postgres.primary_search import Server, connect_to_primary, servers_to_search

T = TypeVar("T")

_log = structlog.get_logger()

SILENT_S: Final = 11.0
"""How long a statement is unanswered before its server may be silent: longer than the server's own time-outs, whose
errors would have arrived.
"""

_CANCEL_MAX_S: Final = 1.0
"""How long a server may take to accept that a statement is to end, whose task was cancelled."""

_CLOSED_BY_SERVER: Final = getattr(select, "POLLRDHUP", 0)  # of Linux; elsewhere it is POLLHUP
_OVER: Final = _CLOSED_BY_SERVER | select.POLLHUP | select.POLLERR

WAIT_INTERVAL_S: Final = 0.1
"""psycopg's own pause between looks at an interrupt."""


class WatchedConnection(psycopg.AsyncConnection[tuple[Any, ...]]):
    """A connection that is cut with all others to its server if that is silent.

    One that is opened by a string with several servers looks for the primary among all of them.
    """

    def __init__(self, pgconn: PGconn, row_factory: AsyncRowFactory[Any] = tuple_row) -> None:
        super().__init__(pgconn, row_factory)
        self.server = pgconn.host, pgconn.hostaddr, pgconn.port
        self._heard_s = time.monotonic()
        _open.add(self)

    @classmethod
    async def connect(cls, conninfo: str = "", **options: Any) -> Self:
        """Opens a connection with psycopg's options. Raises psycopg.OperationalError."""
        connect = super().connect
        servers = servers_to_search(conninfo)
        if not servers:
            return await connect(conninfo, **options)

        async def connect_to(server: Server) -> Self:
            return await connect(conninfo, **options | server.options)

        return await connect_to_primary(servers, connect_to)

    def heard(self) -> None:
        """Records that the server has answered."""
        self._heard_s = time.monotonic()

    @property
    def is_over(self) -> bool:
        """Whether either side has closed the connection. One that nothing has used since the server ended it, perhaps
        long ago, has something unread, which is no answer of now.
        """
        return self.closed or bool(_polled(self) & _OVER)

    def is_silent_since(self, since_s: float) -> bool:
        """Returns whether the server has answered nothing since then (seconds of the monotonic clock). An answer that
        has arrived and is not read yet is one.
        """
        return self._heard_s <= since_s and not _has_unread(self)

    def cut(self) -> None:
        """Breaks the connection under the task that waits for an answer, or that is between two statements of a
        transaction; without one, closes it.

        A transaction block whose connection was closed ends without an error, as if it had committed.
        """
        is_idle = self.pgconn.transaction_status == TransactionStatus.IDLE
        if self.lock.locked() or self.pgconn.pipeline_status != PipelineStatus.OFF or not is_idle:
            abort_connection(self)
        else:
            self.pgconn.finish()

    async def cancel_safe(self, *, timeout: float = _CANCEL_MAX_S) -> None:  # noqa: ASYNC109 - psycopg's signature
        """Asks the server to end the statement that is under way. psycopg does so when a task is cancelled that waits
        for a statement, and waits then for the statement's end.

        Breaks the connection if the server does not accept that in time, so that nothing waits. Raises
        psycopg.OperationalError.
        """
        try:
            await super().cancel_safe(timeout=min(timeout, _CANCEL_MAX_S))
        except psycopg.OperationalError:
            abort_connection(self)
            raise

    async def wait(self, gen: PQGen[T], interval: float = WAIT_INTERVAL_S, timeout: float | None = None) -> T:  # noqa: ASYNC109 - psycopg's signature
        try:
            result = await super().wait(gen, interval, timeout)
        except psycopg.Error as refusal:
            if refusal.sqlstate is not None:  # an answer
                self.heard()
            raise
        self.heard()  # a wait that timed out, as a listener's does, heard nothing
        return result


_open: Final[WeakSet[WatchedConnection]] = WeakSet()


def cut_if_silent(connection: psycopg.AsyncConnection[Any]) -> bool:
    """Cuts all connections to the server of this one, whose statement is unanswered for SILENT_S, if the server has
    answered nothing on any of them since. Returns whether they are cut.
    """
    if not isinstance(connection, WatchedConnection) or connection.closed:
        return False
    since_s = time.monotonic() - SILENT_S
    theirs = open_beside(connection)
    if not theirs:
        return True  # another statement's look has just cut them all, and the tasks that wait have not run since
    if not all(each.is_silent_since(since_s) for each in theirs):
        return False
    for each in theirs:
        each.cut()
    _log.warning("database_silent", seconds=SILENT_S, connections=len(theirs))
    return True


def open_beside(connection: WatchedConnection) -> list[WatchedConnection]:
    """Returns the open connections of this process to the same server, this one among them."""
    return [each for each in open_connections() if each.server == connection.server]


def open_connections() -> list[WatchedConnection]:
    """Returns the open connections of this process to all servers."""
    return [each for each in _open if not each.is_over]


def abort_connection(connection: psycopg.AsyncConnection[Any]) -> None:
    """Breaks a connection while a task waits for its answer."""
    with suppress(OSError, psycopg.OperationalError), socket.socket(fileno=os.dup(connection.fileno())) as wire:
        wire.shutdown(socket.SHUT_RDWR)


def has_ended(connection: psycopg.AsyncConnection[Any]) -> bool:
    """Returns whether the server has ended a connection: nothing else is sent to an idle one. What arrives while a
    statement is under way is its answer.
    """
    return connection.closed or (not connection.lock.locked() and _has_unread(connection))


def _has_unread(connection: psycopg.AsyncConnection[Any]) -> bool:
    return bool(_polled(connection))


def _polled(connection: psycopg.AsyncConnection[Any]) -> int:
    """Returns what has arrived on a connection: poll's flags."""
    arrived = select.poll()
    arrived.register(connection.fileno(), select.POLLIN | _CLOSED_BY_SERVER)
    return sum(flags for _, flags in arrived.poll(0))
