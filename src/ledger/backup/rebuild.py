"""Computes the read models from the log again, and writes what differs in place, beside the service.

What is compared is one snapshot for each merchant. What differs is written in pages under the lock of the merchant's
head, for which commits wait: a page is so small that it takes 50 ms at most. A stream that has changed since the
snapshot is folded again under the lock. Every page leaves right rows, so a rebuild may be ended and run again.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from typing import Final
from uuid import UUID

from msgspec import MsgspecError, Struct
from psycopg import IsolationLevel, sql

from ledger.backup.comparison import EXPLAINED_MAX, ChangedOrder, Comparison, LogIncomplete, Wrong, render_streams
from ledger.domain.customers.events import CustomerErased
from ledger.domain.streams import CUSTOMERS
from ledger.journal.append import SealBroken
from ledger.journal.codec import UnknownTopic
from ledger.journal.inline import Row
from ledger.journal.reader import LogReader
from ledger.postgres.arrays import ENCODE_ARRAY
from ledger.postgres.connection import Connection, connect
from ledger.postgres.merchant_transactions import MerchantTransactions
from ledger.postgres.skip_scan import skip_scan
from ledger.progress import Progress, unreported
from ledger.settings import CannotRun
from projections import customers
from projections.lists import tally
from projections.read_models import LINES, NAMES, READ_MODELS, ReadModel
from projections.search.repair import forget_counts, replace_lines, write_rows_again

_LOCKED_S: Final = 0.015
"""How long the head of a merchant is to be locked for a page. Pages become larger or smaller so that it takes that."""
_AT_ONCE_MAX: Final = 64
_WAITS: Final = "10s"
_UNLIMITED: Final = {"statement_timeout": "0", "idle_in_transaction_session_timeout": "0"}
"""The settings of a session whose snapshot lasts as long as a merchant's log takes."""
_LOCK: Final = 0x2EB111D
"""An arbitrary number that must never change: two rebuilds at once would change the counters twice."""
_ERASED: Final = next(topic for topic, kind in CUSTOMERS.topics.items() if kind is CustomerErased)

# One merchant or all, with the length of the log, the number of events and of streams, and how many streams have their
# beginning.
_MERCHANTS: Final = """
select h.merchant_id, h.position, e.events, e.streams, e.begun
  from merchant_head h cross join lateral (
    select count(*) as events, count(distinct stream_id) as streams, count(*) filter (where version = 1) as begun
      from event where merchant_id = h.merchant_id) e
 where %(merchant_id)s::uuid is null or h.merchant_id = %(merchant_id)s order by h.merchant_id
"""

_LOCK_HEAD: Final = "select position from merchant_head where merchant_id = %s for update"

# The streams that have changed behind a position, and by what.
_CHANGED: Final = "select distinct stream_id, topic from event where merchant_id = %s and position > %s"

# The merchants of a table that have no log.
_STRAY: Final = "select value from found where not exists (select from merchant_head h where h.merchant_id = value)"
_STRAY_ON_CITUS: Final = """
select distinct t.merchant_id from {table} t left join merchant_head h using (merchant_id) where h.merchant_id is null
"""
_REMOVE: Final = "delete from {} where merchant_id = %s"
_COUNT: Final = "select from {} where merchant_id = %s"

# Brings the number of a merchant's customers up to date.
_COUNT_CUSTOMERS: Final = """
insert into customer_count as t (merchant_id, n)
select %(merchant_id)s, count(*) from customer where merchant_id = %(merchant_id)s and not erased
on conflict (merchant_id) do update set n = excluded.n where t.n <> excluded.n
"""
_DROP_EMPTY_COUNTERS: Final = "delete from tally where merchant_id = %s and n = 0"


class Rebuilt(Struct, frozen=True, rename="camel"):
    """A table: how many rows it ought to have, and how many were missing, different or surplus."""

    table: str
    rows: int
    differing: int


class Rebuild(Struct, frozen=True):
    """What was compared, and the first orders whose status or money differs."""

    tables: list[Rebuilt]
    orders: list[ChangedOrder]

    @property
    def differs(self) -> bool:
        return any(table.differing for table in self.tables)


