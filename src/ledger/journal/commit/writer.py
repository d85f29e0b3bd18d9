"""The journal's writer: the group commit of appends. One bad command or locked merchant does not fail its batch.

Read `group_commit` first: the queue, the task, the lost connection and the order in which batches are sent are there.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Final
from uuid import UUID

import psycopg
import structlog

from ledger.journal.append import Append, CommitUnknown, Conflict, DataRefused
from ledger.journal.commit import append_statement
from ledger.journal.commit.batch import Batch, Overtaken, request_ids, results_of
from ledger.journal.commit.group_commit import GroupCommitter, PendingAppend, reject_batch
from ledger.journal.commit.locked_merchants import LOCK_WAIT_S, LOCKED, LOOK_S, LockedMerchants, split_late
from ledger.journal.inline import InlineTable
from ledger.postgres.arrays import ENCODE_ARRAY
from ledger.postgres.connection import Backend, Connection
from ledger.postgres.faults import DatabaseUnavailable
from ledger.postgres.pipeline import Pipeline, Rows, Statement
from ledger.postgres.replication import COMMIT_A_MESSAGE
from ledger.telemetry.metrics import BATCH_COMMANDS, BISECTED, COMMIT_SECONDS, CONFLICTS, RECONNECTS

_log = structlog.get_logger()

_LOCK: Final = Statement(b"ledger_lock", append_statement.LOCK_HEADS.encode())
# Each connection prepares a statement for each set of rare tables that its batches write; a service writes few sets.
# Past this number a batch writes to all tables, so that no backend keeps a plan for every set that is possible.
STATEMENTS_MAX: Final = 16
_WAKE_FOLLOWERS: Final = Statement(b"ledger_wake_followers", append_statement.WAKE_FOLLOWERS.encode())

CONFIRM: Final = Statement(b"ledger_confirm", COMMIT_A_MESSAGE.encode())

_VALUE_REFUSED: Final = (psycopg.DataError, psycopg.IntegrityError)
"""The database's refusals of a value.

