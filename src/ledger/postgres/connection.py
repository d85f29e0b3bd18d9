"""Connections to Postgres: direct, in autocommit, with time-outs, and with plans that use the keys.

They acknowledge no commit that a synchronous standby may lack (see `postgres.replication`).

A pooler works if it gives each client a session of its own: settings, locks and prepared statements belong to the
session, and a lost connection is resolved by ending its backend by pid. `postgres.pooling` refuses every other pooler.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import count
from typing import Any, Final, Self, TypeVar

import psycopg
import structlog
from psycopg.abc import PQGen
from psycopg.pq.abc import PGconn
from psycopg.rows import AsyncRowFactory, tuple_row

from ledger.back_off import back_off_s
from ledger.postgres import arrays
from ledger.postgres.faults import UNAVAILABLE, DatabaseUnavailable
from ledger.postgres.replication import CommitWarnings, not_replicated
from ledger.postgres.silent_servers import (
    SILENT_S,
    WAIT_INTERVAL_S,
    WatchedConnection,
    abort_connection,
    cut_if_silent,
    has_ended,
    open_beside,
    open_connections,
)

T = TypeVar("T")
C = TypeVar("C", bound="Connection")

_log = structlog.get_logger()

# Sequential and bitmap scans are never right for a lookup by key, but a plan that was made for an empty table prefers
# them and is kept. The time-outs limit the cost of a stuck session to its own request.
_LOCK_TIMEOUT: Final = "1s"
_SETTINGS: Final = {
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "jit": "off",
    "synchronous_commit": "on",  # the server's own may be weaker, also from a reload or a promotion on
    "plan_cache_mode": "force_generic_plan",
    "statement_timeout": "10s",
    "lock_timeout": _LOCK_TIMEOUT,
    "idle_in_transaction_session_timeout": "10s",
    "timezone": "UTC",  # psycopg reads times in the session's zone, and the server's may have any
    "client_min_messages": "warning",  # the one about a commit without its standby has to arrive
}

_CONNECT_TIMEOUT_S: Final = 5
_RETRY_FIRST_S, _RETRY_MAX_S = 0.05, 1.0
_LOG_EVERY: Final = 60  # tries, of about a second

_HAS_TRANSACTION_TIMEOUT: Final = 170_000

ANSWER_MAX_S: Final = 15.0
"""How long to wait for a silent server: longer than its own time-outs, so that their errors still arrive."""

_LOOK_AGAIN_S: Final = 1.0

TIMEOUTS: Final[dict[str, Any]] = {
    "connect_timeout": _CONNECT_TIMEOUT_S,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}
"""Give up a server that does not answer a new connection after five seconds, and detect one behind a silent network
within eleven (libpq's names; in seconds, the last in ms).
"""

_LEFT: Final[dict[tuple[str, bytes | None, bytes | None], set[int]]] = {}
"""The pids of the server processes whose statement this process no longer waits for, by the names of their connections,
and the host and the port of their servers. One that waits for a synchronous standby goes on waiting without its client.
"""

# Which of these processes wait for a standby.
_WAITING: Final = "select pid from pg_stat_activity where pid = any(%s) and wait_event = 'SyncRep'"

# Which of these processes have a commit that has waited for a standby for a second.
_HELD_UP: Final = """
select pid from pg_stat_activity
 where pid = any(%s) and wait_event = 'SyncRep' and state_change < clock_timestamp() - interval '1 second'
"""


# The same on the nodes of Citus, asked at the coordinator: processes of the nodes to which this one is connected, and
# those that work for its processes of the coordinator, from which they have the number.
_HELD_UP_ON_NODES: Final = """
select distinct citus_pid_for_gpid(global_pid) from citus_stat_activity
 where citus_pid_for_gpid(global_pid) = any(%s) and wait_event = 'SyncRep'
   and state_change < clock_timestamp() - interval '1 second'
"""


class Connection(WatchedConnection):
    """A connection whose commits are acknowledged only with their synchronous standby.

    A commit that the server acknowledged without it raises an OperationalError without an SQLSTATE, and closes the
    connection: as after any lost connection, the commit is unknown.

    A task that is cancelled does not cancel its statement at the server, because the statement may be a commit that
    waits for the standby, whose wait would be cancelled. psycopg waits for the answer for five seconds, and then closes
    the connection.

    A connection that is closed while a task waits for its answer breaks first: the task's statement fails, and takes
    the socket from the event loop, before another connection gets the socket's number.
    """

    def __init__(self, pgconn: PGconn, row_factory: AsyncRowFactory[Any] = tuple_row) -> None:
        super().__init__(pgconn, row_factory)
        self.name = (pgconn.parameter_status(b"application_name") or b"").decode()
        self._at = pgconn.host, pgconn.port
        self.server_pid = pgconn.backend_pid
        self.has_citus = False
        self._warnings = CommitWarnings(self.name)
        self.add_notice_handler(self._warnings)
        self._waits = 0
        self._no_wait = asyncio.Event()

    @property
    def is_unreplicated(self) -> bool:
        """Whether the server acknowledged a commit on this connection that a synchronous standby may lack."""
        return self._warnings.unreplicated

    async def wait(self, gen: PQGen[T], interval: float = WAIT_INTERVAL_S, timeout: float | None = None) -> T:  # noqa: ASYNC109 - psycopg's signature
        self._waits += 1
        try:
            result = await super().wait(gen, interval, timeout)
        except BaseException:
            if self.closed:
                self.give_up()
            raise
        finally:
            self._waits -= 1
            if not self._waits:
                self._no_wait.set()
        if self._warnings.unreplicated:
            self.pgconn.finish()
            raise not_replicated()
        return result

    def give_up(self) -> None:
        """Records that this process no longer waits for a statement of this connection."""
        _LEFT.setdefault((self.name, *self._at), set()).add(self.server_pid)

    async def close(self) -> None:
        while self._waits and not self.closed:
            self._no_wait.clear()
            abort_connection(self)
            await self._no_wait.wait()
        await super().close()

    async def cancel_safe(self, *, timeout: float = 0.0) -> None:  # noqa: ASYNC109 - psycopg's signature
        """Does nothing: psycopg calls it when the task that waits for a statement is cancelled."""


SET: Final = """
select pg_is_in_recovery(), current_setting('transaction_read_only') = 'on', pg_backend_pid(),
       current_setting('citus.version', true) is not null,
       set_config(name, case when name = 'plan_cache_mode' and current_setting('citus.version', true) is not null
                             then 'auto'
                             when name = 'synchronous_commit' and current_setting(name) = 'remote_apply'
                             then 'remote_apply' else value end, false)
  from unnest(%s::text[], %s::text[]) as s(name, value)
"""
"""Gives a session its settings. Returns whether its server is a standby, whether it can only be read, its process, and
whether the server has Citus.

As start-up options, a pooler would refuse or drop them, those of the connection string would be lost, and libpq would
count a session that may only read as a server that may only be read. The server is asked, because a pooler repeats what
another server reported of itself before (`in_hot_standby`), and gives its clients pids of its own.

Citus finds the shard of a statement by the values of its parameters, so that its plans cannot be generic. A server
whose commits wait until the standby shows them keeps that.
"""


def session_settings(**changes: str) -> Mapping[str, str]:
    """Returns the settings that every connection of the service has, with these changes."""
    return _SETTINGS | changes


# A list is read in the order of an index. Over a small or fresh table the planner prefers to scan and sort, and would
# keep that plan; a new plan for the values of each list costs more than the list. A search collects its matches of a
# large merchant in memory; at most as many searches run at once as there are connections.
LIST_SETTINGS: Final = session_settings(
    work_mem="32MB",
    statement_timeout="5s",
    lock_timeout="500ms",  # beside the wait for a connection: a list that is refused is refused within two seconds
    idle_in_transaction_session_timeout="5s",
    default_transaction_read_only="on",
)
"""The settings of a session that reads lists, and of every session at a replica."""


WITHOUT_WAIT: Final = "set local synchronous_commit = off"
"""Has a transaction's commit wait for no disk and no standby, for rows that may be lost: without it, a commit at a
primary that has lost its standby waits without end, and no time-out of the server applies.
"""


class TakesNoWrites(psycopg.OperationalError):
    """The server is a standby, which may show less than was acknowledged, or an operator has made it read-only."""

    def __init__(self, *, is_standby: bool) -> None:
        self.reason = f"the server is {'a standby' if is_standby else 'read-only'}"
        super().__init__(f"{self.reason}: name the primary, or every server with target_session_attrs=read-write")


async def apply_settings(connection: psycopg.AsyncConnection[Any], settings: Mapping[str, str]) -> None:
    """Gives a new session its settings. Raises psycopg.Error, which is TakesNoWrites at a server to read only."""
    answer = await connection.execute(SET, (list(settings), list(settings.values())), prepare=False)
    row = await answer.fetchone()
    assert row is not None, "every session has settings"
    if row[0] or row[1]:
        raise TakesNoWrites(is_standby=row[0])
    if isinstance(connection, Connection):
        connection.server_pid, connection.has_citus = row[2], row[3]


def connect_arguments(name: str) -> dict[str, Any]:
    """Returns psycopg's arguments for a connection in autocommit, named `name` in the database's activity view."""
    return {"autocommit": True, "application_name": name, **TIMEOUTS}


async def connect(
    url: str, name: str, *, lock_timeout: str = _LOCK_TIMEOUT, transaction_max_s: float | None = None
) -> Connection:
    """Opens a connection named `name` in the database's activity view. Raises psycopg.OperationalError, which is
    TakesNoWrites at a server to read only.

    Postgres 17 or newer ends the connection at a transaction that takes longer than `transaction_max_s`, even while it
    waits for a client that is stopped in the middle of a transaction. No time-out of an older Postgres applies there.
    """
    return await connect_as(Connection, url, name, lock_timeout=lock_timeout, transaction_max_s=transaction_max_s)


async def connect_as(
    kind: type[C], url: str, name: str, *, lock_timeout: str = _LOCK_TIMEOUT, transaction_max_s: float | None = None
) -> C:
    """Opens a connection of this kind, as `connect` does."""
    connection = await kind.connect(url, row_factory=tuple_row, **connect_arguments(name))
    connection.prepare_threshold = 0
    connection.prepared_max = None
    arrays.register(connection)
    settings = {**session_settings(lock_timeout=lock_timeout)}
    if transaction_max_s is not None and connection.info.server_version >= _HAS_TRANSACTION_TIMEOUT:
        settings["transaction_timeout"] = f"{transaction_max_s * 1000:.0f}ms"
    try:
        with QueryTimeout(connection, _CONNECT_TIMEOUT_S):
            await apply_settings(connection, settings)
    except BaseException:
        await connection.close()
        raise
    return connection


async def connect_unless_one_waits(url: str, name: str, *, lock_timeout: str = _LOCK_TIMEOUT) -> Connection:
    """Opens a connection, as `connect` does, unless a commit of an earlier one of that name waits for a standby.

    Raises psycopg.OperationalError.
    """
    connection = await connect(url, name, lock_timeout=lock_timeout)
    try:
        await require_none_waits(connection, name)
    except BaseException:
        await connection.close()
        raise
    return connection


async def require_none_waits(connection: psycopg.AsyncConnection[Any], name: str) -> None:
    """Raises psycopg.OperationalError while a commit that a connection of this name gave up waits for a standby.

    Each further connection would leave another one waiting, until the server has none left.
    """
    at = name, connection.pgconn.host, connection.pgconn.port
    if left := _LEFT.get(at):
        waiting = await (await connection.execute(_WAITING, (list(left),), prepare=False)).fetchall()
        if waiting:
            raise psycopg.OperationalError(f"a commit of {name} still waits for the synchronous standby")
        _LEFT.pop(at, None)


async def held_up_commits(connection: Connection) -> Sequence[str]:
    """Returns the names of the connections of this process, to the same server, whose commits have waited for a
    synchronous standby for a second, those that it gave up among them; on Citus, to every node. Raises
    psycopg.OperationalError.
    """
    at, nodes = (connection.pgconn.host, connection.pgconn.port), connection.has_citus
    names = {pid: name for (name, *left_at), pids in _LEFT.items() if nodes or (*left_at,) == at for pid in pids}
    theirs = open_connections() if nodes else open_beside(connection)
    names |= {each.server_pid: each.name for each in theirs if isinstance(each, Connection)}
    statement = _HELD_UP_ON_NODES if nodes else _HELD_UP
    found = await (await connection.execute(statement, (list(names),), prepare=False)).fetchall()
    return sorted(names[pid] for (pid,) in found)


async def reconnect(
    name: str, open_one: Callable[[], Awaitable[Connection]], is_there: asyncio.Event | None = None
) -> Connection:
    """Returns the connection of this name that `open_one` opens, as soon as the database answers again. Retries without
    end, with back-off and jitter, and at once where another connection of the process has opened.

    `is_there` is set while the database is known to answer: from the moment another connection opens until a try that
    began later fails.

    All connections of a process are lost at the same moment. Without jitter they would all look at the same moments
    too, up to a second apart, and a primary that is there would be found by none of them in between.
    """
    is_there = is_there or asyncio.Event()
    is_there.clear()
    _searches.add(is_there)
    try:
        for tries in count():
            was_there = is_there.is_set()
            try:
                connection = await open_one()
            except psycopg.Error as fault:
                if isinstance(fault, TakesNoWrites) and tries % _LOG_EVERY == 0:
                    _log.error("database_read_only", of=name, reason=fault.reason)
                if was_there:
                    is_there.clear()
                longest_s = back_off_s(tries, _RETRY_MAX_S, _RETRY_FIRST_S)
                await _pause_until_one_opens(is_there, random.uniform(longest_s / 2, longest_s))
            else:
                _end_pauses()
                return connection
        raise AssertionError("it is tried without end")
    finally:
        _searches.discard(is_there)


_searches: Final[set[asyncio.Event]] = set()
"""The events of those that look for the database."""


async def _pause_until_one_opens(is_there: asyncio.Event, seconds: float) -> None:
    with suppress(TimeoutError):
        await asyncio.wait_for(is_there.wait(), seconds)


def _end_pauses() -> None:
    """Has everything that looks for the database look now, because one connection to it has opened.

    A process has some twenty that look, each in its own time: the first one is soon there after a promotion, and a
    request needs several of them.
    """
    for is_there in _searches:
        is_there.set()


class DatabaseClient:
    """A reader or worker with one connection of its own, which is opened again after it was lost.

    The connection is open while the context lasts. It serves one task at a time.

    A connection that the server ended while nothing used it, as a former primary does, is replaced before it is used:
    no request fails because of it.

    A statement that it gave up may be a commit that waits for a synchronous standby. Until that has ended, no further
    connection is opened: each would leave another one waiting, until the server has no more.
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
        return await connect_unless_one_waits(self._url, self._name)

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[Connection]:
        """Yields the connection. Raises DatabaseUnavailable, also for the block; the next call connects again."""
        try:
            if self._connection is not None and has_ended(self._connection):
                await self._connection.close()
                self._connection = None
            if self._connection is None:
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
    All connections to it are cut before that if it answers on none of them.

    Cancelling the query instead would need an answer of the silent server.
    """

    __slots__ = ("_connection", "_ends_s", "_seconds", "_timer")

    def __init__(self, connection: psycopg.AsyncConnection[Any], seconds: float = ANSWER_MAX_S) -> None:
        self._connection = connection
        self._seconds = seconds
        self._ends_s = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begins the block, for a caller whose block is no `with` statement."""
        loop = asyncio.get_running_loop()
        self._ends_s = loop.time() + self._seconds
        self._timer = loop.call_at(min(self._ends_s, loop.time() + SILENT_S), self._look)

    def stop(self) -> None:
        """Ends the block, if it has begun."""
        if self._timer is not None:
            self._timer.cancel()

    def __enter__(self) -> None:
        self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        if loop.time() >= self._ends_s:
            abort_connection(self._connection)
        elif not cut_if_silent(self._connection):
            self._timer = loop.call_at(min(self._ends_s, loop.time() + _LOOK_AGAIN_S), self._look)


# The server process of this connection. Its pid may be reused; with its start time it identifies one process for ever.
_BACKEND: Final = "select pid, backend_start from pg_stat_activity where pid = pg_backend_pid()"

# Ends that process, and returns a row while it still exists. One that waits for a standby is left to it: its commit
# would become visible without being on the standby.
_END: Final = """
select case when wait_event is distinct from 'SyncRep' then pg_terminate_backend(pid) end
  from pg_stat_activity where pid = %s and backend_start = %s
"""
_END_WAITING: Final = "select pg_terminate_backend(pid) from pg_stat_activity where pid = %s and backend_start = %s"

Backend = tuple[Any, ...]
"""The pid of a server process and the time of its start."""


async def backend_of(connection: Connection) -> Backend:
    """Returns the server process behind a connection, as `end_backend` takes it."""
    row = await (await connection.execute(_BACKEND)).fetchone()
    assert row is not None, "a backend sees itself"
    return row


async def end_backend(connection: Connection, backend: Backend, *, even_if_it_waits: bool = False) -> None:
    """Ends that server process and returns once it is gone: its uncommitted statements stay uncommitted.

    One that waits for a synchronous standby ends by itself, once the standby has its commit; with `even_if_it_waits`,
    at once.
    """
    end = _END_WAITING if even_if_it_waits else _END
    while backend and await (await connection.execute(end, backend)).fetchone() is not None:  # noqa: ASYNC110 - no event
        await asyncio.sleep(0.01)
