"""The rows of each table in the order of the streams that they follow from, and what a report shows of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

import msgspec
from msgspec import Struct
from psycopg import sql

from ledger.audit.report import ROW, Violation
from ledger.audit.snapshot import Connection, pages
from ledger.journal.encryption import data_keys
from ledger.journal.inline import InlineTable, Row
from projections.inline import TABLES
from projections.search.rows import COLUMNS, KINDS, wrong_columns

CLAIMS: Final = InlineTable(
    "claim", (("merchant_id", "uuid"), ("kind", "int4"), ("key", "text"), ("stream_id", "uuid")), ""
)
KEYS: Final = InlineTable(
    "data_key",
    (*data_keys.TABLE.columns, ("forgotten_at", "timestamptz")),
    "",
)

STREAM_COLUMNS: Final = {
    "payment_order": "order_id",
    "customer": "customer_id",
    "search_line": "id",
    "merchant": "merchant_id",
    "api_key": "merchant_id",
    "product": "product_id",
    "plan": "plan_id",
    "subscription": "subscription_id",
    "subscription_invoice": "subscription_id",
    "global_invoice": "global_invoice_id",
    "global_invoice_order": "global_invoice_id",
    "processor_account": "account_id",
    "webhook_endpoint": "endpoint_id",
    "claim": "stream_id",
    "data_key": "customer_id",
}
"""The column that has the id of the stream that a row follows from."""

MERGED: Final = tuple(table for table in (*TABLES, CLAIMS, KEYS) if table.name in STREAM_COLUMNS)
"""The tables that are read in the order of streams. The others are counters, or keyed otherwise."""

_ALWAYS_SHOWN: Final = frozenset({"uuid", "int4", "int8", "bool", "timestamptz", "date"})
_SHOWN: Final = frozenset({"status", "currency", "sealing_key_id"})
"""The texts that are never personal data."""
_SHOWN_MEMBERS: Final = frozenset(
    {
        "status", "currency", "amount", "subtotalAmount", "surchargeAmount", "surchargeRate", "amountPaid",
        "amountPending", "overpaidAmount", "amountRefunded", "refundedAmount", "amountReleased", "allowPartials",
        "authorizedAmount", "capturedAmount",
        "lateDeposit", "invoiceStatus", "createdAt", "updatedAt", "dueDate", "id",
    }
)  # fmt: skip
_MERCHANTS_OWN: Final = frozenset({"metadata"})
"""The objects of merchants, whose members can have any name: what is in them may be personal."""
_MEMBERS_MAX: Final = 5
"""How many members of a cell are named of those whose values are shown, and of the others."""

# The merchants are named twice: the order of two columns bounds neither of them in a table that has no such index.
_QUERY: Final = sql.SQL(
    "select {columns} from {table} where (merchant_id, {stream}) >= (%s, %s) and (merchant_id, {stream}) <= (%s, %s)"
    " and merchant_id between %s and %s order by merchant_id, {stream}"
)
# A merchant's own row and keys, whose stream has the merchant's id.
_MERCHANTS_QUERY: Final = sql.SQL(
    "select {columns} from {table} where (merchant_id, merchant_id) >= (%s, %s) and (merchant_id, merchant_id) <= (%s, %s)"
    " order by merchant_id"
)
# The rows that hold the lines of searches, by the first line's id.
_ROWS_OF_LINES: Final = f"""
select merchant_id, {COLUMNS} from search_block
 where (merchant_id, first_id) >= (%s, %s) and (merchant_id, first_id) <= (%s, %s)
   and merchant_id between %s and %s and kind = any(%s)
"""  # noqa: S608 - constants
_ROWS_AT_ONCE: Final = 64
_EPOCH: Final = datetime(2000, 1, 1, tzinfo=UTC)
END: Final = b"\xff" * 33
"""Behind the key of every stream."""


class KeyRange(Struct, frozen=True):
    """The streams from one key to another one, both included: a merchant's id and a stream's each."""

    first: tuple[UUID, UUID]
    last: tuple[UUID, UUID]

    @property
    def parameters(self) -> tuple[UUID, ...]:
        return (*self.first, *self.last)


def key_behind(key: tuple[UUID, UUID]) -> tuple[UUID, UUID]:
    """Returns the next key behind one, which is not the last of all."""
    following = (key[0].int << 128 | key[1].int) + 1
    return UUID(int=following >> 128), UUID(int=following & (1 << 128) - 1)


class StoredRows:
    """The rows of a table within a range of streams, in their order. `key` is that of the next row's stream."""

    def __init__(self, connection: Connection, table: InlineTable, within: KeyRange) -> None:
        self.table, self.count = table, 0
        names = [name for name, _ in table.columns]
        stream = STREAM_COLUMNS[table.name]
        self._merchant_at, self._stream_at = names.index("merchant_id"), names.index(stream)
        query = _MERCHANTS_QUERY if stream == "merchant_id" else _QUERY
        columns = sql.SQL(", ").join(map(sql.Identifier, names))
        statement = query.format(columns=columns, table=sql.Identifier(table.name), stream=sql.Identifier(stream))
        bounds = () if stream == "merchant_id" else (within.first[0], within.last[0])
        self._rows = self._counted(pages(connection, statement, (*within.parameters, *bounds)))
        self._next: Row = ()
        self.key = b""
        self._advance()

    def take(self, key: bytes) -> list[Row]:
        """Returns the rows of the next stream, which has this key."""
        rows = []
        while self.key == key:
            rows.append(self._next)
            self._advance()
        return rows

    def _advance(self) -> None:
        row = next(self._rows, None)
        if row is None:
            self._next, self.key = (), END
        else:
            self._next, self.key = row, row[self._merchant_at] + row[self._stream_at]

    def _counted(self, found: Iterator[list[Row]]) -> Iterator[Row]:
        for page in found:
            self.count += len(page)
            yield from page


