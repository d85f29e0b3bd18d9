"""Compares the read models of one merchant with its log, in one snapshot and page by page of streams.

The memory that it takes is that of a page. A page has the streams in the order of their ids, and the rows whose owners
lie between them: rows that follow from no stream are found in the same way as missing ones.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

import msgspec
from msgspec import Struct

from ledger.domain.streams import TOPICS
from ledger.journal.inline import Row
from ledger.journal.reader import LogReader
from ledger.postgres.connection import Connection
from projections.inline import rows_of
from projections.read_models import CUSTOMER_COUNT, CUSTOMERS, LINES, ORDERS, READ_MODELS, TALLY, Key, ReadModel
from projections.rebuild import as_sent, state_of
from projections.search import count_check
from projections.search.counts import TextCounts
from projections.search.rows import COLUMNS, KINDS, wrong_columns

EXPLAINED_MAX: Final = 20
"""How many orders are named whose status or money differs."""
_PAGE: Final = 200
"""How many streams are compared at once."""
_ROWS: Final = 1000
_ROWS_AT_ONCE: Final = 64
_LINES_AT_ONCE: Final = 1000
_LAST: Final = UUID(int=(1 << 128) - 1)

# The next streams of a merchant.
_STREAMS: Final = """
select stream_id from event where merchant_id = %s and stream_id >= %s and version = 1 order by stream_id limit %s
"""

# The lines of searches in the order of the streams.
# A text without an id is named by its row.
_LINES: Final = """
select merchant_id, kind, id, at, text from search_line where merchant_id = %s and id is not null order by id
"""

# The rows of those lines, with what lets searches skip them.
_ROWS_OF_LINES: Final = f"select {COLUMNS} from search_block where merchant_id = %s and kind = any(%s)"  # noqa: S608

# The counters of a merchant that are not zero, and the number of its customers.
_TALLY: Final = "select merchant_id, day, status, n from tally where merchant_id = %s and n <> 0"
_CUSTOMERS: Final = "select n from customer_count where merchant_id = %s"

Rendered = Mapping[str, Sequence[Row]]
"""The rows of one stream by table."""


class LogIncomplete(Exception):
    """An event of the log is missing: nothing may be computed from it. The message names the merchant."""


class Wrong(Struct):
    """What differs of one stream: rows that are missing or different, as they ought to be; stored rows that follow from
    no event; and, unless that is None, what its lines of searches ought to be.
    """

    stream_id: UUID
    rows: dict[str, list[Row]]
    surplus: dict[str, list[Row]]
    lines: list[Row] | None = None


class ChangedOrder(Struct, frozen=True, rename="camel"):
    """A status or an amount of an order that differs from its log, as text. An absent order has none."""

    merchant_id: UUID
    order_id: UUID
    field: str
    stored: str | None
    computed: str | None


async def render_streams(
    reader: LogReader, connection: Connection, merchant_id: UUID, streams: Sequence[UUID], until: int
) -> dict[UUID, Rendered]:
    """Returns the rows of each of these streams from its events up to a position.

    Those of other applications have none. Raises LogIncomplete; KeyUnavailable, SealBroken if an event does not open.
    """
    if not streams:
        return {}
    of_streams = await reader.stored_parts(connection, merchant_id, [(stream_id, 0, until) for stream_id in streams])
    ours = [events for events in of_streams if events and events[0][3] in TOPICS]
    every = [event for events in ours for event in events]
    opened = iter(await reader.opened(connection, merchant_id, every, uses_cached_keys=False))
    rendered: dict[UUID, Rendered] = {}
    for stored in ours:
        events = [next(opened) for _ in stored]
        versions = [event.version for event in events]
        if versions != list(range(1, len(events) + 1)):
            raise LogIncomplete(f"merchant {merchant_id}: a version of the stream {events[0].stream_id} is missing")
        state = state_of(event.event for event in events)
        rendered[events[0].stream_id] = rows_of(merchant_id, len(events), None, state)
    return rendered


class Comparison:
    """Compares tables of one merchant with its log up to the position `head`.

    `connection` is in a transaction that sees one snapshot, of the log too.
    """

    def __init__(
        self, connection: Connection, reader: LogReader, merchant_id: UUID, head: int, tables: frozenset[str]
    ) -> None:
        self._connection, self._reader, self._merchant_id, self._head = connection, reader, merchant_id, head
        self._models = [model for model in READ_MODELS if model.name in tables]
        self._tables = tables
        self._lines = _Lines(connection, merchant_id)
        self._found: dict[str, set[Key]] = defaultdict(set)  # keys of rows that differ, of tables without a range
        self._counters: Counter[tuple[int, bytes]] = Counter()
        self._customers = 0
        self.rows: Counter[str] = Counter()
        """How many rows each table ought to have."""
        self.differing: Counter[str] = Counter()
        """How many rows of each table are missing, different or surplus."""
        self.changed_orders: list[ChangedOrder] = []
        """What differs of the first orders whose status or money does."""
        self._named: set[UUID] = set()

    async def pages(self) -> AsyncIterator[tuple[int, list[Wrong]]]:
        """Yields, page by page, how many events were read, and what differs. Raises as `render_streams`."""
        lower, streams = UUID(int=0), [_LAST]
        while lower <= _LAST and streams:
            cursor = await self._connection.execute(_STREAMS, (self._merchant_id, lower, _PAGE))
            streams = [stream_id for (stream_id,) in await cursor.fetchall()]
            upper = streams[-1] if len(streams) == _PAGE else _LAST
            yield await self._page(streams, lower, upper)
            if upper == _LAST:
                break
            lower = UUID(int=upper.int + 1)
        for model in self._models:
            if not model.is_ranged:
                async for wrong in self._surplus(model):
                    yield 0, wrong

    async def counters(self) -> list[Row]:
        """Returns what has to be added to the counters of orders, after all pages."""
        if TALLY not in self._tables:
            return []
        cursor = await as_sent(self._connection.cursor(binary=True)).execute(_TALLY, (self._merchant_id,))
        stored = {(day, status): n for _, day, status, n in await cursor.fetchall()}
        due = {counter: n for counter, n in self._counters.items() if n}
        missing = {each: due.get(each, 0) - stored.get(each, 0) for each in {*due, *stored}}
        changes = [(self._merchant_id.bytes, day, status, n) for (day, status), n in sorted(missing.items()) if n]
        self.rows[TALLY] += len(due)
        self.differing[TALLY] += len(changes)
        return changes

    async def has_right_count(self) -> bool:
        """Returns whether the number of customers is right, after all pages."""
        if CUSTOMER_COUNT not in self._tables:
            return True
        row = await (await self._connection.execute(_CUSTOMERS, (self._merchant_id,))).fetchone()
        is_right = (0 if row is None else row[0]) == self._customers
        self.rows[CUSTOMER_COUNT] += 1
        self.differing[CUSTOMER_COUNT] += not is_right
        return is_right

    async def _page(self, streams: Sequence[UUID], lower: UUID, upper: UUID) -> tuple[int, list[Wrong]]:
        rendered = await render_streams(self._reader, self._connection, self._merchant_id, streams, self._head)
        wrong: dict[UUID, Wrong] = {}
        for model in self._models:
            due = {
                model.key_of(row): (stream_id, row)
                for stream_id, rows in rendered.items()
                for row in rows.get(model.name, ())
            }
            stored = await self._stored(model, lower, upper, due)
            self.rows[model.name] += len(due)
            for key, (stream_id, row) in due.items():
                found = stored.get(key)
                if found != row:
                    _of(wrong, stream_id).rows.setdefault(model.name, []).append(row)
                    self._note(model, key, found, row)
            for key, found in stored.items():
                if key not in due:
                    _of(wrong, model.stream_id(found)).surplus.setdefault(model.name, []).append(found)
                    self._note(model, key, found, None)
        self._count(rendered.values())
        if LINES in self._tables:
            await self._compare_lines(rendered, upper, wrong)
        return len(streams), list(wrong.values())

    def _note(self, model: ReadModel, key: Key, found: Row | None, row: Row | None) -> None:
        """Counts a row that differs."""
        self.differing[model.name] += 1
        if not model.is_ranged:
            self._found[model.name].add(key)
        elif model.name == ORDERS and len(self._named) < EXPLAINED_MAX:
            changes = changed_order(self._merchant_id, found, row)
            self.changed_orders += changes
            self._named |= {change.order_id for change in changes}

    async def _stored(
        self, model: ReadModel, lower: UUID, upper: UUID, due: Mapping[Key, tuple[UUID, Row]]
    ) -> dict[Key, Row]:
        """Returns the stored rows of a page: of a table without a range, those that it ought to have."""
        if not model.is_ranged and not due:
            return {}
        statement = model.read_range() if model.is_ranged else model.read_keys()
        values: Sequence[Any] = (lower, upper) if model.is_ranged else model.keys(due)
        cursor = as_sent(self._connection.cursor(binary=True))
        await cursor.execute(statement, (self._merchant_id, *values))
        return {model.key_of(row): row for row in await cursor.fetchall()}

    def _count(self, rendered: Iterable[Rendered]) -> None:
        """Adds the orders and customers of a page to the counters."""
        for rows in rendered:
            for _, day, status, n in rows.get(TALLY, ()):
                self._counters[day, status] += n
            for row in rows.get(CUSTOMERS, ()):
                self._customers += not row[_ERASED]

    async def wrong_rows_of_lines(self) -> list[list[UUID]]:
        """Returns the ids of the lines in each row whose other columns do not follow from them."""
        if LINES not in self._tables:
            return []
        wrong = []
        async with self._connection.cursor("rows_of_lines") as cursor:
            as_sent(cursor)
            await cursor.execute(_ROWS_OF_LINES, (self._merchant_id, list(KINDS)), binary=True)
            while rows := await cursor.fetchmany(_ROWS_AT_ONCE):
                wrong += [row[_IDS] for row in rows if wrong_columns(row)]
        self.differing[LINES] += len(wrong)
        return [[UUID(bytes=bytes(line_id)) for line_id in ids if line_id is not None] for ids in wrong]

    async def has_wrong_counts(self) -> bool:
        """Returns whether counters of texts do not follow from the lines as they are stored."""
        if LINES not in self._tables:
            return False
        stored = await (await self._connection.execute(count_check.STORED, (self._merchant_id,))).fetchall()
        counts = TextCounts()
        async with self._connection.cursor("counted_lines") as cursor:
            await cursor.execute(count_check.LINES, {"merchant_id": self._merchant_id})
            while rows := await cursor.fetchmany(_LINES_AT_ONCE):
                for line, email in rows:
                    counts.add(line, email)
        wrong = count_check.wrong_counts(counts, stored)
        self.differing[LINES] += len(wrong)
        return bool(wrong)

    async def _compare_lines(self, rendered: Mapping[UUID, Rendered], upper: UUID, wrong: dict[UUID, Wrong]) -> None:
        stored = await self._lines.up_to(upper)
        due = {stream_id: list(rows[LINES]) for stream_id, rows in rendered.items() if rows.get(LINES)}
        self.rows[LINES] += sum(map(len, due.values()))
        for stream_id in sorted({*due, *stored}):
            right, found = Counter(due.get(stream_id, ())), Counter(stored.get(stream_id, ()))
            if right != found:
                _of(wrong, stream_id).lines = list(right.elements())
                self.differing[LINES] += max((right - found).total(), (found - right).total())

    async def _surplus(self, model: ReadModel) -> AsyncIterator[list[Wrong]]:
        """Yields the stored rows of a table without a range that follow from no stream."""
        own = len(model.key) - 1
        last: Key = (UUID(int=0),) * own
        while True:
            cursor = as_sent(self._connection.cursor(binary=True))
            await cursor.execute(model.read_behind(), (self._merchant_id, *last, _ROWS))
            rows = await cursor.fetchall()
            if not rows:
                return
            streams = sorted({model.stream_id(row) for row in rows})
            due: set[Key] = set()
            for n in range(0, len(streams), _PAGE):
                some = streams[n : n + _PAGE]
                rendered = await render_streams(self._reader, self._connection, self._merchant_id, some, self._head)
                due |= {model.key_of(row) for each in rendered.values() for row in each.get(model.name, ())}
            wrong: dict[UUID, Wrong] = {}
            for row in rows:
                key = model.key_of(row)
                if key not in due and key not in self._found[model.name]:
                    _of(wrong, model.stream_id(row)).surplus.setdefault(model.name, []).append(row)
                    self.differing[model.name] += 1
            yield list(wrong.values())
            last = tuple(UUID(bytes=bytes(value)) for value in model.key_of(rows[-1])[1:])


class _Lines:
    """The stored lines of searches of a merchant, which are read in the order of their ids."""

    def __init__(self, connection: Connection, merchant_id: UUID) -> None:
        self._connection, self._merchant_id = connection, merchant_id
        self._cursor: Any = None
        self._ahead: list[Row] = []

    async def up_to(self, last: UUID) -> dict[UUID, list[Row]]:
        """Returns the next lines, up to the id `last`, by id."""
        if self._cursor is None:
            self._cursor = self._connection.cursor("lines")
            as_sent(self._cursor)
            await self._cursor.execute(_LINES, (self._merchant_id,), binary=True)
        found: dict[UUID, list[Row]] = defaultdict(list)
        while True:
            while self._ahead:
                line_id = UUID(bytes=bytes(self._ahead[-1][2]))
                if line_id > last:
                    return found
                found[line_id].append(self._ahead.pop())
            self._ahead = list(reversed(await self._cursor.fetchmany(_ROWS)))
            if not self._ahead:
                return found


_IDS: Final = COLUMNS.split(", ").index("ids")
_ERASED: Final = [name for name, _ in next(m for m in READ_MODELS if m.name == CUSTOMERS).table.columns].index("erased")
_ORDER_COLUMNS: Final = [name for name, _ in next(m for m in READ_MODELS if m.name == ORDERS).table.columns]
_decode_head: Final = msgspec.json.Decoder(dict[str, Any], float_hook=Decimal).decode
_MONEY: Final = ("amount", "amountPaid", "amountRefunded", "amountPending", "overpaidAmount", "surchargeAmount")


def changed_order(merchant_id: UUID, stored: Row | None, computed: Row | None) -> list[ChangedOrder]:
    """Returns the status and the amounts of an order that two rows show differently; a row may be missing."""
    before, after = _shown(stored), _shown(computed)
    if before.get("status") == after.get("status"):  # the column alone may differ, by which lists are filtered
        before |= _status_column(stored)
        after |= _status_column(computed)
    order_id = UUID(bytes=bytes((stored or computed or ())[_ORDER_COLUMNS.index("order_id")]))
    names = [name for name in ("status", *_MONEY) if name in before or name in after]
    if stored is not None and computed is not None and (len(before) == 1 or len(after) == 1):
        names = ["status"]  # an order in flight has no document
    return [
        ChangedOrder(merchant_id, order_id, name, before.get(name), after.get(name))
        for name in names
        if before.get(name) != after.get(name)
    ]


def _status_column(row: Row | None) -> dict[str, str]:
    """Returns the status by which an order's row is found."""
    return {} if row is None else {"status": bytes(row[_ORDER_COLUMNS.index("status")]).decode(errors="replace")}


def _shown(row: Row | None) -> dict[str, str]:
    """Returns the status of an order's row, and the status and the amounts of its document if it has one."""
    if row is None:
        return {}
    shown = _status_column(row)
    try:
        head = _decode_head(row[_ORDER_COLUMNS.index("head")])
    except msgspec.MsgspecError:
        return shown
    return shown | {name: str(head[name]) for name in ("status", *_MONEY) if head.get(name) is not None}


def _of(wrong: dict[UUID, Wrong], stream_id: UUID) -> Wrong:
    return wrong.setdefault(stream_id, Wrong(stream_id, {}, {}))
