"""The group commit: one task commits all pending commands as one batch, in one round trip.

Never answer or resend a command whose commit is unknown before the old backend has ended. Until then the backend may
still commit what it received.

Two classes build on it: `journal.commit.writer.Writer` and `processors.sandbox.charge_writer.ChargeWriter`.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar

import psycopg
from msgspec import Struct

from ledger.postgres.connection import (
    Backend,
    Connection,
    QueryTimeout,
    abort_connection,
    backend_of,
    connect,
    end_backend,
    reconnect,
)
from ledger.postgres.faults import DatabaseUnavailable, QueueFull

C = TypeVar("C")
R = TypeVar("R")

Rows = Sequence[tuple[Any, ...]]

STOP_PATIENCE_S: Final = 5.0
"""How long `stop` waits for pending commands to be committed."""

COMMIT_MAX_S: Final = 5.0
"""How long a commit may take, its client's part included. Postgres 17 ends the connection of one that takes longer, and
`journal.commit.locked_merchants` does it on an older Postgres."""

TRY_AGAIN: Final = (psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure)
"""A batch that meets one of these is rolled back through no fault of its own."""
_TRIES: Final = 5
_ABORT_PATIENCE_S: Final = 1.0
_LOOK_UP_AGAIN_S: Final = 0.1


class PendingCommand(Struct, Generic[C, R], frozen=True, eq=False):
    """A queued command, the future of its caller, and when it was submitted (seconds of the monotonic clock)."""

    command: C
    future: asyncio.Future[R]
    submitted_s: float


class GroupCommitter(ABC, Generic[C, R]):
    """A queue of commands (C) that one task commits in batches, each with a future for its result (R).

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
        self._queue: deque[PendingCommand[C, R]] = deque()
        self._taken: list[Sequence[PendingCommand[C, R]]] = []
        self._wake = asyncio.Event()
        self._connection: Connection | None = None
        self._backend: Backend = ()
        self._task: asyncio.Task[None] | None = None
        self._closing = False

    @property
    def alive(self) -> bool:
        """Whether commands are being committed: the connection is open and the task runs."""
        return self._connection is not None and self._task is not None and not self._task.done()

    @property
    def depth(self) -> int:
        """How many commands wait."""
        return len(self._queue)

    async def start(self) -> None:
        """Connects and starts the task. Raises psycopg.OperationalError."""
        connection = await connect(
            self._url, self._name, lock_timeout=self._lock_timeout, transaction_max_s=COMMIT_MAX_S
        )
        self._adopt(connection, await backend_of(connection))
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

    def submit(self, command: C) -> asyncio.Future[R]:
        """Queues a command and returns the future of its result.

        Raises DatabaseUnavailable or QueueFull: nothing was queued.
        """
        if self._connection is None or self._closing:
            raise DatabaseUnavailable(f"{self._name} has no connection to the database: try again later")
        if self.depth >= self._queue_max:
            raise QueueFull(f"{self._queue_max} commands wait for {self._name} already: try again later")
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._queue.append(PendingCommand(command, future, time.monotonic()))
        self._queued()
        return future

    # ---------------------------------------------------------------- what a subclass supplies

    @abstractmethod
    def _take(self) -> Sequence[PendingCommand[C, R]]:
        """Takes the next batch out of the queue."""

    @abstractmethod
    def _execute(self, connection: Connection, commands: Sequence[C]) -> Awaitable[Rows]:
        """Commits the commands in one transaction. The result is the statement's rows."""

    @abstractmethod
    def _results(self, commands: Sequence[C], rows: Rows) -> Sequence[R | Exception]:
        """Returns, by the statement's rows, each committed command's result or the exception to raise."""

    @abstractmethod
    async def _rolled_back(self, batch: Sequence[PendingCommand[C, R]], fault: Exception) -> None:
        """Rejects, or commits in another way, a batch that was rolled back or could not be encoded."""

    @abstractmethod
    async def _find_committed(self, connection: Connection, commands: Sequence[C]) -> Mapping[int, R]:
        """Returns the results of those commands that are committed, by their index in `commands`."""

    @abstractmethod
    def _connection_lost(self, batch: Sequence[PendingCommand[C, R]]) -> None:
        """Logs a lost connection; `batch` is the one whose commit is unknown, empty if there is none."""

    @abstractmethod
    def _connection_back(self, committed: int, uncommitted: Sequence[PendingCommand[C, R]]) -> None:
        """Logs the new connection, and rejects or queues again what the old one never committed."""

    @abstractmethod
    def _ended(self, unanswered: Sequence[PendingCommand[C, R]], fault: BaseException) -> None:
        """Rejects the commands that were sent: the task ends before it could find out whether they are committed."""

    def _queued(self) -> None:
        """Has a command that was queued committed."""
        self._wake.set()

    async def _between_batches(self) -> None:
        """Does what is due before the next batch is taken."""

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
                self._ended([pending for batch in self._taken for pending in batch if not pending.future.done()], fault)
            reject_batch(self._queue, DatabaseUnavailable, f"{self._name} ended before it wrote this")
            self._queue.clear()
            raise

    async def _step(self) -> None:
        """Commits a batch, replaces a lost connection, or waits for a command."""
        if self._queue:
            self._taken.append(batch := self._take())
            await self._commit(batch)
            self._taken.clear()
        elif self._connection is None or self._connection.closed:
            await self._resolve(())
        else:
            self._wake.clear()
            await self._wake.wait()

    async def _commit(self, batch: Sequence[PendingCommand[C, R]]) -> None:
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
            except TRY_AGAIN:
                continue
            except Exception as fault:  # noqa: BLE001 - one command's fault must not end the task
                await (self._resolve(batch) if self._is_unknown(fault) else self._rolled_back(batch, fault))
            else:
                answer_batch(batch, self._results(commands, rows))
            return
        reject_batch(batch, DatabaseUnavailable, f"the batch met {_TRIES} deadlocks: try again")

    def _is_unknown(self, fault: Exception) -> bool:
        """Whether a statement that raised `fault` may still be committed."""
        return self._connection is None or self._connection.closed or not is_rolled_back(fault)

    async def _abort(self, task: asyncio.Task[None]) -> None:
        """Ends a task that waits for the server: by its connection and, a second later, by a cancellation."""
        if self._connection is not None:
            abort_connection(self._connection)
            await asyncio.wait([task], timeout=_ABORT_PATIENCE_S)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    # ---------------------------------------------------------------- a lost connection

    def _adopt(self, connection: Connection, backend: Backend) -> None:
        self._connection, self._backend = connection, backend

    async def _disconnect(self) -> None:
        lost, self._connection = self._connection, None
        if lost is not None:
            await lost.close()

    async def _resolve(self, batch: Sequence[PendingCommand[C, R]]) -> None:
        """Replaces the connection, and resolves a batch whose commit is unknown with what the database then holds."""
        await self._disconnect()
        self._connection_lost(batch)
        committed = await self._reconnect([pending.command for pending in batch])
        answer_batch([batch[n] for n in committed], committed.values())
        self._connection_back(len(committed), [pending for n, pending in enumerate(batch) if n not in committed])

    async def _reconnect(self, commands: Sequence[C]) -> Mapping[int, R]:
        """Connects, for as long as it takes, ends the old backend, and returns what is committed of `commands`."""
        while True:
            connection = await reconnect(
                self._url, self._name, lock_timeout=self._lock_timeout, transaction_max_s=COMMIT_MAX_S
            )
            try:
                with QueryTimeout(connection):
                    await end_backend(connection, self._backend)
                    backend = await backend_of(connection)
                    committed = await self._find_committed(connection, commands) if commands else {}
            except BaseException as fault:
                await connection.close()
                if not isinstance(fault, psycopg.Error):
                    raise
                await asyncio.sleep(_LOOK_UP_AGAIN_S)  # whatever the server's error is, no command can be answered
            else:
                self._adopt(connection, backend)
                return committed


