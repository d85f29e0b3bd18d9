"""The group commit: all commands that are pending become one batch, and a second batch follows before its answer.

Never answer or resend a command whose commit is unknown before the old backend has ended. Until then the backend may
still commit what it received. Never count a commit that was found before an own commit has waited for the synchronous
standby: a promoted one may lack it.

Never commit a batch again while another one is in flight: if a batch fails, no batch follows, those in flight are
answered first, and then the task settles the faults, one batch at a time.

`journal.commit.writer.Writer` builds on it.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final

import psycopg
import structlog
from msgspec import Struct

from ledger.journal.append import Append, CommitUnknown
from ledger.postgres.connection import (
    ANSWER_MAX_S,
    Backend,
    Connection,
    QueryTimeout,
    backend_of,
    connect,
    end_backend,
    reconnect,
)
from ledger.postgres.faults import DatabaseUnavailable, QueueFull
from ledger.postgres.pipeline import Rows
from ledger.postgres.replication import takes_no_writes, wait_for_standbys
from ledger.postgres.silent_servers import abort_connection

_log = structlog.get_logger()

STOP_PATIENCE_S: Final = 5.0
"""How long `stop` waits for pending commands to be committed."""

IN_FLIGHT_MAX: Final = 2
"""While one batch is committed, a second one waits at the server.

