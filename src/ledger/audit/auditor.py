"""The audit of one merchant or of all: everything that follows from the log, as of one moment.

It reads a snapshot, so it is exact while the service writes.
"""

from __future__ import annotations

import gc
import multiprocessing
import signal
import tempfile
import threading
import time
from collections import Counter, deque
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, date, datetime, timedelta
from functools import cache
from multiprocessing.util import Finalize
from pathlib import Path
from queue import SimpleQueue
from typing import Final, LiteralString
from uuid import UUID

from msgspec import Struct

from ledger.audit.invariants.broken import Broken
from ledger.audit.invariants.subscriptions import broken_payments
from ledger.audit.invariants.vault import broken_vault
from ledger.audit.leaves import LeafFile
from ledger.audit.report import ROW, Findings, Report, Sealed, Violation
from ledger.audit.snapshot import Connection, MerchantRows, Snapshot, join_snapshot, pages, take_snapshot
from ledger.audit.streams import EVENTS, StreamAuditor, StreamsAudited
from ledger.audit.sums import HASH_MODULUS, Details, MerchantPart, id_hash, row_hash
from ledger.audit.tables import KeyRange, differences, key_behind
from ledger.audit.trees import StoredTree, TreeAuditor, read_trees, removed_logs
from ledger.domain.payment_methods.state import stream_of
from ledger.invoicing.files import files_address
from ledger.journal.encryption.sealing_keys import SealingKeys
from ledger.journal.event_archive import EventArchive
from ledger.journal.inline import Row
from ledger.progress import Progress, unreported
from ledger.security.secrets import load_checkpoint_keys, load_sealing_keys
from ledger.settings import CannotRun, Settings, log_origin
from ledger.tlog.checkpoint_files import CheckpointFiles, SavedCheckpoints, checkpoints_address
from ledger.tlog.keys import LogKeys
from projections.lists import tally
from projections.payment_methods import TABLE as METHODS
from projections.search.count_check import LINES, wrong_counts
from projections.search.counts import Counted, TextCounts

_HEADS: Final = "select merchant_id, position from merchant_head order by merchant_id"
# Until which size each log was ever signed, by the database.
_SIGNED: Final = "select merchant_id, max(size) from log_checkpoint group by merchant_id"
_ERASING: Final = """
select merchant_id, customer_id from data_key where destroyed_at is not null and forgotten_at is null
"""
_TALLY: Final = """
select merchant_id, day, status, n from tally
 where merchant_id between %s and %s and n <> 0 order by merchant_id
"""
_CUSTOMERS: Final = """
select merchant_id, n from customer_count where merchant_id between %s and %s order by merchant_id
"""
_METHODS: Final = """
select merchant_id, payment_method_id, customer_id, is_default, created_at, is_saved, doc from payment_method
 where merchant_id between %s and %s order by merchant_id
"""
_COUNTS: Final = """
select merchant_id, kind, text, orders from search_count where merchant_id between %s and %s order by merchant_id
"""
# The merchants whose orders are counted for searches.
_COUNTED: Final = """
select distinct merchant_id from search_block where merchant_id between %s and %s and kind = 1 and packed
"""
# The numbers of the vault, and whether each is one that nothing is going to destroy.
_VAULT: Final = """
select merchant_id, payment_method_id, settled from vault_card where merchant_id between %s and %s order by merchant_id
"""
# The positions between the events of a log, and behind them up to its head: the first and the last of each gap.
_GAPS: Final = """
select before + 1, position - 1
  from (select position, lag(position, 1, 0::int8) over (order by position) as before
          from event where merchant_id = %(merchant_id)s and position <= %(head)s
         union all
        select %(head)s + 1, coalesce(max(position), 0)
          from event where merchant_id = %(merchant_id)s and position <= %(head)s) e
 where position > before + 1 order by 1 limit 20
"""
_BEHIND: Final = "select position from event where merchant_id = %s and position > %s order by position limit 20"
# Streams that lie evenly in a merchant's log.
_SAMPLE: Final = "select stream_id from event where merchant_id = %s and position = any(%s)"