No command causes the other refusals, such as a full disk or a database that became read-only.
"""

AppendTo = tuple[Statement, Sequence[InlineTable]]
"""A statement that appends, and the tables that it names, whose columns are its parameters."""


class Writer(GroupCommitter):
    """The group commit of appends. The result of each is the merchant's position of its last event.

    `tables` are written inline; at most `batch_max` commands make a batch and at most `queue_max` wait. `name` is the
    connection's in the database's activity view. The writer counts the sizes of batches, the seconds that their commits
    took, commands that met a conflict, batches halved because the database refused a value, and lost connections.
    """

    _lock_timeout = f"{LOCK_WAIT_S * 1000:.0f}ms"

    def __init__(
        self,
        url: str,
        tables: Sequence[InlineTable] = (),
        *,
        batch_max: int = 256,
        queue_max: int = 10_000,
        name: str = "ledger-writer",
    ) -> None:
        super().__init__(url, batch_max=batch_max, queue_max=queue_max)
        self._name = name
        self._tables = tuple(tables)
        self._rare = frozenset(table.name for table in self._tables if table.is_rare)
        self._all = _append_to(self._tables, b"ledger_append_to_all")
        common = tuple(table for table in self._tables if not table.is_rare)
        self._by_rare = {frozenset[str](): _append_to(common, b"ledger_append")}
        self._has_dependent = False  # whether commands in the queue could not join the last batch
        self._waking: asyncio.Future[None] | None = None
        self._locked = LockedMerchants()

    @property
    def depth(self) -> int:
        """How many commands wait, those of locked merchants included."""
        return len(self._queue) + len(self._locked.deferred)

    def submit(self, command: Append) -> asyncio.Future[int]:
        """Queues a command; the future resolves to the merchant's position of its last event.

        Raises DatabaseUnavailable or QueueFull at once. The future may raise a Conflict, DataRefused or
        DatabaseUnavailable: nothing was written; or CommitUnknown. Cancelling it does not cancel the command.
        """
        if self._locked.since and self._locked.refuses(command.merchant_id):
            raise DatabaseUnavailable(LOCKED)
        return super().submit(command)

    async def confirm(self, merchant_id: UUID) -> None:
        """Returns once the synchronous standby has everything that a merchant's log shows now. Raises
        DatabaseUnavailable.
        """
        self.require_confirmed(merchant_id)
        try:
            await self._pipeline.send([(CONFIRM, ())], lambda _: None)
        except psycopg.Error as fault:
            raise DatabaseUnavailable(type(fault).__name__) from fault

    def require_confirmed(self, merchant_id: UUID) -> None:
        """Raises DatabaseUnavailable while a merchant's log may show commits that the synchronous standby lacks, as
        after a lost connection.
        """
        del merchant_id  # all logs are on one server
        if not self.alive:
            raise DatabaseUnavailable("the database has not confirmed what it shows: try again later")

    # ---------------------------------------------------------------- a batch

    def _take(self) -> Sequence[PendingAppend]:
        """Takes the next batch, in order. Commands that depend on it stay at the head of the queue."""
        batch, taken, later = Batch(), list[PendingAppend](), list[PendingAppend]()
        for _ in range(min(len(self._queue), 4 * self._batch_max)):
            if len(taken) == self._batch_max:
                break
            pending = self._queue.popleft()
            (taken if batch.admit(pending.command) else later).append(pending)
        self._queue.extendleft(reversed(later))
        self._has_dependent = bool(later)
        return taken

    def _may_overlap(self) -> bool:
        return not self._locked.since and super()._may_overlap()

    async def _commit(self, batch: Sequence[PendingAppend]) -> None:
        await super()._commit(self._locked.defer(batch) if self._locked.since else batch)

    def _execute(self, _: Connection, commands: Sequence[Append]) -> Awaitable[Rows]:
        """Sends one implicit transaction, whose statements are sent and commit together, or not at all."""
        rare = self._rare.intersection(chain.from_iterable([command.rows for command in commands]))
        append, tables = self._by_rare.get(rare) or self._append_with(rare)
        heads = append_statement.lock_parameters(commands)
        columns = append_statement.append_parameters(commands, tables)
        committed = partial(self._committed, time.perf_counter(), len(commands))
        return self._pipeline.send([(_LOCK, heads), (append, columns)], committed)

    def _append_with(self, rare: frozenset[str]) -> AppendTo:
        """Returns the statement for a batch that writes these rare tables, and the tables that it names."""
        if len(self._by_rare) == STATEMENTS_MAX:
            return self._all
        tables = tuple(table for table in self._tables if not table.is_rare or table.name in rare)
        self._by_rare[rare] = made = _append_to(tables, b"ledger_append_%d" % len(self._by_rare))
        return made

    def _committed(self, began: float, commands: int, results: Sequence[Rows]) -> Rows:
        heads, rows = results
        COMMIT_SECONDS.observe(time.perf_counter() - began)
        BATCH_COMMANDS.observe(commands)
        if followed := [merchant.bytes for (merchant,) in heads if merchant is not None]:
            self._wake_followers(followed)
        return rows

    def _results(self, commands: Sequence[Append], rows: Rows) -> Sequence[int | Conflict]:
        results = results_of(commands, rows)
        CONFLICTS.inc(sum(isinstance(result, Conflict) for result in results))
        if self._has_dependent:
            self._reject_overtaken(Overtaken(commands, results))
        return results

    def _reject_overtaken(self, overtaken: Overtaken) -> None:
        """Answers the commands in the queue whose conflict is certain, instead of one of them with each batch."""
        waiting: deque[PendingAppend] = deque()
        for pending in self._queue:
            conflict = overtaken.conflict_of(pending.command)
            if conflict is None:
                waiting.append(pending)
            elif not pending.future.done():
                CONFLICTS.inc()
                pending.future.set_exception(conflict)
        self._queue = waiting

    # ---------------------------------------------------------------- a batch that was rolled back

    async def _rolled_back(self, batch: Sequence[PendingAppend], fault: Exception) -> None:
        if isinstance(fault, psycopg.errors.LockNotAvailable):
            await self._commit_unlocked(batch, fault)
        elif isinstance(fault, psycopg.Error) and not isinstance(fault, _VALUE_REFUSED):
            self._reject(batch, fault)
            if isinstance(fault, psycopg.errors.ReadOnlySqlTransaction):
                self._drop_answered()
                await self._resolve(())  # another server may be the primary now
        else:
            await self._bisect(batch, fault)

    async def _commit_unlocked(self, batch: Sequence[PendingAppend], fault: Exception) -> None:
        """Defers the commands of merchants whose head is locked. If a whole table is locked, all commands wait."""
        try:
            await self._locked.find(self._pipeline, {pending.command.merchant_id for pending in batch})
        except psycopg.Error as lost:
            if self._is_unknown(lost):
                await self._resolve(batch)
            else:
                self._reject(batch, lost)
            return
        late, rest = split_late(self._locked.defer(batch))
        self._locked.reject_late()  # the rest may wait for a locked table, and no head is looked at meanwhile
        self._reject(late, fault)
        await self._commit(rest)

    async def _bisect(self, batch: Sequence[PendingAppend], fault: Exception) -> None:
        """Commits the halves of a batch with a value that the database refuses, until only that command fails."""
        if len(batch) == 1:
            _log.error("journal_data_refused", reason=type(fault).__name__, requests=request_ids(batch))
            reject_batch(batch, DataRefused, type(fault).__name__, fault)
            return
        BISECTED.inc()
        middle = len(batch) // 2
        await self._commit(batch[:middle])
        await self._commit(batch[middle:])

    def _reject(self, batch: Sequence[PendingAppend], fault: Exception) -> None:
        if batch:
            reason = type(fault).__name__
            _log.warning("journal_batch_failed", reason=reason, commands=len(batch), requests=request_ids(batch))
            if isinstance(fault, psycopg.errors.ReadOnlySqlTransaction):
                _log.error("database_read_only", of=self._name, reason=reason)
            reject_batch(batch, DatabaseUnavailable, reason)

    # ---------------------------------------------------------------- between batches

    async def _between_batches(self) -> None:
        if self._locked.since and self._locked.is_due:
            await self._take_back()
        if self._closing and not self._queue:
            self._locked.reject_all("the service ends")
            if self._waking is not None:
                await asyncio.wait([self._waking])
        if self._locked.since:
            asyncio.get_running_loop().call_later(LOOK_S, self._wake.set)

    async def _take_back(self) -> None:
        """Puts the commands of merchants that are no longer locked to the head of the queue."""
        try:
            self._queue.extendleft(reversed(await self._locked.look(self._pipeline)))
        except psycopg.Error as fault:
            if self._is_unknown(fault):
                await self._resolve(())
            else:
                self._locked.reject_late()  # no head can be looked at while their table is locked

    def _wake_followers(self, followed: Sequence[bytes]) -> None:
        """Notifies the followers of these merchants' logs after their commit.

        They also poll: a lost notification loses no event.
        """
        statement = _WAKE_FOLLOWERS, [ENCODE_ARRAY["uuid"](followed)]
        self._waking = self._pipeline.send([statement], lambda _: None)
        self._waking.add_done_callback(_log_unsent)

    # ---------------------------------------------------------------- a lost connection, and the end

    def _adopt(self, connection: Connection, backend: Backend) -> None:
        super()._adopt(connection, backend)
        self._pipeline = Pipeline(connection, self._wake.set)

    async def _disconnect(self) -> None:
        if self._connection is not None:
            self._pipeline.close()
        await super()._disconnect()

    def _connection_lost(self, batch: Sequence[PendingAppend]) -> None:
        reject_batch(self._queue, DatabaseUnavailable, "the database went away")
        self._queue.clear()
        self._locked.reject_all("the database went away")
        RECONNECTS.labels("writer").inc()
        _log.warning("journal_connection_lost", commands=len(batch), requests=request_ids(batch))

    async def _find_committed(self, connection: Connection, commands: Sequence[Append]) -> Mapping[int, int]:
        found = await connection.cursor(binary=True).execute(
            append_statement.COMMITTED, append_statement.committed_parameters(commands)
        )
        return {int(n): int(position) for n, position in await found.fetchall()}

    def _connection_back(self, committed: int, uncommitted: Sequence[PendingAppend]) -> None:
        _log.info("journal_connection_back", landed=committed, lost=len(uncommitted))
        reject_batch(uncommitted, DatabaseUnavailable, "the database went away before it wrote this")

    def _ended(self, unanswered: Sequence[PendingAppend], fault: BaseException) -> None:
        requests = request_ids([*unanswered, *self._queue])
        reason, unknown, waiting = type(fault).__name__, len(unanswered), self.depth
        _log.error("journal_ended", reason=reason, unknown=unknown, waiting=waiting, requests=requests)
        reject_batch(unanswered, CommitUnknown, f"the writer ended: {fault!r}")
        self._locked.reject_all("the writer ended")


def _append_to(tables: Sequence[InlineTable], name: bytes) -> AppendTo:
    return Statement(name, append_statement.build_statement(tables).encode()), tables


def _log_unsent(waking: asyncio.Future[None]) -> None:
    if fault := waking.exception():
        _log.warning("journal_followers_not_told", reason=type(fault).__name__)