A third would wait at the server as long as in this process.
"""

ENOUGH: Final = 32
"""The number of commands that are sent at once, within the turn of the event loop that submits them: the server
executes them while the process encodes the next ones. Behind a batch in flight, fewer gather until it is answered,
because each batch costs the client and the server as much as some ten commands.
"""

COMMIT_MAX_S: Final = 5.0
"""How long a commit may take, its client's part included. Postgres 17 ends the connection of one that takes longer, and
`journal.commit.locked_merchants` does it on an older Postgres."""

_TRY_AGAIN: Final = (psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure)
"""A batch that meets one of these is rolled back through no fault of its own."""
_TRY_AGAIN_ALONE: Final = (*_TRY_AGAIN, psycopg.errors.InvalidSqlStatementName)
"""The last of them: the statement should have been prepared by the batch before, which failed."""
_TRIES: Final = 5
_ABORT_PATIENCE_S: Final = 1.0
_LOOK_UP_AGAIN_S: Final = 0.1
_LOG_AGAIN_S: Final = 10.0

UNKNOWN_MAX_S: Final = ANSWER_MAX_S
"""How long the callers of a lost batch wait until it is known whether it is committed, and on the standby. Together
with the time for an answer it is less than a request may take."""

START_MAX_S: Final = 2.0
"""How long a start waits for the synchronous standby. Without it the service starts, and writes nothing yet."""


class PendingAppend(Struct, frozen=True, eq=False):
    """A queued command, the future of its caller, and when it was submitted (seconds of the monotonic clock)."""

    command: Append
    future: asyncio.Future[int]
    submitted_s: float


class _Taken(Struct, frozen=True, eq=False):
    """A batch whose commands are not answered yet, and when it was first sent (seconds of the monotonic clock)."""

    batch: Sequence[PendingAppend]
    sent_s: float


class _Faulted(Struct, frozen=True):
    """A batch whose statement raised `fault`, and whether it may be committed nevertheless."""

    batch: Sequence[PendingAppend]
    fault: Exception
    is_unknown: bool


class GroupCommitter(ABC):
    """A queue of commands, each with a future for its result, which are committed in batches.

    `submit` sends batches itself, as transactions of their own on one connection. The server executes them in order:
    the second one's check sees what the first one committed. While it may not send, one task commits batch by batch.

    A subclass supplies what is specific: which commands make a batch (`_take`), the statement (`_execute`) and what its
    rows mean (`_results`), what follows a rollback (`_rolled_back`), and for a lost connection how to find committed
    commands (`_find_committed`) and what happens to the others (`_connection_lost`, `_connection_back`). `_name` is the
    connection's name in the database's activity view, `_lock_timeout` how long a statement waits for a lock.

    `url` is a direct libpq connection string. At most `batch_max` commands make a batch, and at most `queue_max` wait.
    """

    _name: str
    _lock_timeout = "1s"

    def __init__(self, url: str, *, batch_max: int = 256, queue_max: int = 10_000) -> None:
        self._url, self._batch_max, self._queue_max = url, batch_max, queue_max
        self._queue: deque[PendingAppend] = deque()
        self._taken: list[_Taken] = []  # in the order in which they were sent
        self._wake = asyncio.Event()
        self._connection: Connection | None = None
        self._backend: Backend = ()
        self._candidate: Backend = ()  # of the newest connection, which may still wait for the standby
        self._opening: Connection | None = None
        self._timeline = ""
        self._task: asyncio.Task[None] | None = None
        self._closing = False
        self._enough = min(ENOUGH, batch_max)
        self._in_flight: set[asyncio.Future[Rows]] = set()
        self._faulted: list[_Faulted] = []
        self._is_overlapping = self._is_send_due = False

    @property
    def alive(self) -> bool:
        """Whether commands are being committed: the connection is open and the task runs."""
        return self._connection is not None and self._task is not None and not self._task.done()

    @property
    def commits_some(self) -> bool:
        """Whether commands of some merchants at least are being committed: on one server, those of all."""
        return self.alive

    @property
    def has_ended(self) -> bool:
        """Whether the task has ended: nothing is committed any more."""
        return self._task is not None and self._task.done()

    @property
    def is_reconnecting(self) -> bool:
        """Whether the task goes on and has no connection."""
        return self._connection is None and self._task is not None and not self._task.done()

    @property
    def depth(self) -> int:
        """How many commands wait."""
        return len(self._queue)

    @property
    def oldest_commit_s(self) -> float:
        """How long ago the oldest batch was sent that is not answered, in seconds; 0 if there is none."""
        return time.monotonic() - self._taken[0].sent_s if self._taken else 0.0

    @property
    def held_up_s(self) -> float:
        """How long the commits of all merchants are held up, in seconds: on one server, by the oldest in flight."""
        return self.oldest_commit_s

    async def start(self) -> None:
        """Connects and starts the task. Raises psycopg.OperationalError.

        What an earlier process wrote may not be on the synchronous standby yet. Until it is, nothing is committed.
        """
        connection = await self._open()
        try:
            await self._confirm(connection, START_MAX_S)
        except psycopg.Error as fault:
            self._log_unconfirmed(connection, fault)
            await connection.close()
        self._task = asyncio.create_task(self._run(), name=self._name)

    async def stop(self, patience_s: float = STOP_PATIENCE_S) -> None:
        """Commits what is pending, then disconnects. After `patience_s` seconds it aborts, and rejects what is left."""
        self._closing = True
        self._wake.set()
        if self._task is not None:
            await asyncio.wait([self._task], timeout=patience_s)
            if not self._task.done():
                await self._abort(self._task)
            elif not self._task.cancelled() and (fault := self._task.exception()):
                raise fault
        await self._disconnect()

    def submit(self, command: Append) -> asyncio.Future[int]:
        """Queues a command and returns the future of its result.

        Raises DatabaseUnavailable or QueueFull: nothing was queued.
        """
        if self._connection is None or self._closing:
            raise DatabaseUnavailable(f"{self._name} has no connection to the database: try again later")
        if self.depth >= self._queue_max:
            raise QueueFull(f"{self._queue_max} commands wait for {self._name} already: try again later")
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._queue.append(PendingAppend(command, future, time.monotonic()))
        self._queued()
        return future

    # ---------------------------------------------------------------- what a subclass supplies

    @abstractmethod
    def _take(self) -> Sequence[PendingAppend]:
        """Takes the next batch out of the queue."""

    @abstractmethod
    def _execute(self, connection: Connection, commands: Sequence[Append]) -> Awaitable[Rows]:
        """Commits the commands in one transaction. The result is the statement's rows."""

    @abstractmethod
    def _results(self, commands: Sequence[Append], rows: Rows) -> Sequence[int | Exception]:
        """Returns, by the statement's rows, each committed command's result or the exception to raise."""

    @abstractmethod
    async def _rolled_back(self, batch: Sequence[PendingAppend], fault: Exception) -> None:
        """Rejects, or commits in another way, a batch that was rolled back or could not be encoded."""

    @abstractmethod
    async def _find_committed(self, connection: Connection, commands: Sequence[Append]) -> Mapping[int, int]:
        """Returns the results of those commands that are committed, by their index in `commands`."""

    @abstractmethod
    def _connection_lost(self, batch: Sequence[PendingAppend]) -> None:
        """Logs a lost connection; `batch` is the one whose commit is unknown, empty if there is none."""

    @abstractmethod
    def _connection_back(self, committed: int, uncommitted: Sequence[PendingAppend]) -> None:
        """Logs the new connection, and rejects or queues again what the old one never committed."""

    @abstractmethod
    def _ended(self, unanswered: Sequence[PendingAppend], fault: BaseException) -> None:
        """Rejects the commands that were sent: the task ends before it could find out whether they are committed."""

    def _may_overlap(self) -> bool:
        """Returns whether batches may be sent without the task."""
        return not self._closing and self._connection is not None and not self._connection.closed

    @abstractmethod
    async def _between_batches(self) -> None:
        """Does what is due before the next batch is taken."""

    # ---------------------------------------------------------------- batches that `submit` sends

    def _queued(self) -> None:
        """Has a command that was queued committed: by this turn of the event loop, or by the task."""
        if not self._is_overlapping:
            self._wake.set()
        elif self._in_flight or len(self._queue) >= self._enough:
            self._send_due()
        elif not self._is_send_due:  # what else this turn of the event loop submits joins the batch
            self._is_send_due = True
            asyncio.get_running_loop().call_soon(self._send_due)

    def _send_due(self) -> None:
        """Sends a batch if none is in flight, and further batches as long as enough commands wait for each."""
        self._is_send_due = False
        while self._is_overlapping and self._queue:
            if self._in_flight and (len(self._in_flight) == IN_FLIGHT_MAX or len(self._queue) < self._enough):
                return
            self._send(self._take())

    def _send(self, batch: Sequence[PendingAppend]) -> None:
        assert self._connection is not None, "only the task closes the connection, with nothing in flight"
        self._taken.append(taken := _Taken(batch, time.monotonic()))
        commands = [pending.command for pending in batch]
        try:
            answer = asyncio.ensure_future(self._execute(self._connection, commands))
        except Exception as fault:  # noqa: BLE001 - one command's fault must not end the caller of another one
            self._fail(batch, fault, is_unknown=self._is_unknown(fault))
        else:
            self._in_flight.add(answer)
            answer.add_done_callback(partial(self._answered, taken, commands))

    def _answered(self, taken: _Taken, commands: Sequence[Append], answer: asyncio.Future[Rows]) -> None:
        self._in_flight.discard(answer)
        batch = taken.batch
        if fault := answer.exception():
            assert isinstance(fault, Exception)
            self._fail(batch, fault, is_unknown=self._is_unknown(fault))
            return
        self._send_due()  # before the callers of this batch have their turn: the server waits for nothing
        try:
            results = self._results(commands, answer.result())
        except Exception as fault:  # noqa: BLE001 - whatever it is, the batch is committed
            self._fail(batch, fault, is_unknown=True)
        else:
            self._taken.remove(taken)
            answer_batch(batch, results)

    def _fail(self, batch: Sequence[PendingAppend], fault: Exception, *, is_unknown: bool) -> None:
        self._is_overlapping = False
        self._faulted.append(_Faulted(batch, fault, is_unknown))
        self._wake.set()

    # ---------------------------------------------------------------- the task

    async def _run(self) -> None:
        try:
            await self._between_batches()
            while self._queue or not self._closing:
                await self._step()
                await self._between_batches()
        except BaseException as fault:
            self._closing = True  # a command that is submitted from now on would wait without end
            if self._taken:
                taken = [pending for each in self._taken for pending in each.batch]
                self._ended([pending for pending in taken if not pending.future.done()], fault)
            reject_batch(self._queue, DatabaseUnavailable, f"{self._name} ended before it wrote this")
            self._queue.clear()
            raise

    async def _step(self) -> None:
        """Lets `submit` send batches until one fails, the connection is lost, or the service ends."""
        if not self._may_overlap():
            await self._step_alone()
            return
        self._wake.clear()
        self._is_overlapping = True
        try:
            self._send_due()
            await self._wake.wait()
        finally:
            self._is_overlapping = False
        if self._in_flight:
            await asyncio.wait(self._in_flight)
        await self._settle()

    async def _step_alone(self) -> None:
        """Commits a batch, replaces a lost connection, or waits for a command."""
        if self._queue:
            batch = self._take()
            self._taken.append(_Taken(batch, time.monotonic()))
            await self._commit(batch)
            self._taken.clear()
        elif self._connection is None or self._connection.closed:
            await self._resolve(())
        else:
            self._wake.clear()
            await self._wake.wait()

    async def _commit(self, batch: Sequence[PendingAppend]) -> None:
        """Commits a batch, again after each deadlock, and resolves or rejects every future of it."""
        if not batch:
            return
        connection = self._connection
        assert connection is not None, "only this task closes the connection"
        commands = [pending.command for pending in batch]
        for _ in range(_TRIES):
            try:
                with QueryTimeout(connection):
                    rows = await self._execute(connection, commands)
            except _TRY_AGAIN:
                continue
            except Exception as fault:  # noqa: BLE001 - one command's fault must not end the task
                await (self._resolve(batch) if self._is_unknown(fault) else self._rolled_back(batch, fault))
            else:
                answer_batch(batch, self._results(commands, rows))
            return
        reject_batch(batch, DatabaseUnavailable, f"the batch met {_TRIES} deadlocks: try again")

    def _drop_answered(self) -> None:
        """Lets the batches whose commands are all answered no longer count as in flight."""
        self._taken = [taken for taken in self._taken if not all(pending.future.done() for pending in taken.batch)]

    def _is_unknown(self, fault: Exception) -> bool:
        """Whether a statement that raised `fault` may still be committed."""
        return self._connection is None or self._connection.closed or not is_rolled_back(fault)

    async def _abort(self, task: asyncio.Task[None]) -> None:
        """Ends a task that waits for the server: by its connection and, a second later, by a cancellation."""
        if self._connection is not None:
            abort_connection(self._connection)
            await asyncio.wait([task], timeout=_ABORT_PATIENCE_S)
        if self._opening is not None:
            abort_connection(self._opening)  # else its statement would be waited for
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    # ---------------------------------------------------------------- a lost connection

    async def _settle(self) -> None:
        """Looks up the batches that may be committed, all at once, then commits or rejects the others in turn."""
        faulted, self._faulted = self._faulted, []
        if unknown := [pending for each in faulted if each.is_unknown for pending in each.batch]:
            await self._resolve(unknown)
        for each in faulted:
            if each.is_unknown:
                continue
            if isinstance(each.fault, _TRY_AGAIN_ALONE):
                await self._commit(each.batch)
            else:
                await self._rolled_back(each.batch, each.fault)
        self._taken.clear()

    def _adopt(self, connection: Connection, backend: Backend) -> None:
        self._connection, self._backend = connection, backend

    async def _open(self) -> Connection:
        return await connect(self._url, self._name, lock_timeout=self._lock_timeout, transaction_max_s=COMMIT_MAX_S)

    async def _disconnect(self) -> None:
        lost, self._connection = self._connection, None
        if lost is not None:
            await lost.close()

    async def _resolve(self, batch: Sequence[PendingAppend]) -> None:
        """Replaces the connection, and resolves a batch whose commit is unknown with what the database then holds.

        Its callers are not kept waiting for long: what they sent is then unknown, and no call to a processor follows.
        """
        await self._disconnect()
        self._connection_lost(batch)
        reason = "the database does not confirm what it has committed"
        unknown = asyncio.get_running_loop().call_later(UNKNOWN_MAX_S, reject_batch, batch, CommitUnknown, reason)
        try:
            committed = await self._reconnect([pending.command for pending in batch])
        finally:
            unknown.cancel()
        answer_batch([batch[n] for n in committed], committed.values())
        self._connection_back(len(committed), [pending for n, pending in enumerate(batch) if n not in committed])

    async def _reconnect(self, commands: Sequence[Append]) -> Mapping[int, int]:
        """Connects, for as long as it takes, ends the old backend, and returns what is committed of `commands`."""
        logged_s = -_LOG_AGAIN_S
        while True:
            connection = await reconnect(self._name, self._open)
            try:
                return await self._confirm(connection, ANSWER_MAX_S, commands)
            except BaseException as fault:
                if isinstance(fault, psycopg.Error) and time.monotonic() - logged_s >= _LOG_AGAIN_S:
                    logged_s = time.monotonic()
                    self._log_unconfirmed(connection, fault)
                await connection.close()
                if not isinstance(fault, psycopg.Error):
                    raise
                await asyncio.sleep(_LOOK_UP_AGAIN_S)  # whatever the server's error is, no command can be answered

    async def _confirm(
        self, connection: Connection, seconds: float, commands: Sequence[Append] = ()
    ) -> Mapping[int, int]:
        """Adopts a new connection, and returns what is committed of `commands`, by the old one, and on the standby.

        The standby has to answer before the old backend is ended. Ended while it waits for the standby, it would leave
        a commit that every process sees and that a promotion loses. Raises psycopg.Error: nothing is known.
        """
        self._opening = connection
        with QueryTimeout(connection, seconds):
            await end_backend(connection, self._candidate, even_if_it_waits=True)  # it has committed nothing of ours
            self._candidate = await backend_of(connection)
            timeline = await wait_for_standbys(connection)
            await end_backend(connection, self._backend)
            committed = await self._find_committed(connection, commands) if commands else {}
            if committed:
                await wait_for_standbys(connection)
        if self._timeline and timeline != self._timeline:
            _log.warning("database_promoted", of=self._name, timeline=timeline, before=self._timeline)
        self._timeline = timeline
        self._adopt(connection, self._candidate)
        self._candidate, self._opening = (), None
        return committed

    def _log_unconfirmed(self, connection: Connection, fault: psycopg.Error) -> None:
        """Logs why the database confirms nothing: it is a standby, or has none, or does not answer."""
        if takes_no_writes(connection, fault):
            _log.error("database_read_only", of=self._name, reason=type(fault).__name__)
        else:
            _log.warning("journal_unconfirmed", of=self._name, reason=type(fault).__name__)