_HEAD_MAX: Final = (1 << 63) - 2
"""The position behind it is a number of the database too."""
_DAY_ZERO: Final = date(2000, 1, 1)
_SAVED_DAYS: Final = timedelta(days=7)
_NONE: Final = UUID(int=0)
_ALL: Final = UUID(int=(1 << 128) - 1)
_RANGES_EACH: Final = 8
"""How many ranges of streams each process audits: the last ones end at about the same time."""
_SAMPLES: Final = 512
_TEXTS_MAX: Final = 20
_begun: Final[list[_Work]] = []
"""The work of this process, if it is one of a pool."""
EVENTS_READ: Final = "auditing events"
"""The step of the progress that counts events."""


class _Work(Struct, frozen=True, kw_only=True):
    """What every process of an audit needs."""

    settings: Settings
    url: str
    snapshot: Snapshot
    erasing: frozenset[tuple[UUID, UUID]]
    covered: Mapping[UUID, int]
    leaves: Path
    starts: Mapping[UUID, int]

    def leaf_file(self) -> LeafFile:
        return LeafFile(self.leaves, {merchant_id.bytes: start for merchant_id, start in self.starts.items()})


def audit(
    settings: Settings,
    url: str,
    merchant_id: UUID | None = None,
    *,
    workers: int = 1,
    saved: SavedCheckpoints | None = None,
    progress: Progress = unreported,
) -> Report:
    """Audits a merchant, or all of them, by so many processes, on Citus by one, and returns what it found.

    `url` is of a role that reads every table but the vault, whose role the settings have. `saved` are the checkpoints
    outside the database: read them before, so that the snapshot has what they have; None leaves them out. Raises
    CannotRun if there is no such merchant, and psycopg.OperationalError.
    """
    began = time.monotonic()
    with ExitStack() as stack:
        connection, snapshot = stack.enter_context(take_snapshot(url))
        workers = 1 if snapshot.is_divided else workers
        heads = dict(connection.execute(_HEADS, binary=True).fetchall())  # of all nodes: their moments begin here
        if merchant_id is not None:
            if merchant_id not in heads:
                raise CannotRun(f"there is no merchant {merchant_id}: `ledger merchants list` shows them")
            heads = {merchant_id: heads[merchant_id]}
        first, last = (_NONE, _ALL) if merchant_id is None else (merchant_id, merchant_id)
        trees = read_trees(connection, first, last)
        written = {} if saved is None else saved.by_merchant
        covered = _covered(connection, heads, trees, saved)
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ledger-audit-")))
        work = _Work(
            settings=settings,
            url=url,
            snapshot=snapshot,
            erasing=frozenset(connection.execute(_ERASING, binary=True).fetchall()),
            covered=covered,
            leaves=place / "leaves",
            starts=_starts(covered),
        )
        findings, parts, rows = Findings(), dict[UUID, MerchantPart](), 0
        for audited in _audit_streams(connection, work, heads, first, last, workers, progress):
            findings.merge(audited.total, audited.listed)
            rows += audited.rows
            for id_, part in audited.merchants.items():
                parts.setdefault(id_, MerchantPart()).add(part)
        vault = None
        if settings.database_vault_url is not None:
            vault = stack.enter_context(join_snapshot(settings.database_vault_url, snapshot))
        leaves = work.leaf_file()
        stack.callback(leaves.close)
        auditor = TreeAuditor(connection, leaves, _log_keys(settings), written, first, last)
        tables = _Tables(connection, vault, work, first, last)
        sealed: list[Sealed] = []
        for n, (id_, head) in enumerate(heads.items(), 1):
            one, wrong = auditor.audit(id_, head, trees.get(id_))
            sealed.append(one)
            part = parts.get(id_, MerchantPart())
            for violation in (*wrong, *_positions(connection, id_, head, part), *tables.compare(id_, part)):
                findings.add(violation)
            progress("comparing counters and signed logs", n, len(heads))
        passed = {"log_tree": trees.keys() - heads.keys()} | tables.passed()
        for rows_of, name in ((auditor.tiles, "log_tile"), (auditor.checkpoints, "log_checkpoint")):
            rows_of.end()
            passed[name] = rows_of.passed
        gone = removed_logs(_log_keys(settings), written, heads) if merchant_id is None else ()
        for violation in (*_without_log(heads, parts, passed), *gone):
            findings.add(violation)
    return Report(
        snapshot_at=snapshot.at,
        merchants=sum(
            head != 0 or id_ in parts for id_, head in heads.items()
        ),  # a log without events is no merchant's
        events=sum(part.events for part in parts.values()),
        orders=sum(part.orders for part in parts.values()),
        rows=rows,
        seconds=round(time.monotonic() - began, 3),
        sealed_to=[one for one in sealed if one.checkpoint is not None],
        violations_total=findings.total,
        violations=findings.listed,
    )


