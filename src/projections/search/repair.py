"""Replaces lines of searches that differ from the log. The caller holds the lock of the merchant's head.

Only the compactor moves lines meanwhile. A statement that waits for its transaction does not see the rows that this one
has written, so each is repeated until a later statement sees none that is left.

A line is taken out of the row that holds it, and the right one is written to a row of its own, which the compactor
packs. The counters are of lines that may have been wrong: they go, and the compactor counts again.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final, LiteralString
from uuid import UUID

from ledger.journal.inline import Row
from ledger.postgres.arrays import ENCODE_ARRAY
from ledger.postgres.connection import Connection
from projections.binary import micros
from projections.search.lines import LineKind
from projections.search.rows import KINDS

# Rows of orders that are counted become rows that are not. Every row of the merchant is written, so that a compactor
# that has begun before cannot count by what it has read.
_UNCOUNT: Final = "update search_block set packed = false where merchant_id = %s and kind = %s"
# Whether there are rows of orders that this transaction has not written.
_OTHERS: Final = """
select exists (select from search_block where merchant_id = %s and kind = %s and xmin <> pg_current_xact_id()::xid)
"""
_DROP_COUNTERS: Final = "delete from search_count where merchant_id = %s"

# Takes the rows that hold lines of these orders and customers.
_TAKE: Final = """
delete from search_block where merchant_id = %s and kind = any(%s) and ids && %s::uuid[]
returning kind, ids, ats, texts
"""

# Whether there are rows that hold such lines.
_LEFT: Final = (
    "select exists (select from search_block where merchant_id = %s and kind = any(%s) and ids && %s::uuid[])"
)

_PUT: Final = """
insert into search_block (merchant_id, kind, first_id, ids, ats, texts) values (%s, %s, %s, %s, %s, %s)
"""


async def forget_counts(connection: Connection, merchant_id: UUID) -> None:
    """Has the compactor count the merchant's lines again."""
    orders = (merchant_id, LineKind.ORDER.value)
    while await _is_true(connection, _OTHERS, orders):
        await connection.execute(_UNCOUNT, orders)
    await connection.execute(_DROP_COUNTERS, (merchant_id,))


async def replace_lines(connection: Connection, merchant_id: UUID, ids: Collection[UUID], lines: Sequence[Row]) -> None:
    """Replaces all lines of these orders and customers, by rows of the table of lines."""
    for kind, block in await _taken(connection, merchant_id, ids):
        await _put(connection, merchant_id, kind, [line for line in block if line[0] not in ids])
    for kind in KINDS:
        new = [(UUID(bytes=bytes(row[2])), row[3], bytes(row[4]).decode()) for row in lines if row[1] == kind]
        await _put(connection, merchant_id, kind, new)


async def write_rows_again(connection: Connection, merchant_id: UUID, ids: Collection[UUID]) -> None:
    """Writes the rows again that have lines of these orders and customers. The compactor packs them as new ones."""
    for kind, block in await _taken(connection, merchant_id, ids):
        await _put(connection, merchant_id, kind, block)


async def _taken(
    connection: Connection, merchant_id: UUID, ids: Collection[UUID]
) -> list[tuple[int, list[tuple[UUID, int | None, str]]]]:
    """Removes the rows that have lines of these orders and customers. Returns the kind and the lines of each."""
    about = (merchant_id, list(KINDS), list(ids))
    rows: list[tuple[Any, ...]] = []
    while await _is_true(connection, _LEFT, about):
        rows += await (await connection.execute(_TAKE, about, binary=True)).fetchall()
    taken = []
    for kind, of_row, ats, texts in rows:
        lines = zip(of_row, ats, texts.split("\n"), strict=False)
        taken.append((kind, [(each, None if at is None else micros(at), text) for each, at, text in lines]))
    return taken


async def _is_true(connection: Connection, query: LiteralString, parameters: Sequence[Any]) -> bool:
    return await (await connection.execute(query, parameters)).fetchone() == (True,)


async def _put(
    connection: Connection, merchant_id: UUID, kind: int, lines: Sequence[tuple[UUID, int | None, str]]
) -> None:
    """Writes lines as one row: each with its id, the time in microseconds since 2000-01-01 UTC, and the text."""
    if not lines:
        return
    values: tuple[Any, ...] = (
        merchant_id,
        kind,
        lines[0][0],
        ENCODE_ARRAY["uuid"]([line_id.bytes for line_id, _, _ in lines]),
        ENCODE_ARRAY["timestamptz"]([at for _, at, _ in lines]),
        "\n".join(text for _, _, text in lines),
    )
    await connection.execute(_PUT, values)
