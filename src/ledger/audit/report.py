"""What an audit found."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Final
from uuid import UUID

from msgspec import Meta, Struct, structs

LISTED_MAX: Final = 1000
"""How many violations a report lists. All are counted."""

_TEXT_MAX: Final = 1000
"""How many characters of a text are kept."""

ROW: Final = "ROW"
"""A row of a read model that does not follow from the log."""
EVENT: Final = "EVENT"
"""An event that cannot be read or folded."""
TREE: Final = "TREE"
"""A log, a tile or a checkpoint that is not what was signed."""

_OF_LOG: Final = frozenset({TREE, EVENT})


class Violation(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What does not hold, and where: by an order's id, a stream's, or the position of the event that is to blame.

    A cell has its table and column, and its value as it follows from the log and as it was found. Values of personal
    data are left out.
    """

    invariant: Annotated[
        str, Meta(description="The rule that does not hold: an invariant, or ROW, EVENT or TREE.", examples=["I1"])
    ]
    merchant_id: Annotated[UUID, Meta(description="The merchant.")]
    message: Annotated[str, Meta(description="What is wrong, for people.")]
    order_id: Annotated[UUID | None, Meta(description="The order.")] = None
    stream_id: Annotated[UUID | None, Meta(description="The stream of events, where it is no order.")] = None
    position: Annotated[int | None, Meta(description="The position of the one event that is to blame.")] = None
    table: Annotated[str | None, Meta(description="The table of the cell or the row.")] = None
    column: Annotated[str | None, Meta(description="The column of the cell.")] = None
    expected: Annotated[str | None, Meta(description="What follows from the log.")] = None
    found: Annotated[str | None, Meta(description="What is there.")] = None


class Sealed(Struct, frozen=True, kw_only=True, rename="camel"):
    """How far a merchant's log is signed: the newest checkpoint, and the public keys that verify it."""

    merchant_id: Annotated[UUID, Meta(description="The merchant.")]
    size: Annotated[int, Meta(description="How many events the newest checkpoint has.")]
    checkpoint: Annotated[str | None, Meta(description="The signed checkpoint.")]
    keys: Annotated[
        Sequence[str],
        Meta(description="The public keys that verify it, as `GET /v1/log/key` has them, the newest first."),
    ] = ()
    outside: Annotated[
        int,
        Meta(description="How many checkpoints outside the database were compared: of seven days, and one before."),
    ] = 0


class Report(Struct, frozen=True, kw_only=True, rename="camel"):
    """What was audited as of one moment, and the violations: the first ones listed, all of them counted.

    `rows` counts the rows of read models that were compared. `sealed_to` has the newest checkpoint of each log.
    """

    snapshot_at: Annotated[datetime, Meta(description="The moment as of which everything was audited, in real time.")]
    merchants: Annotated[int, Meta(description="How many merchants were audited.")]
    events: Annotated[int, Meta(description="How many events were read.")]
    orders: Annotated[int, Meta(description="How many payment orders were folded.")]
    rows: Annotated[int, Meta(description="How many rows were compared.")]
    seconds: Annotated[float, Meta(description="How long it took.")]
    sealed_to: Annotated[Sequence[Sealed], Meta(description="How far each log is signed.")]
    violations_total: Annotated[int, Meta(description="How many violations were found.")]
    violations: Annotated[Sequence[Violation], Meta(description="The violations, a thousand at most.")]

    @property
    def is_clean(self) -> bool:
        return self.violations_total == 0


class Findings:
    """Violations as they are found: counted, and the first ones kept.

    Those of the log itself come first: what follows from a changed event differs too, in as many rows as there are.
    """

    def __init__(self) -> None:
        self.total = 0
        self._of_log: list[Violation] = []
        self._others: list[Violation] = []

    @property
    def listed(self) -> list[Violation]:
        return [*self._of_log, *self._others][:LISTED_MAX]

    def add(self, violation: Violation) -> None:
        self.merge(1, [violation])

    def merge(self, total: int, listed: Sequence[Violation]) -> None:
        """Adds what another part of the audit has found."""
        self.total += total
        for violation in listed:
            kept = self._of_log if violation.invariant in _OF_LOG else self._others
            if len(kept) < LISTED_MAX:
                kept.append(_cut(violation))


def _cut(violation: Violation) -> Violation:
    """Returns a violation with the beginnings of its texts: one of a changed row or event can have any length."""
    texts = {name: getattr(violation, name) for name in ("message", "column", "expected", "found")}
    long = {name: f"{text[:_TEXT_MAX]}…" for name, text in texts.items() if len(text or "") > _TEXT_MAX + 1}
    return structs.replace(violation, **long) if long else violation
