"""A standby that answers reads: how its connections are opened, and how far it must have got to answer one.

The position is the byte of the primary's write-ahead log up to which it is on disk, and the log's timeline, which each
promotion increases. What was acknowledged before the position was read, by any process on any machine, is before it.
Never ask for the position before the request is there.

Never compare bytes of two timelines. A standby that had received more than the one that was promoted goes on with the
old log: it has the bytes up to the new primary's position, and they are other commits.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, NamedTuple, TypeVar

import psycopg
import structlog
from psycopg.abc import PQGen
from psycopg.conninfo import make_conninfo
from psycopg.rows import tuple_row

from ledger.postgres import arrays
from ledger.postgres.connection import LIST_SETTINGS, SET, TIMEOUTS, Connection, QueryTimeout, connect_arguments
from ledger.postgres.faults import DatabaseUnavailable, Fault
from ledger.postgres.pooling import require_sessions
from ledger.settings import CannotRun
from ledger.telemetry.metrics import PROCESS, REPLICA_READS, REPLICA_USED

T = TypeVar("T")

_log = structlog.get_logger()

_ANSWERED, _BEHIND, _FAILED, _UNUSED = [
    REPLICA_READS.labels(outcome) for outcome in ("answered", "behind", "failed", "unused")
]

ANSWER_MAX_S: Final = 6.0
"""How long a read waits for a replica that is silent: longer than the replica's own time-out for a statement."""

# Up to where the primary's log is on disk, and its timeline: the first eight digits of the name of a file of the log. A
# commit that waits for no disk may be acknowledged before it is there.
WRITTEN: Final = """
select 0, case when current_setting('synchronous_commit') = 'off' then pg_current_wal_insert_lsn()
               else pg_current_wal_flush_lsn() end,
       left(pg_walfile_name(pg_current_wal_insert_lsn()), 8)
"""

# Whether the server is a standby, up to where a read shows the primary's log, and the timeline that it follows: that of
# the newest restart point or flushed page, which is late after a promotion, or that which it receives, which a role
# without `pg_read_all_stats` does not see. A standby receives a timeline only if it has replayed nothing else.
_REPLAYED: Final = """
select pg_is_in_recovery(), (pg_last_wal_replay_lsn() - '0/0')::int8,
       greatest((select min_recovery_end_timeline from pg_control_recovery()),
                (select received_tli from pg_stat_wal_receiver))
"""

_CATCH_UP_MAX_S: Final = 0.1
_CATCH_UP_LOOK_S: Final = 0.002
_LOOK_S: Final = 1.0
_LOG_S: Final = 60.0


class Position(NamedTuple):
    """A place in a primary's log. Of two positions, that of the newer timeline is the greater one."""

    timeline: int
    byte: int


def written_in(row: Sequence[Any]) -> Position:
    """Returns the position from a row of WRITTEN that was read in binary: psycopg leaves a pg_lsn as its bytes."""
    return Position(int(row[2], 16), int.from_bytes(row[1], "big"))


class NoStandby(psycopg.OperationalError):
    """The server that was named as a replica is a primary: it was promoted, and its log may be another one."""

    def __init__(self) -> None:
        super().__init__("the server is no standby: it was promoted, or is the primary itself")


class ReplicaBehind(Fault):
    """The replica does not show the primary's log up to this position yet."""

    def __init__(self, reason: str = "it is behind the primary") -> None:
        super().__init__(reason)


class TimelineApart(ReplicaBehind):
    """The replica follows another timeline than the primary's, or is not known to follow that one yet."""

    def __init__(self) -> None:
        super().__init__("it follows another timeline than the primary, or has no restart point since the promotion")


class _ReplicaConnection(Connection):
    """A connection whose statements each end within ANSWER_MAX_S, and then break it: a server that is stopped keeps its
    connections, and a report of several statements has no limit as a whole.
    """

    async def wait(self, gen: PQGen[T], interval: float = 0.1, timeout: float | None = None) -> T:  # noqa: ASYNC109 - psycopg's signature
        with QueryTimeout(self, ANSWER_MAX_S):
            return await super().wait(gen, interval, timeout)


async def configure(connection: psycopg.AsyncConnection[Any]) -> None:
    """Gives a new session at a replica its settings. Raises psycopg.Error, which is NoStandby at a primary."""
    with QueryTimeout(connection, ANSWER_MAX_S):
        answer = await connection.execute(SET, (list(LIST_SETTINGS), list(LIST_SETTINGS.values())), prepare=False)
        row = await answer.fetchone()
    assert row is not None, "every session has settings"
    if not row[0]:
        raise NoStandby


async def connect_replica(url: str, name: str) -> Connection:
    """Opens a connection to a replica, named `name` in its activity view. Raises psycopg.Error, which is NoStandby at a
    primary.
    """
    connection = await _ReplicaConnection.connect(url, row_factory=tuple_row, **connect_arguments(name))
    connection.prepare_threshold = 0
    connection.prepared_max = None
    arrays.register(connection)
    try:
        await configure(connection)
    except BaseException:
        await connection.close()
        raise
    return connection


