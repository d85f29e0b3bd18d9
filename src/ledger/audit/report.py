"""What an audit found."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

from msgspec import Struct

LISTED_MAX: Final = 1000
"""How many violations a report lists. All are counted."""

ROW: Final = "ROW"
"""A row of a read model that does not follow from the log."""
EVENT: Final = "EVENT"
"""An event that cannot be read or folded."""
TREE: Final = "TREE"
"""A log, a tile or a checkpoint that is not what was signed."""


class Violation(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What does not hold, and where: by an order's id, a stream's, or the position of the event that is to blame.

    A cell has its table and column, and its value as it follows from the log and as it was found. Values of personal
    data are left out.
    """

    invariant: str
    merchant_id: UUID
    message: str
    order_id: UUID | None = None
    stream_id: UUID | None = None
    position: int | None = None
    table: str | None = None
    column: str | None = None
    expected: str | None = None
    found: str | None = None


class Sealed(Struct, frozen=True, kw_only=True, rename="camel"):
    """How far a merchant's log is signed: the size of its newest checkpoint, its time, its root and the keys' names."""

    merchant_id: UUID
    size: int
    checkpoint: str | None


class Report(Struct, frozen=True, kw_only=True, rename="camel"):
    """What was audited as of one moment, and the violations: the first ones listed, all of them counted.

    `rows` counts the rows of read models that were compared. `sealed_to` has the newest checkpoint of each log.
    """

    snapshot_at: datetime
    merchants: int
    events: int
    orders: int
    rows: int
    seconds: float
    sealed_to: Sequence[Sealed]
    violations_total: int
    violations: Sequence[Violation]

    @property
    def is_clean(self) -> bool:
        return self.violations_total == 0


class Findings:
    """Violations as they are found: counted, and the first ones kept."""

    def __init__(self) -> None:
        self.total = 0
        self.listed: list[Violation] = []

    def add(self, violation: Violation) -> None:
        self.total += 1
        if len(self.listed) < LISTED_MAX:
            self.listed.append(violation)

    def merge(self, total: int, listed: Sequence[Violation]) -> None:
        """Adds what another part of the audit has found."""
        self.total += total
        self.listed += listed[: LISTED_MAX - len(self.listed)]