def is_rolled_back(fault: Exception) -> bool:
    """Returns whether the statement that raised `fault` is certainly not committed: rolled back, or never sent.

    The server reports a rollback with severity ERROR. A FATAL may follow a commit. A fault without an SQLSTATE comes
    from psycopg, which may raise it while the connection still counts as good.
    """
    if not isinstance(fault, psycopg.OperationalError | psycopg.InterfaceError | psycopg.InternalError):
        return True  # a value that the server refused, or that could not be encoded
    return fault.sqlstate is not None and fault.diag.severity_nonlocalized == "ERROR"


def reject_batch(
    batch: Iterable[PendingCommand[Any, Any]], fault: type[Exception], message: str, cause: Exception | None = None
) -> None:
    """Raises `fault` in the future of each command, except of those that are resolved or cancelled."""
    for pending in batch:
        if not pending.future.done():
            exception = fault(message)
            exception.__cause__ = cause
            pending.future.set_exception(exception)


def answer_batch(batch: Iterable[PendingCommand[C, R]], results: Iterable[R | Exception]) -> None:
    """Resolves the future of each command with its result."""
    for pending, result in zip(batch, results, strict=True):
        if pending.future.done():
            continue
        if isinstance(result, Exception):
            pending.future.set_exception(result)
        else:
            pending.future.set_result(result)