def is_rolled_back(fault: Exception) -> bool:
    """Returns whether the statement that raised `fault` is certainly not committed: rolled back, or never sent.

    The server reports a rollback with severity ERROR. A FATAL may follow a commit. A fault without an SQLSTATE comes
    from psycopg, which may raise it while the connection still counts as good.
    """
    if not isinstance(fault, psycopg.OperationalError | psycopg.InterfaceError | psycopg.InternalError):
        return True  # a value that the server refused, or that could not be encoded
    return fault.sqlstate is not None and fault.diag.severity_nonlocalized == "ERROR"


def reject_batch(
    batch: Iterable[PendingAppend], fault: type[Exception], message: str, cause: Exception | None = None
) -> None:
    """Raises `fault` in the future of each command, except of those that are resolved or cancelled."""
    for pending in batch:
        if not pending.future.done():
            exception = fault(message)
            exception.__cause__ = cause
            pending.future.set_exception(exception)


def answer_batch(batch: Iterable[PendingAppend], results: Iterable[int | Exception]) -> None:
    """Resolves the future of each command with its result."""
    for pending, result in zip(batch, results, strict=True):
        if pending.future.done():
            continue
        if isinstance(result, Exception):
            pending.future.set_exception(result)
        else:
            pending.future.set_result(result)