def audit_log(settings: Settings, url: str, place: Path) -> tuple[int, list[Violation]]:
    """Audits the signed logs of all merchants alone, and returns how many events were read, and the violations.

    The hashes of the events go through the file `place`. Raises psycopg.OperationalError.
    """
    found: list[Violation] = []
    with take_snapshot(url) as (connection, _):
        heads = dict(connection.execute(_HEADS, binary=True).fetchall())
        trees = read_trees(connection, _NONE, _ALL)
        covered = _covered(connection, heads, trees, None)
        starts = {merchant_id.bytes: start for merchant_id, start in _starts(covered).items()}
        sealed = {merchant_id.bytes: size for merchant_id, size in covered.items()}
        leaves, events = LeafFile(place, starts), 0
        for page in pages(connection, EVENTS, KeyRange((_NONE, _NONE), (_ALL, _ALL)).parameters):
            events += len(page)
            leaves.write_page(page, sealed)
        auditor = TreeAuditor(connection, leaves, _log_keys(settings), {}, _NONE, _ALL)
        for merchant_id, head in heads.items():
            found += auditor.audit(merchant_id, head, trees.get(merchant_id))[1]
        leaves.close()
    return events, found


def _log_keys(settings: Settings) -> LogKeys:
    return LogKeys(log_origin(settings), load_checkpoint_keys(settings))


async def read_saved(settings: Settings) -> SavedCheckpoints:
    """Returns the checkpoints outside the database of the last seven days, and the newest before. Raises
    CheckpointsUnavailable.
    """
    files = CheckpointFiles(checkpoints_address(settings.checkpoints_url, settings.data_dir))
    return await files.saved((datetime.now(UTC) - _SAVED_DAYS).date())


def _covered(
    connection: Connection,
    heads: Mapping[UUID, int],
    trees: Mapping[UUID, StoredTree],
    saved: SavedCheckpoints | None,
) -> dict[UUID, int]:
    """Returns until which position each log is in a tree or a checkpoint."""
    signed: dict[UUID, int] = dict(connection.execute(_SIGNED, binary=True).fetchall())
    outside = {} if saved is None else saved.sizes
    return {
        id_: min(max(0, head), max(signed.get(id_, 0), outside.get(id_, 0), trees[id_].size if id_ in trees else 0))
        for id_, head in heads.items()
    }


def _starts(covered: Mapping[UUID, int]) -> dict[UUID, int]:
    """Returns where each log's hashes begin in the file of all."""
    starts, at = {}, 0
    for merchant_id, size in covered.items():
        starts[merchant_id] = at
        at += size
    return starts


def _audit_streams(
    connection: Connection,
    work: _Work,
    heads: Mapping[UUID, int],
    first: UUID,
    last: UUID,
    workers: int,
    progress: Progress,
) -> Iterator[StreamsAudited]:
    """Yields the parts of the audit of all streams, as they end. This process is one of the `workers`."""
    total, done = sum(heads.values()), 0
    if workers == 1:
        whole = KeyRange((first, _NONE), (last, _ALL))

        def read(events: int) -> None:
            nonlocal done
            done += events
            progress(EVENTS_READ, done, total)

        yield _auditor(connection, work).audit(whole, read)
        return
    ranges = _ranges(connection, heads, workers * _RANGES_EACH, first, last)
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers - 1, spawn, _begin_process, (work,)) as pool:
        try:
            for audited in _in_parallel(pool, workers - 1, _auditor(connection, work), ranges):
                done += sum(part.events for part in audited.merchants.values())
                progress(EVENTS_READ, done, total)
                yield audited
        except BaseException:
            for process in multiprocessing.active_children():
                process.terminate()  # else the pool's end waits for its range
            raise


