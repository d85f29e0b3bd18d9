"""The read models whose rows the append's own statement writes: their tables, and how a change becomes rows.

The statement writes a row only for a command that wins. A provider of rows therefore computes them from the change
alone, as if every command won.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol
from uuid import UUID

from msgspec import Struct

from ledger.journal.append import Change

Row = tuple[Any, ...]
"""One row, in wire form per column type.

An int for int4 and int8, 16 bytes for uuid, UTF-8 bytes for text, bytes for bytea, int microseconds since 2000-01-01
UTC for timestamptz, int days since 2000-01-01 for date, None for null.
"""


class InlineTable(Struct, frozen=True):
    """A table that is written inline. `write` is one SQL statement that reads the winners' rows from `{rows}`.

    `is_rare` is True if most batches have no row of the table: their statement leaves it out. A table that the
    statement names costs time even without a row, most of all a table with a trigger for each statement.

    The tables of a shard have no triggers. What those do on an ordinary Postgres, `beside_on_shards` does in the
    statement itself, where the table still has its former rows, and `after_on_shards` in a statement that follows it,
    where the rows of commands that lost are in `{rows}` too. The merchants whose rows changed are announced on the
    channel `announced_as`.

    >>> InlineTable("seen", (("merchant_id", "uuid"), ("n", "int8")), "insert into seen select * from {rows}").name
    'seen'
    """

    name: str
    columns: tuple[tuple[str, str], ...]
    write: str
    is_rare: bool = False
    beside_on_shards: str = ""
    after_on_shards: str = ""
    announced_as: str = ""


class InlineProjections(Protocol):
    """All tables that are written inline, and how a change becomes rows of them."""

    tables: Sequence[InlineTable]

    def rows(self, merchant_id: UUID, change: Change) -> Mapping[str, Sequence[Row]]:
        """Returns the rows of a change by table name. They show version `change.expected + len(change.events)`."""
        ...