def wrong_rows_of_lines(connection: Connection, within: KeyRange) -> Iterator[Violation]:
    """Yields the columns of the rows of lines in a range that do not follow from the lines of their rows."""
    parameters = (*within.parameters, within.first[0], within.last[0], list(KINDS))
    for page in pages(connection, _ROWS_OF_LINES, parameters, _ROWS_AT_ONCE):
        for merchant, *row in page:
            for column in wrong_columns(row):
                first_id = UUID(bytes=row[1])
                yield Violation(
                    invariant=ROW,
                    merchant_id=UUID(bytes=merchant),
                    message=f"{column} of the row that begins with the line of {first_id} does not follow from its lines",
                    table="search_block",
                    column=column,
                )


def differences(
    table: InlineTable, merchant_id: UUID, about: Mapping[str, Any], expected: Sequence[Row], found: Sequence[Row]
) -> Iterator[Violation]:
    """Yields how the rows of a stream differ from those that follow from the log. `about` names the stream."""
    missing, surplus = list(expected), []
    for row in found:
        if row in missing:
            missing.remove(row)
        else:
            surplus.append(row)
    for row, other in zip(surplus, missing, strict=False):
        yield from _other_cells(table, merchant_id, about, other, row)
    for row in missing[len(surplus) :]:
        yield _row(table, merchant_id, about, row, "is missing")
    for row in surplus[len(missing) :]:
        yield _row(table, merchant_id, about, row, "follows from no event")


def _row(table: InlineTable, merchant_id: UUID, about: Mapping[str, Any], row: Row, what: str) -> Violation:
    names = {name: cell for (name, kind), cell in zip(table.columns, row, strict=True) if kind == "uuid"}
    ids = ", ".join(f"{name} {UUID(bytes=cell)}" for name, cell in names.items() if cell and name != "merchant_id")
    return Violation(
        invariant=ROW,
        merchant_id=merchant_id,
        message=f"a row of {table.name} {what}: {ids}",
        table=table.name,
        **about,
    )


def _other_cells(
    table: InlineTable, merchant_id: UUID, about: Mapping[str, Any], expected: Row, found: Row
) -> Iterator[Violation]:
    for (column, kind), should, is_ in zip(table.columns, expected, found, strict=True):
        if should == is_:
            continue
        for place, wanted, there in _shown(column, kind, should, is_):
            yield Violation(
                invariant=ROW,
                merchant_id=merchant_id,
                message=f"{place} of {table.name} does not follow from the log",
                table=table.name,
                column=place,
                expected=wanted,
                found=there,
                **about,
            )


def _shown(column: str, kind: str, should: Any, found: Any) -> Iterator[tuple[str, str | None, str | None]]:
    """Yields the places in which two cells differ, and of those without personal data both values."""
    if kind in _ALWAYS_SHOWN or column in _SHOWN:
        yield column, _text(kind, should), _text(kind, found)
        return
    members = _members(should, found) if kind == "bytea" and column not in _MERCHANTS_OWN else None
    if not members:
        yield column, None, None
        return
    shown = [member for member in members if member[0].rpartition(".")[2] in _SHOWN_MEMBERS]
    others = [member for member in members if member not in shown]
    for name, wanted, there in shown[:_MEMBERS_MAX]:
        yield f"{column}.{name}", wanted, there
    for name, *_ in others[:_MEMBERS_MAX]:
        yield f"{column}.{name}", None, None


def _members(should: Any, found: Any) -> list[tuple[str, str, str]] | None:
    """Returns the members in which two JSON objects differ, or those of two lists of as many objects, by their number
    (`0.status`); None if they are neither.
    """
    try:
        of_log, of_table = (_decode_objects(cell) for cell in (should, found))
    except (msgspec.MsgspecError, TypeError):
        return None
    if of_log.keys() != of_table.keys():
        return None
    return [
        (f"{place}{name}", _raw(one, name), _raw(other, name))
        for (place, one), other in zip(of_log.items(), of_table.values(), strict=True)
        for name in {**one, **other}
        if one.get(name) != other.get(name)
    ]


def _decode_objects(cell: Any) -> dict[str, dict[str, msgspec.Raw]]:
    """Returns the JSON objects of a cell by what is before the names of their members."""
    content = msgspec.json.decode(cell, type=dict[str, msgspec.Raw] | list[dict[str, msgspec.Raw]])
    return {"": content} if isinstance(content, dict) else {f"{n}.": each for n, each in enumerate(content)}


def _raw(members: Mapping[str, msgspec.Raw], name: str) -> str:
    return bytes(members[name]).decode() if name in members else "(none)"


_TEXTS: Final[Mapping[str, Callable[[Any], str]]] = {
    "uuid": lambda cell: str(UUID(bytes=cell)),
    "text": lambda cell: cell.decode(errors="replace"),
    "bool": lambda cell: str(bool(cell)).lower(),
    "timestamptz": lambda cell: _time(timedelta(microseconds=1), cell).isoformat(),
    "date": lambda cell: _time(timedelta(days=1), cell).date().isoformat(),
}


def _time(unit: timedelta, count: int) -> datetime:
    return _EPOCH + unit * count


def _text(kind: str, cell: Any) -> str:
    if cell is None:
        return "null"
    try:
        return _TEXTS.get(kind, lambda plain: str(int(plain)))(cell)
    except OverflowError:  # Postgres has times before the year 1 and behind 9999, and infinity
        return f"{cell} (no time of the calendar)"
