"""The read models from the log alone: what the rows must be, and what they are, in one comparable form.

The rule a stranger would break: a replay is the live fold and the live rendering over the stored events, nothing else. If
it ever needs a case of its own, the rows in the database are no longer what the log says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Final
from uuid import UUID

from msgspec import Struct
from psycopg import sql
from psycopg.abc import Buffer
from psycopg.adapt import Loader
from psycopg.pq import Format

from ledger.domain.customers import events as customer_events
from ledger.domain.customers.evolve import evolve as evolve_customer
from ledger.domain.idempotency import events as request_events
from ledger.domain.idempotency.evolve import evolve as evolve_request
from ledger.domain.merchants import events as merchant_events
from ledger.domain.merchants.evolve import evolve as evolve_merchant
from ledger.domain.orders import events as order_events
from ledger.domain.orders.evolve.order import evolve as evolve_order
from ledger.journal.inline import Row
from ledger.postgres.connection import Connection
from projections.inline import TABLES, rows_of
from projections.lists import tally

Rows = dict[str, list[Row]]
"""All rows of a merchant by table, sorted; of the counters those that do not stand at zero."""

_FOLDS: Final[dict[type[Struct], Callable[[Any, Any], Any]]] = {
    **dict.fromkeys(order_events.TOPICS.values(), evolve_order),
    **dict.fromkeys(customer_events.TOPICS.values(), evolve_customer),
    **dict.fromkeys(merchant_events.TOPICS.values(), evolve_merchant),
    **dict.fromkeys(request_events.TOPICS.values(), evolve_request),
}


class Replay:
    """Folds one merchant's log, in as many pieces as it comes; `rows` may be asked at any point of it."""

    def __init__(self, merchant_id: UUID) -> None:
        self._merchant_id = merchant_id
        self._states: dict[UUID, tuple[int, Any]] = {}

    def take(self, events: Iterable[tuple[UUID, int, Any]]) -> None:
        """Go on with these events: (stream id, version, event), in the order of their positions."""
        for stream_id, version, event in events:
            known, state = self._states.get(stream_id, (0, None))
            assert version == known + 1, f"stream {stream_id} lacks version {known + 1}"
            self._states[stream_id] = version, _FOLDS[type(event)](state, event)

    def rows(self) -> Rows:
        """What the read models hold when this is the whole log."""
        rows: Rows = {table.name: [] for table in TABLES}
        for version, state in self._states.values():
            for name, some in rows_of(self._merchant_id, version, None, state).items():
                rows[name] += some
        rows[tally.TABLE.name] = _counted(rows[tally.TABLE.name])
        return {name: sorted(some) for name, some in rows.items()}


def replay(merchant_id: UUID, events: Iterable[tuple[UUID, int, Any]]) -> Rows:
    """The rows of a merchant whose whole log this is: (stream id, version, event), in the order of their positions."""
    fold = Replay(merchant_id)
    fold.take(events)
    return fold.rows()


async def stored(connection: Connection, merchant_id: UUID) -> Rows:
    """The merchant's rows as they stand in the database. Compare within one snapshot with the log."""
    rows: Rows = {}
    for table in TABLES:
        columns = sql.SQL(", ").join(sql.Identifier(column) for column, _ in table.columns)
        query = sql.SQL("select {} from {} where merchant_id = %s").format(columns, sql.Identifier(table.name))
        cursor = connection.cursor(binary=True)
        for type_name, loader in _AS_SENT.items():
            cursor.adapters.register_loader(type_name, loader)
        rows[table.name] = sorted(await (await cursor.execute(query, (merchant_id,))).fetchall())
    rows[tally.TABLE.name] = [row for row in rows[tally.TABLE.name] if row[3] != 0]
    return rows


def _counted(moves: Iterable[Row]) -> list[Row]:
    counters: Counter[tuple[Any, ...]] = Counter()
    for *counter, moved in moves:
        counters[tuple(counter)] += moved
    return [(*counter, n) for counter, n in counters.items()]


class _Bytes(Loader):
    format = Format.BINARY

    def load(self, data: Buffer) -> bytes:
        return bytes(data)


class _Whole(Loader):
    format = Format.BINARY

    def load(self, data: Buffer) -> int:
        return int.from_bytes(data, signed=True)


# Values as Postgres sends them, which is the form in which rows are written.
_AS_SENT: Final[dict[str, type[Loader]]] = {
    "uuid": _Bytes,
    "text": _Bytes,
    "bytea": _Bytes,
    "date": _Whole,
    "timestamptz": _Whole,
}
