"""Read models whose rows ride in the append's own statement: what the journal must be given to write them.

The rule a stranger would break: a row is written only for commands that won, and that is the statement's business.
Whoever provides rows computes them from the change alone, as if every command won.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol
from uuid import UUID

from msgspec import Struct

from ledger.journal.append import Change

Row = tuple[Any, ...]
"""One row, in wire form per column type: int for int4 and int8; 16 bytes for uuid; UTF-8 bytes for text; bytes for bytea;
int microseconds since 2000-01-01 UTC for timestamptz; int days since 2000-01-01 for date; None for null."""


class InlineTable(Struct, frozen=True):
    """A table that is written inline. `write` is one SQL statement that reads the winners' rows from `{rows}`.

    >>> InlineTable("seen", (("merchant_id", "uuid"), ("n", "int8")), "insert into seen select merchant_id, n from {rows}").name
    'seen'
    """

    name: str
    columns: tuple[tuple[str, str], ...]
    write: str


class InlineProjections(Protocol):
    """Everything that is written inline, and how a change becomes rows of it."""

    tables: Sequence[InlineTable]

    def rows(self, merchant_id: UUID, change: Change) -> Mapping[str, Sequence[Row]]:
        """The rows of a change, by table name. `change.expected + len(change.events)` is the version they stand at."""
        ...