def _in_parallel(
    pool: Executor, processes: int, auditor: StreamAuditor, ranges: Sequence[KeyRange]
) -> Iterator[StreamsAudited]:
    """Yields the parts of the audit of ranges of streams, as they end. This process takes one after the other by
    `auditor`, as the `processes` of the pool do: a range that waits in the pool would be taken from none of them.
    """
    left, ended = deque(ranges), SimpleQueue[Future[StreamsAudited]]()

    def hand_out(before: Future[StreamsAudited] | None = None) -> None:
        if before is not None and before.exception() is not None:
            return
        with suppress(IndexError):  # none is left
            future = pool.submit(_audit_range, left.popleft())
            future.add_done_callback(ended.put)
            future.add_done_callback(hand_out)

    with _interrupts_wait():  # the first one starts all processes
        for _ in range(processes):
            hand_out()
    for _ in ranges:
        try:
            own = left.pop() if ended.empty() else None
        except IndexError:
            own = None
        yield ended.get().result() if own is None else auditor.audit(own, lambda _: None)


def tune_process() -> None:
    """Lets the collection of cycles look seldom: an audit makes millions of objects, and none of them is in a cycle."""
    gc.freeze()
    gc.set_threshold(50_000, 50, 100)


@contextmanager
def _interrupts_wait() -> Iterator[None]:
    """Lets a Ctrl-C wait until the block ends. The processes that are started in it never get theirs, for which each
    would print a traceback: this one ends them.
    """
    came = list[int]()
    is_main = threading.current_thread() is threading.main_thread()  # another thread may get no signal, or get it first
    handler = signal.signal(signal.SIGINT, lambda number, _: came.append(number)) if is_main else None
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if is_main:
            signal.signal(signal.SIGINT, handler)
        if came:
            signal.raise_signal(signal.SIGINT)


def _begin_process(work: _Work) -> None:
    """Prepares a process of the pool."""
    tune_process()
    _begun.append(work)


def _audit_range(within: KeyRange) -> StreamsAudited:
    """Audits a range in a process of the pool."""
    return _auditor_of_process().audit(within, lambda _: None)


@cache
def _auditor_of_process() -> StreamAuditor:
    """Returns the auditor of a process of the pool. Its connection serves all its ranges: another one would cost the
    database 20 ms. Raises psycopg.OperationalError.
    """
    [work] = _begun
    joined = join_snapshot(work.url, work.snapshot)
    auditor = _auditor(joined.__enter__(), work)
    Finalize(None, joined.__exit__, (None, None, None), exitpriority=0)  # at the end of the process
    return auditor


def _auditor(connection: Connection, work: _Work, details: Details | None = None) -> StreamAuditor:
    keys = SealingKeys(load_sealing_keys(work.settings))
    leaves = work.leaf_file() if details is None else None
    archive = EventArchive(files_address(work.settings.files_url, work.settings.data_dir))
    return StreamAuditor(connection, keys, work.erasing, work.covered, leaves, details, archive)


