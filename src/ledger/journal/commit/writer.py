"""The group commit: one task per process commits all pending commands as one batch, in one round trip.

Never answer or resend a command whose commit is unknown before its row, or the proof that none can appear, was found.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final
from uuid import UUID

import psycopg
import structlog

from ledger.journal.append import Append, CommitUnknown, DataRefused
from ledger.journal.commit import statement
from ledger.journal.commit.batch import Batch
from ledger.journal.commit.locked_merchants import LOCK_WAIT_S, LOOK_S, LockedMerchants, is_late
from ledger.journal.commit.lost_connection import is_rolled_back, resolve_unknown_commit
from ledger.journal.commit.pending import PendingCommand, reject_batch, request_ids, resolve_batch
from ledger.journal.inline import InlineTable
from ledger.postgres.arrays import ENCODE_ARRAY
from ledger.postgres.connection import Backend, Connection, QueryTimeout, abort_connection, backend_of, connect
from ledger.postgres.faults import DatabaseUnavailable, QueueFull
from ledger.telemetry.metrics import BATCH_COMMANDS, BISECTED, COMMIT_SECONDS, CONFLICTS, RECONNECTS

_log = structlog.get_logger()

_TRY_AGAIN: Final = (psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure)
_RETRIES: Final = 5
_LOCK_TIMEOUT: Final = f"{LOCK_WAIT_S * 1000:.0f}ms"
_STOP_PATIENCE_S: Final = 5.0
_CUT_PATIENCE_S: Final = 1.0


class Writer:
    """Commits appends in groups on one connection of its own.

    `url` is a libpq connection string; `tables` are written inline; at most `batch_max` commands make a batch and at
    most `queue_max` wait. What it counts of itself: the sizes of batches, the seconds that their commits took, commands that
    met a conflict, batches halved for somebody's data, connections lost.
    """

    def __init__(
        self, url: str, tables: Sequence[InlineTable] = (), *, batch_max: int = 256, queue_max: int = 10_000
    ) -> None:
        self._url = url
        self._tables = tuple(tables)
        self._append = statement.append_statement(self._tables)
        self._batch_max = batch_max
        self._queue_max = queue_max
        self._queue: deque[PendingCommand] = deque()
        self._wake = asyncio.Event()
        self._connection: Connection | None = None
        self._backend: Backend = ()
        self._followed: set[UUID] = set()
        self._task: asyncio.Task[None] | None = None
        self._closing = False
        self._held = LockedMerchants()

    @property
    def alive(self) -> bool:
        """Whether commands are being written: the database answers and the writing task runs."""
        return self._connection is not None and self._task is not None and not self._task.done()

    @property
    def depth(self) -> int:
        """How many commands wait."""
        return len(self._queue) + len(self._held.aside)

    async def start(self) -> None:
        """Connect and begin to write. Raises psycopg.OperationalError."""
        connection = await connect(self._url, "ledger-writer", lock_timeout=_LOCK_TIMEOUT)
        self._adopt(connection, await backend_of(connection))
        self._task = asyncio.create_task(self._run(), name="journal-writer")

    async def stop(self, patience_s: float = _STOP_PATIENCE_S) -> None:
        """Write what waits, then end. Where the database does not let us in time, whoever waits is told, and the log."""
        self._closing = True
        self._wake.set()
        if self._task is not None:
            await asyncio.wait([self._task], timeout=patience_s)
            if not self._task.done():
                await self._give_up(self._task)
            elif fault := self._task.exception():
                raise fault
        if self._connection is not None:
            await self._connection.close()
            self._connection = None

    def submit(self, append: Append) -> asyncio.Future[int]:
        """Queues a command; the future resolves to the merchant's position of its last event.

        Raises DatabaseUnavailable or QueueFull at once. The future may raise a Conflict, DataRefused or DatabaseUnavailable:
        nothing was written. Cancelling it does not cancel the command.
        """
        if self._connection is None or self._closing:
            raise DatabaseUnavailable("the journal has no database")
        if self.depth >= self._queue_max:
            raise QueueFull("too many commands wait")
        if self._held and self._held.refuses(append.merchant_id):
            raise DatabaseUnavailable("somebody else holds the merchant's log")
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._queue.append((append, future, time.monotonic()))
        self._wake.set()
        return future

    # ---------------------------------------------------------------- the loop

    async def _run(self) -> None:
        while await self._something_waits():
            batch = self._take()
            try:
                await self._commit(batch)
            except BaseException as fault:
                left = [waiting for waiting in batch if not waiting[1].done()]
                reason, requests = type(fault).__name__, request_ids([*left, *self._queue])
                _log.error("journal_ended", reason=reason, unknown=len(left), waiting=self.depth, requests=requests)
                reject_batch(left, CommitUnknown, f"the writer ended: {fault!r}")
                reject_batch(self._queue, DatabaseUnavailable, "the writer ended")
                self._queue.clear()
                self._held.give_up("the writer ended")
                raise
            if self._followed:
                await self._wake_followers()

    async def _give_up(self, task: asyncio.Task[None]) -> None:
        if self._connection is not None:  # the server is there and silent: end the wait for it, not psycopg's way
            abort_connection(self._connection)
            await asyncio.wait([task], timeout=_CUT_PATIENCE_S)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    async def _something_waits(self) -> bool:
        """Return when there is a batch to take; false at the end. Looks after the commands that wait aside on the way."""
        while True:
            if self._held.is_due:
                await self._take_back()
            if self._queue:
                return True
            if self._closing:
                self._held.give_up("the service ends")
                return False
            self._wake.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S if self._held else None):
                    await self._wake.wait()

    async def _take_back(self) -> None:
        assert self._connection is not None
        try:
            self._queue.extendleft(reversed(await self._held.look(self._connection)))
        except psycopg.Error as fault:
            await self._gone_or_given_up([], fault)

    def _take(self) -> list[PendingCommand]:
        """The next batch, in order; what depends on it stays at the head of the queue."""
        batch, taken, later = Batch(), list[PendingCommand](), list[PendingCommand]()
        for _ in range(min(len(self._queue), 4 * self._batch_max)):
            if len(taken) == self._batch_max:
                break
            waiting = self._queue.popleft()
            (taken if batch.admit(waiting[0]) else later).append(waiting)
        self._queue.extendleft(reversed(later))
        return taken

    async def _commit(self, batch: Sequence[PendingCommand]) -> None:
        """Write a batch, however many tries and halves it takes, and tell every future what became of it."""
        for _ in range(_RETRIES):
            try:
                batch = self._held.defer(batch) if self._held else batch
                rows = await self._execute([append for append, _, _ in batch])
            except _TRY_AGAIN:
                continue
            except Exception as refusal:  # noqa: BLE001 - whatever is wrong with one command must not take its neighbours
                await self._refused(batch, refusal)
            else:
                CONFLICTS.inc(resolve_batch(batch, rows))
            return
        reject_batch(batch, DatabaseUnavailable, "the batch met deadlocks only")

    async def _refused(self, batch: Sequence[PendingCommand], refusal: Exception) -> None:
        """Go on after a batch that was not written, or of which that is not known."""
        if isinstance(refusal, psycopg.errors.LockNotAvailable):
            await self._without_held(batch, refusal)
        elif isinstance(refusal, psycopg.OperationalError) or self._leaves_open(refusal):
            await self._gone_or_given_up(batch, refusal)
        else:
            await self._bisect(batch, refusal)

    async def _without_held(self, batch: Sequence[PendingCommand], refusal: Exception) -> None:
        """Somebody holds a head, and then its merchant's commands step aside; or a table, and then all of them wait."""
        assert self._connection is not None
        try:
            await self._held.find(self._connection, {append.merchant_id for append, _, _ in batch})
        except psycopg.Error as fault:
            await self._gone_or_given_up(batch, fault)
            return
        rest = self._held.defer(batch)
        if len(rest) == len(batch):  # it is not a head that is in the way
            late = [waiting for waiting in batch if is_late(waiting)]
            await self._gone_or_given_up(late, refusal)
            rest = [waiting for waiting in batch if not is_late(waiting)]
        await self._commit(rest)

    def _leaves_open(self, fault: Exception) -> bool:
        """Whether nobody can say yet what became of the batch: its connection is lost, or as good as lost."""
        assert self._connection is not None
        return self._connection.broken or self._connection.closed or not is_rolled_back(fault)

    async def _gone_or_given_up(self, batch: Sequence[PendingCommand], refusal: Exception) -> None:
        """The connection is lost; or there was a time-out, a full disk: that was rolled back, and is nobody's data."""
        if self._leaves_open(refusal):
            await self._resolve(batch)
            return
        if not batch:
            return
        reason = type(refusal).__name__
        _log.warning("journal_batch_failed", reason=reason, commands=len(batch), requests=request_ids(batch))
        reject_batch(batch, DatabaseUnavailable, reason)

    async def _execute(self, batch: Sequence[Append]) -> list[tuple[Any, ...]]:
        """One pipeline, one implicit transaction: its statements commit together at the pipeline's end or not at all."""
        assert self._connection is not None
        if not batch:
            return []
        heads = statement.lock_parameters(batch)
        columns = statement.append_parameters(batch, self._tables)
        began = time.perf_counter()
        with QueryTimeout(self._connection):
            async with self._connection.pipeline():
                await self._lock.execute(statement.LOCK_HEADS, heads, binary=True)
                await self._cursor.execute(self._append, columns, binary=True)
        COMMIT_SECONDS.observe(time.perf_counter() - began)
        BATCH_COMMANDS.observe(len(batch))
        self._followed.update(merchant for (merchant,) in await self._lock.fetchall() if merchant is not None)
        return await self._cursor.fetchall()

    async def _wake_followers(self) -> None:
        """Tell who follows these logs, once everybody is answered. They look by themselves too: a lost word loses nothing."""
        followed, self._followed = self._followed, set()
        if self._connection is None:
            return
        merchants = ENCODE_ARRAY["uuid"]([merchant.bytes for merchant in followed])
        try:
            with QueryTimeout(self._connection):
                await self._lock.execute(statement.WAKE_FOLLOWERS, (merchants,), binary=True)
        except psycopg.Error as fault:
            _log.warning("journal_followers_not_told", reason=type(fault).__name__)

    async def _bisect(self, batch: Sequence[PendingCommand], refusal: Exception) -> None:
        """The database refused somebody's data: write the halves apart until only the guilty command fails."""
        if len(batch) == 1:
            _log.error("journal_data_refused", reason=type(refusal).__name__, requests=request_ids(batch))
            reject_batch(batch, DataRefused, type(refusal).__name__, refusal)
            return
        BISECTED.inc()
        middle = len(batch) // 2
        await self._commit(batch[:middle])
        await self._commit(batch[middle:])

    # ---------------------------------------------------------------- a lost connection

    def _adopt(self, connection: Connection, backend: Backend) -> None:
        self._backend = backend
        self._lock = psycopg.AsyncRawCursor(connection)
        self._cursor = psycopg.AsyncRawCursor(connection)
        self._connection = connection

    async def _resolve(self, batch: Sequence[PendingCommand]) -> None:
        """Find out what became of a batch whose connection broke, and go on with a new connection."""
        lost, self._connection = self._connection, None
        if lost is not None:
            await lost.close()
        reject_batch(self._queue, DatabaseUnavailable, "the database went away")
        self._queue.clear()
        self._held.give_up("the database went away")
        RECONNECTS.labels("writer").inc()
        _log.warning("journal_connection_lost", commands=len(batch), requests=request_ids(batch))
        appends = [append for append, _, _ in batch]
        connection, backend, landed = await resolve_unknown_commit(
            self._url, "ledger-writer", _LOCK_TIMEOUT, self._backend, appends
        )
        self._adopt(connection, backend)
        _log.info("journal_connection_back", landed=len(landed), lost=len(batch) - len(landed))
        for n, (_, future, _) in enumerate(batch):
            if future.done():
                continue
            if n in landed:
                future.set_result(landed[n])
            else:
                future.set_exception(DatabaseUnavailable("the database went away before it wrote this"))