async def rebuild(
    url: str,
    reader: LogReader,
    *,
    tables: Collection[str] = NAMES,
    merchant_id: UUID | None = None,
    writes: bool = True,
    progress: Progress = unreported,
) -> Rebuild:
    """Compares tables of one merchant or of all with the log, and, if it `writes`, corrects them.

    Raises CannotRun: an unknown merchant, another rebuild, or a log that lacks an event or has one that cannot be read;
    KeyUnavailable.
    """
    async with _reading(url) as snapshots:
        connection = snapshots.connection
        cursor = await connection.execute(_MERCHANTS, {"merchant_id": merchant_id})
        chosen = await cursor.fetchall()
        if merchant_id is not None and not chosen:
            raise CannotRun(f"there is no merchant {merchant_id}: see `ledger merchants list`")
        for each, head, events, streams, begun in chosen:
            if streams != begun:
                raise CannotRun(_incomplete(f"merchant {each} has {streams - begun} streams without their first event"))
            if head != events:
                raise CannotRun(_incomplete(f"merchant {each} has {events} events up to the position {head}"))
        work = _Work(snapshots, reader, frozenset(tables), sum(streams for *_, streams, _ in chosen), progress)
        try:
            if not writes:
                for each, *_ in chosen:
                    await work.merchant(each, None)
                await work.stray(connection, merchant_id, writes=False)
            else:
                async with _writing(url) as writer:
                    for each, *_ in chosen:
                        await work.merchant(each, writer)
                    await work.stray(writer.connection, merchant_id, writes=True)
        except LogIncomplete as incomplete:
            raise CannotRun(_incomplete(str(incomplete))) from None
        except (SealBroken, UnknownTopic, MsgspecError) as unread:
            raise CannotRun(
                f"an event of the log cannot be read ({unread}): restore it, or run the release that wrote it"
            ) from unread
    return work.result()


def _incomplete(reason: str) -> str:
    return f"{reason}: read models are not computed from a log with a gap; restore a backup"


@asynccontextmanager
async def _reading(url: str) -> AsyncIterator[_Session]:
    """Yields what reads snapshots."""
    async with (
        await connect(url, "ledger-rebuild-snapshot") as connection,
        MerchantTransactions(url, "ledger-rebuild-snapshot", _UNLIMITED) as transactions,
    ):
        for name in _UNLIMITED:
            await connection.execute("select set_config(%s, '0', false)", (name,))
        await connection.set_isolation_level(IsolationLevel.REPEATABLE_READ)
        await connection.set_read_only(True)
        yield _Session(connection, transactions)


@asynccontextmanager
async def _writing(url: str) -> AsyncIterator[_Session]:
    """Yields what writes. Raises CannotRun while another rebuild runs."""
    async with (
        await connect(url, "ledger-rebuild", lock_timeout=_WAITS) as connection,
        MerchantTransactions(url, "ledger-rebuild", {"lock_timeout": _WAITS}) as transactions,
    ):
        row = await (await connection.execute("select pg_try_advisory_lock(%s)", (_LOCK,))).fetchone()
        if row != (True,):
            raise CannotRun("another rebuild runs: wait for its end")
        yield _Session(connection, transactions)


class _Session(Struct, frozen=True):
    """A connection, and the transactions of one merchant each that are begun by it."""

    connection: Connection
    transactions: MerchantTransactions