def _ranges(connection: Connection, heads: Mapping[UUID, int], count: int, first: UUID, last: UUID) -> list[KeyRange]:
    """Returns ranges of streams with about as many events each."""
    each = max(1, sum(heads.values()) // count)
    ends: list[tuple[UUID, UUID]] = []
    gathered = 0
    for merchant_id, head in sorted(heads.items()):
        if head <= each:
            gathered += head
            if gathered >= each:
                ends.append((merchant_id, _ALL))
                gathered = 0
            continue
        at = [1 + n * (head - 1) // _SAMPLES for n in range(_SAMPLES)]
        rows = connection.execute(_SAMPLE, (merchant_id, at), binary=True)
        sample = sorted(stream_id for (stream_id,) in rows)
        pieces = -(-head // each)
        ends += [(merchant_id, sample[n * len(sample) // pieces]) for n in range(1, pieces) if sample]
        ends.append((merchant_id, _ALL))
        gathered = 0
    ends = [*(end for end in dict.fromkeys(ends) if end < (last, _ALL)), (last, _ALL)]
    return [KeyRange(*range_) for range_ in zip([(first, _NONE), *map(key_behind, ends[:-1])], ends, strict=True)]


class _Tables:
    """The tables that are compared as a whole for each merchant in a range: counters, and rows with another key."""

    def __init__(self, connection: Connection, vault: Connection | None, work: _Work, first: UUID, last: UUID) -> None:
        self._connection, self._work = connection, work
        self._vault = vault
        self._tally = MerchantRows(connection, _TALLY, first, last)
        self._customers = MerchantRows(connection, _CUSTOMERS, first, last)
        self._methods = MerchantRows(connection, _METHODS, first, last)
        self._numbers = None if vault is None else MerchantRows(vault, _VAULT, first, last)
        self._counts = MerchantRows(connection, _COUNTS, first, last)
        self._counted = {merchant_id for (merchant_id,) in connection.execute(_COUNTED, (first, last), binary=True)}

    def compare(self, merchant_id: UUID, part: MerchantPart) -> list[Violation]:
        """Returns what is wrong with the counters and sums of a merchant, who comes behind the one before."""
        found = [*self._counters(merchant_id, part), *self._texts(merchant_id)]
        methods = sum(row_hash((merchant_id.bytes, *row)) for row in self._methods.of(merchant_id))
        other_methods = methods % HASH_MODULUS != part.methods
        other_numbers = False
        if self._numbers is not None:
            settled = [
                id_hash(UUID(bytes=method_id)) for method_id, is_settled in self._numbers.of(merchant_id) if is_settled
            ]
            other_numbers = sum(settled) != part.saved
        if other_methods or other_numbers or part.paid:
            found += self._details(merchant_id, part, other_methods=other_methods, other_numbers=other_numbers)
        return found

    def passed(self) -> dict[str, set[UUID]]:
        """Returns the merchants of each table whose rows were not compared. Call it at the end."""
        tables = {
            tally.TABLE.name: self._tally,
            "customer_count": self._customers,
            METHODS.name: self._methods,
            "vault_card": self._numbers,
            "search_count": self._counts,
        }
        for rows in tables.values():
            if rows is not None:
                rows.end()
        return {name: rows.passed for name, rows in tables.items() if rows is not None}

    def _counters(self, merchant_id: UUID, part: MerchantPart) -> Iterator[Violation]:
        stored = {(day, status): n for day, status, n in self._tally.of(merchant_id)}
        counted = {key: n for key, n in part.tally.items() if n}
        for day, status in sorted(stored.keys() | counted.keys()):
            expected, found = counted.get((day, status), 0), stored.get((day, status), 0)
            if expected != found:
                name = f"{status.decode()} of {_day_name(day)}"
                yield _counter(merchant_id, tally.TABLE.name, f"the counter of orders {name}", expected, found)
        customers = sum(n for (n,) in self._customers.of(merchant_id))
        if customers != part.customers:
            yield _counter(merchant_id, "customer_count", "the counter of customers", part.customers, customers)

    def _texts(self, merchant_id: UUID) -> Iterator[Violation]:
        """Yields the counters of texts that differ from the lines of searches, at most `_TEXTS_MAX` one by one.

        The end of an e-mail is left out: it may be one person's own.
        """
        stored = [(kind, text.decode(), n) for kind, text, n in self._counts.of(merchant_id)]
        if not stored and merchant_id not in self._counted:
            return
        wrong = wrong_counts(_counted(self._connection, merchant_id), stored)
        for kind, text, expected, found in wrong[:_TEXTS_MAX]:
            of = f"with {text!r}" if kind == Counted.SHORT else "by the end of an e-mail"
            yield _counter(merchant_id, "search_count", f"the counter of orders {of}", expected, found, "orders")
        if further := len(wrong[_TEXTS_MAX:]):
            what = f"{further} further counters of texts do not follow from the lines of searches"
            yield Violation(invariant=ROW, merchant_id=merchant_id, message=what, table="search_count", column="orders")

    def _details(
        self, merchant_id: UUID, part: MerchantPart, *, other_methods: bool, other_numbers: bool
    ) -> Iterator[Violation]:
        """Audits the streams of a merchant again, and yields where what their sums are over differs."""
        details = Details()
        _auditor(self._connection, self._work, details).audit(
            KeyRange((merchant_id, _NONE), (merchant_id, _ALL)), lambda _: None
        )  # what it finds was found before
        if other_methods:
            yield from _methods(merchant_id, details, _rows(self._connection, _METHODS, merchant_id))
        if other_numbers and self._vault is not None:
            rows = _rows(self._vault, _VAULT, merchant_id)
            numbers = {UUID(bytes=method_id): is_settled for _, method_id, is_settled in rows}
            yield from (_violation(merchant_id, broken) for broken in broken_vault(details.saved, numbers))
        for order_id in part.charging:  # its outcome is not recorded on both sides yet
            details.paid.pop(order_id, None)
            details.captured.pop(order_id, None)
        for broken in broken_payments(details.paid, details.captured):
            yield _violation(merchant_id, broken)


def _day_name(day: int) -> str:
    """Returns a day, counted from 2000-01-01, as people write it; one that no calendar has by its number."""
    try:
        return (_DAY_ZERO + timedelta(days=day)).isoformat()
    except OverflowError:
        return f"day {day} since {_DAY_ZERO}"


def _rows(connection: Connection, query: LiteralString, merchant_id: UUID) -> Iterator[Row]:
    """Yields rows of a merchant, of which a page is in memory at once."""
    for page in pages(connection, query, (merchant_id, merchant_id)):
        yield from page


def _positions(connection: Connection, merchant_id: UUID, head: int, part: MerchantPart) -> Iterator[Violation]:
    if (part.events, part.last) == (head, head) and (part.first == 1 or not head):
        return
    what = f"positions do not run from 1 to {head}: {part.events} events, the last at {part.last}"
    yield _violation(merchant_id, Broken("I10", what))
    for first, last in connection.execute(_GAPS, {"merchant_id": merchant_id, "head": min(head, _HEAD_MAX)}):
        where = f"at position {first}" if first == last else f"at the positions {first} to {last}"
        yield _violation(merchant_id, Broken("I10", f"there is no event {where}"), first)
    for (position,) in connection.execute(_BEHIND, (merchant_id, head)):
        what = f"there is an event at position {position}, and the log ends at {head}"
        yield _violation(merchant_id, Broken("I10", what), position)


def _without_log(
    heads: Container[UUID], parts: Mapping[UUID, MerchantPart], passed: Mapping[str, Iterable[UUID]]
) -> Iterator[Violation]:
    """Yields that there are events of merchants without a log, or rows of tables that were `passed`."""
    for merchant_id, part in parts.items():
        if merchant_id not in heads:
            yield _violation(merchant_id, Broken("I10", f"{part.events} events of a merchant that has no log"))
    for table, merchants in passed.items():
        for merchant_id in sorted(merchants):
            what = f"{table} has rows of a merchant that has no log"
            yield Violation(invariant=ROW, merchant_id=merchant_id, message=what, table=table)


def _counted(connection: Connection, merchant_id: UUID) -> TextCounts:
    """Returns what the counters of a merchant's texts should be."""
    counts = TextCounts()
    for page in pages(connection, LINES, {"merchant_id": merchant_id}):
        for line, email in page:
            counts.add(line.decode(), None if email is None else email.decode())
    return counts


def _counter(merchant_id: UUID, table: str, what: str, expected: int, found: int, column: str = "n") -> Violation:
    return Violation(
        invariant=ROW,
        merchant_id=merchant_id,
        message=f"{what} does not follow from the log",
        table=table,
        column=column,
        expected=str(expected),
        found=str(found),
    )


def _methods(merchant_id: UUID, details: Details, stored: Iterable[Row]) -> Iterator[Violation]:
    of_log, of_table = Counter(details.methods), Counter(stored)
    missing, surplus = list((of_log - of_table).elements()), list((of_table - of_log).elements())
    ids = sorted({row[1] for row in (*missing, *surplus)})
    for method_id in ids:
        expected = [row for row in missing if row[1] == method_id]
        found = [row for row in surplus if row[1] == method_id]
        about = {"stream_id": stream_of(UUID(bytes=(expected or found)[0][2]))}
        yield from differences(METHODS, merchant_id, about, expected, found)


def _violation(merchant_id: UUID, broken: Broken, position: int | None = None) -> Violation:
    return Violation(invariant=broken.invariant, merchant_id=merchant_id, message=broken.message, position=position)
