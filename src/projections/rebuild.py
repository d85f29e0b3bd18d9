"""Computes the rows of the read models from the log alone, and reads the stored rows in the same form, to compare them.

A replay folds and renders by the same functions as the journal. Never add a special case to it: the stored rows would
then differ from the log.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar
from uuid import UUID

from msgspec import Struct
from psycopg import AsyncCursor, sql
from psycopg.abc import Buffer
from psycopg.adapt import Loader
from psycopg.pq import Format

from ledger.domain.streams import STREAMS
from ledger.journal.inline import Row
from ledger.postgres.connection import Connection
from projections.inline import TABLES, rows_of
from projections.lists import tally

Cursor = TypeVar("Cursor", bound=AsyncCursor[tuple[Any, ...]])
Rows = dict[str, list[Row]]
"""All rows of a merchant by table, sorted. Counters at zero are left out."""

_FOLDS: Final[Mapping[type[Struct], Callable[[Any, Any], Any]]] = {
    kind: stream.evolve for stream in STREAMS for kind in stream.topics.values()
}


class Replay:
    """The fold of one merchant's log, which may come in pieces. `rows` may be called after any of them."""

    def __init__(self, merchant_id: UUID) -> None:
        self._merchant_id = merchant_id
        self._states: dict[UUID, tuple[int, Any]] = {}

    def take(self, events: Iterable[tuple[UUID, int, Any]]) -> None:
        """Folds further events: (stream id, version, event), in the order of their positions."""
        for stream_id, version, event in events:
            last, state = self._states.get(stream_id, (0, None))
            assert version == last + 1, f"stream {stream_id} lacks version {last + 1}"
            self._states[stream_id] = version, _FOLDS[type(event)](state, event)

    def rows(self) -> Rows:
        """Returns the rows of the read models after the events so far."""
        rows: Rows = {table.name: [] for table in TABLES}
        for version, state in self._states.values():
            for name, of_stream in rows_of(self._merchant_id, version, None, state).items():
                rows[name] += of_stream
        rows[tally.TABLE.name] = _counted(rows[tally.TABLE.name])
        return {name: sorted(of_table) for name, of_table in rows.items()}


def replay(merchant_id: UUID, events: Iterable[tuple[UUID, int, Any]]) -> Rows:
    """Returns the rows for a merchant's whole log: (stream id, version, event), in the order of their positions."""
    fold = Replay(merchant_id)
    fold.take(events)
    return fold.rows()


async def stored(connection: Connection, merchant_id: UUID) -> Rows:
    """Returns the merchant's stored rows. Read the log in the same snapshot to compare them."""
    rows: Rows = {}
    for table in TABLES:
        columns = sql.SQL(", ").join(sql.Identifier(column) for column, _ in table.columns)
        query = sql.SQL("select {} from {} where merchant_id = %s").format(columns, sql.Identifier(table.name))
        cursor = await as_sent(connection.cursor(binary=True)).execute(query, (merchant_id,))
        rows[table.name] = sorted(await cursor.fetchall())
    rows[tally.TABLE.name] = [row for row in rows[tally.TABLE.name] if row[3] != 0]
    return rows


def as_sent(cursor: Cursor) -> Cursor:
    """Returns a cursor for binary results whose rows are in the form in which the journal writes them."""
    for type_name, loader in _AS_SENT.items():
        cursor.adapters.register_loader(type_name, loader)
    return cursor


def state_of(events: Iterable[Any]) -> Any:
    """Returns the state after the events of one stream, oldest first."""
    state = None
    for event in events:
        state = _FOLDS[type(event)](state, event)
    return state


def _counted(changes: Iterable[Row]) -> list[Row]:
    """Returns the counters after all changes to them."""
    counters: Counter[tuple[Any, ...]] = Counter()
    for *counter, change in changes:
        counters[tuple(counter)] += change
    return [(*counter, n) for counter, n in counters.items()]


class _Bytes(Loader):
    format = Format.BINARY

    def load(self, data: Buffer) -> bytes:
        return bytes(data)


class _Integer(Loader):
    format = Format.BINARY

    def load(self, data: Buffer) -> int:
        return int.from_bytes(data, signed=True)


# Values as Postgres sends them: rows are written in the same form.
_AS_SENT: Final[dict[str, type[Loader]]] = {
    "uuid": _Bytes,
    "text": _Bytes,
    "bytea": _Bytes,
    "date": _Integer,
    "timestamptz": _Integer,
}