class _Work:
    """One run over some merchants."""

    def __init__(
        self,
        snapshots: _Session,
        reader: LogReader,
        tables: frozenset[str],
        streams: int,
        progress: Progress,
    ) -> None:
        self._snapshots, self._reader, self._tables, self._progress = snapshots, reader, tables, progress
        self._streams, self._done = streams, 0
        self._rows: Counter[str] = Counter()
        self._differing: Counter[str] = Counter()
        self._orders: list[ChangedOrder] = []

    async def merchant(self, merchant_id: UUID, writer: _Session | None) -> None:
        """Compares the tables of a merchant in a snapshot, and corrects them if there is a writer."""
        async with self._snapshots.transactions.begin(self._snapshots.connection, merchant_id) as snapshot:
            row = await (await snapshot.execute(
                "select position from merchant_head where merchant_id = %s", (merchant_id,)
            )).fetchone()  # fmt: skip
            head = 0 if row is None else row[0]
            repair = None if writer is None else _Repair(writer, self._reader, merchant_id, head, self._tables)
            comparison = Comparison(snapshot, self._reader, merchant_id, head, self._tables)
            async for streams, wrong in comparison.pages():
                if repair is not None:
                    await repair.write(wrong)
                self._done += streams
                self._progress("comparing streams with every read model", self._done, max(self._streams, self._done))
            changes = await comparison.counters()
            is_counted = await comparison.has_right_count()
            rows_of_lines = await comparison.wrong_rows_of_lines()
            has_wrong_counts = await comparison.has_wrong_counts()
            if repair is not None:
                await repair.write_rows_of_lines(rows_of_lines, counts_again=has_wrong_counts)
                await repair.write_counters(changes, counts_customers=not is_counted)
        self._rows += comparison.rows
        self._differing += comparison.differing
        named = {(each.merchant_id, each.order_id) for each in self._orders}
        for change in comparison.changed_orders:
            if (order := (change.merchant_id, change.order_id)) in named or len(named) < EXPLAINED_MAX:
                named.add(order)
                self._orders.append(change)

    async def stray(self, connection: Connection, merchant_id: UUID | None, *, writes: bool) -> None:
        """Counts, and removes if it `writes`, the rows of merchants that have no log. Not if one merchant was named."""
        if merchant_id is not None:
            return
        for name in sorted(self._tables):
            table = "search_block" if name == LINES else name
            statement = skip_scan(table=table, column="merchant_id", where="true", then=_STRAY)
            if connection.has_citus:  # it supports no recursion over all merchants
                statement = _STRAY_ON_CITUS.format(table=table)
            strays = [stray for (stray,) in await (await connection.execute(statement)).fetchall()]
            rows = sql.SQL(_REMOVE if writes else _COUNT).format(sql.Identifier(table))
            for stray in strays:
                done = await connection.execute(rows, (stray,))
                self._differing[name] += done.rowcount

    def result(self) -> Rebuild:
        tables = [Rebuilt(name, self._rows[name], self._differing[name]) for name in sorted(self._tables)]
        return Rebuild(tables, self._orders)