async def replayed(connection: psycopg.AsyncConnection[Any]) -> Position:
    """Returns up to which position of the log that it follows the replica shows it.

    Raises NoStandby at a server that was promoted; its connection is closed, and the next one may meet a standby.
    """
    row = await (await connection.execute(_REPLAYED)).fetchone()
    assert row is not None, "a select without from has one row"
    is_standby, byte, timeline = row
    if not is_standby:
        connection.pgconn.finish()
        raise NoStandby
    return Position(int(timeline or 0), int(byte or 0))


async def require_replayed(connection: psycopg.AsyncConnection[Any], position: Position) -> None:
    """Returns once the session's replica shows the primary's log up to a position; its next statements show it too.

    Raises ReplicaBehind if it does not within a tenth of a second, at once if it follows another timeline, and
    NoStandby.
    """
    until = time.monotonic() + _CATCH_UP_MAX_S
    while True:
        found = await replayed(connection)
        if found.timeline != position.timeline:
            raise TimelineApart
        if found.byte >= position.byte:
            return
        if time.monotonic() > until:
            raise ReplicaBehind
        await asyncio.sleep(_CATCH_UP_LOOK_S)


class ReplicaUse:
    """The use of a replica by this process: `reason` is why it does not use it, for a person; empty while it does.

    A task looks at the replica every second, over a connection of its own, so that no request waits for one that is
    away. After a read that failed, the primary answers until a look finds the replica well. `written` returns the
    primary's position.
    """

    def __init__(self, url: str, written: Callable[[], Awaitable[Position]]) -> None:
        self.url = url
        self._written = written
        self._connection: Connection | None = None
        self._task: asyncio.Task[None] | None = None
        self._behind = Position(0, 0)  # the greatest position that the replica did not show in time
        self._logged: bool | None = None  # whether the last line in the log was that it is used
        self._logged_at = float("-inf")
        self.reason = "it has not answered yet"

    async def start(self) -> None:
        """Begins to look, now and then every second. The replica may be away."""
        self._task = asyncio.create_task(self._run(), name="replica-use")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._disconnect()

    async def ask(self, read: Callable[[Position], Awaitable[T]]) -> T | None:
        """Returns what `read` reads at the replica for the position that it has to show; None if the primary has to
        answer.

        Raises what asking the primary for its position raises. Raises DatabaseUnavailable, as the primary does, if a
        statement takes too long at the replica: the primary shall not have it too.
        """
        if self.reason:
            _UNUSED.inc()
            return None
        position = await self._written()
        try:
            found = await read(position)
        except ReplicaBehind as fault:
            _BEHIND.inc()
            self._behind = max(self._behind, position)
            self._note(reason_of(fault))
            return None
        except DatabaseUnavailable as fault:
            if isinstance(fault.__cause__, psycopg.errors.QueryCanceled):
                raise
            _FAILED.inc()
            self._note(reason_of(fault))
            return None
        except psycopg.Error:  # of this read alone
            _FAILED.inc()
            return None
        _ANSWERED.inc()
        return found

    async def look(self) -> None:
        """Looks at the replica once."""
        try:
            if self._connection is None or self._connection.closed:
                await asyncio.to_thread(require_sessions, make_conninfo(self.url, **TIMEOUTS))
                self._connection = await connect_replica(self.url, "ledger-replica-use")
            with QueryTimeout(self._connection, _LOOK_S):
                position = await replayed(self._connection)
        except (CannotRun, psycopg.Error) as fault:
            await self._disconnect()
            self._note(reason_of(fault))
        else:
            if position >= self._behind:
                self._note("")
            else:
                is_apart = position.timeline < self._behind.timeline
                self._note(reason_of(TimelineApart() if is_apart else ReplicaBehind()))

    async def _run(self) -> None:
        while True:
            await self.look()
            await asyncio.sleep(_LOOK_S)

    async def _disconnect(self) -> None:
        if self._connection is not None:
            await self._connection.close()
            self._connection = None

    def _note(self, reason: str) -> None:
        """Keeps the state, and logs a change. A replica that is behind again and again is logged once a minute."""
        self.reason = reason
        REPLICA_USED.labels(PROCESS).set(not reason)
        if not reason and self._logged is not True:
            _log.info("replica_used")
            self._logged = True
        elif reason and self._logged is not False and time.monotonic() - self._logged_at > _LOG_S:
            _log.warning("replica_unused", reason=reason)
            self._logged, self._logged_at = False, time.monotonic()


def reason_of(fault: Exception) -> str:
    """Returns for a person why a replica is not used, without any part of its connection string."""
    if isinstance(fault, ReplicaBehind | NoStandby | CannotRun):
        return str(fault)
    return f"it does not answer: {fault if isinstance(fault, DatabaseUnavailable) else type(fault).__name__}"