class _Repair:
    """Writes what differs of one merchant, under the lock of its head."""

    def __init__(
        self, writer: _Session, reader: LogReader, merchant_id: UUID, head: int, tables: frozenset[str]
    ) -> None:
        self._writer, self._reader, self._merchant_id = writer, reader, merchant_id
        self._models = [model for model in READ_MODELS if model.name in tables]
        self._head = head  # up to which the changes below are known
        self._changed: set[UUID] = set()
        self._has_erased = False  # rows that were rendered before may have the person
        self._has_forgotten_counts = False
        self._has_written_customers = False  # which a trigger has counted, as if they were new
        self._announced: set[str] = set()
        self._at_once = 8

    async def write(self, wrong: Sequence[Wrong]) -> None:
        """Writes what differs of these streams, in pages with a pause after each: commits have half of the time."""
        at = 0
        while at < len(wrong):
            some = wrong[at : at + self._at_once]
            async with self._locked() as (connection, began):
                await self._write(connection, some)
            spent = time.perf_counter() - began
            await self._announce()
            at += len(some)
            await asyncio.sleep(spent)
            self._at_once = max(1, min(_AT_ONCE_MAX, 2 * len(some), int(len(some) * _LOCKED_S / max(spent, 1e-3))))

    async def write_counters(self, changes: Sequence[Row], *, counts_customers: bool) -> None:
        """Adds the differences to the counters of orders, and counts the customers.

        Commits since the snapshot have changed the counters by differences too.
        """
        if changes:
            types = tuple(type_ for _, type_ in tally.TABLE.columns)
            arrays = [
                ENCODE_ARRAY[type_](column) for type_, column in zip(types, zip(*changes, strict=True), strict=True)
            ]
            columns = ", ".join(name for name, _ in tally.TABLE.columns)
            unnested = f"unnest({', '.join(f'%s::{type_}[]' for type_ in types)})"
            rows = f"(select * from {unnested} as r({columns})) as changes"  # noqa: S608 - constants
            async with self._locked() as (connection, _):
                await connection.execute(tally.TABLE.write.format(rows=rows), arrays)
                await connection.execute(_DROP_EMPTY_COUNTERS, (self._merchant_id,))
        if counts_customers or self._has_written_customers:
            async with self._locked() as (connection, _):
                await connection.execute(_COUNT_CUSTOMERS, {"merchant_id": self._merchant_id})

    async def write_rows_of_lines(self, rows: Sequence[Sequence[UUID]], *, counts_again: bool) -> None:
        """Writes rows of lines again, whose lines have these ids, and has lines counted again."""
        if counts_again:
            async with self._locked() as (connection, _):
                await self._forget_counts(connection)
        for ids in rows:
            async with self._locked() as (connection, _):
                await self._forget_counts(connection)
                await write_rows_again(connection, self._merchant_id, ids)

    async def _announce(self) -> None:
        """Notifies those who listen for changes of rows that were written. On an ordinary Postgres, triggers do."""
        while self._announced:
            channel = self._announced.pop()
            if self._writer.connection.has_citus:
                await self._writer.connection.execute("select pg_notify(%s, %s)", (channel, str(self._merchant_id)))

    async def _forget_counts(self, connection: Connection) -> None:
        if not self._has_forgotten_counts:
            await forget_counts(connection, self._merchant_id)
            self._has_forgotten_counts = True

    @asynccontextmanager
    async def _locked(self) -> AsyncIterator[tuple[Connection, float]]:
        """Locks the merchant's head for a transaction, and yields its connection, and when the head was locked
        (`time.perf_counter`). Notes what has changed before.
        """
        async with self._writer.transactions.begin(self._writer.connection, self._merchant_id) as connection:
            row = await (await connection.execute(_LOCK_HEAD, (self._merchant_id,))).fetchone()
            began = time.perf_counter()
            assert row is not None, "a merchant's head is never removed"
            if row[0] > self._head:
                cursor = await connection.execute(_CHANGED, (self._merchant_id, self._head))
                for stream_id, topic in await cursor.fetchall():
                    self._changed.add(stream_id)
                    self._has_erased = self._has_erased or topic == _ERASED
                self._head = row[0]
            yield connection, began

    async def _write(self, connection: Connection, wrong: Sequence[Wrong]) -> None:
        changed = [each for each in wrong if self._has_erased or each.stream_id in self._changed]
        fresh = await render_streams(
            self._reader, connection, self._merchant_id, [each.stream_id for each in changed], self._head
        )
        for each in changed:
            rows = fresh.get(each.stream_id, {})
            each.rows = {model.name: list(rows[model.name]) for model in self._models if rows.get(model.name)}
            each.lines = None if each.lines is None else list(rows.get(LINES, ()))
        for model in self._models:
            await self._write_rows(connection, model, wrong)
        lines = {each.stream_id: each.lines for each in wrong if each.lines is not None}
        if lines:
            await self._forget_counts(connection)
            await replace_lines(
                connection, self._merchant_id, lines.keys(), [row for some in lines.values() for row in some]
            )

    async def _write_rows(self, connection: Connection, model: ReadModel, wrong: Sequence[Wrong]) -> None:
        rows = [row for each in wrong for row in each.rows.get(model.name, ())]
        due = {model.key_of(row) for row in rows}
        surplus = [row for each in wrong for row in each.surplus.get(model.name, ()) if model.key_of(row) not in due]
        if surplus:  # first: a missing row may have another key that one of these has
            await connection.execute(*model.remove(surplus))
        if rows:
            await connection.execute(*model.write(rows))
        if model.table.announced_as and (rows or surplus):
            self._announced.add(model.table.announced_as)
        if model.table is customers.TABLE and (rows or surplus):
            self._has_written_customers = True
            if rows:  # a trigger for earlier releases may have changed what was written
                await connection.execute(*model.write(rows))
