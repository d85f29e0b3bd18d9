"""What a reaction is: a pure function from one recorded event to what is to be done later, or now.

The rule a stranger would break: a reaction sees every event once, in the order of its merchant's log, and says what follows
from this event alone. It asks no clock and no database; what it says is written in the transaction that moves its cursor.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Protocol, runtime_checkable
from uuid import UUID

from msgspec import Struct

from ledger.journal.journal import Journal
from ledger.journal.reader import RecordedEvent


class SetTimer(Struct, frozen=True):
    """Something of this kind is to be done about the stream at `due_at` by the merchant's clock; a later one replaces it."""

    kind: str
    stream_id: UUID
    payment_id: UUID
    due_at: datetime


class EnqueueJob(Struct, frozen=True):
    """To be done at once, as a job. `due_at` is when it became due by the merchant's clock."""

    kind: str
    stream_id: UUID
    payment_id: UUID
    due_at: datetime


class NoteAlias(Struct, frozen=True):
    """A payment of the stream has this name from now on: a processor's message may use it (see `payment_names`)."""

    name: str
    stream_id: UUID
    payment_id: UUID


Effect = SetTimer | EnqueueJob | NoteAlias


@runtime_checkable
class StateReaction(Protocol):
    """A reaction that asks what is due on a stream as it stands, whenever something of its topics happened to it.

    What it answers replaces all that was due on the stream. The stream may have gone on since; then it is asked again.
    """

    name: str
    topics: frozenset[str]

    def is_settled(self, seen: Sequence[RecordedEvent]) -> bool:
        """Whether the first events of a stream that the reaction is shown, in a row, tell that nothing is due: it need not be asked."""
        ...

    async def standing(self, journal: Journal, merchant_id: UUID, stream_id: UUID) -> Sequence[SetTimer]:
        """What is due on the stream now."""
        ...


class Reaction(Protocol):
    """A reaction with its permanent name, under which its cursors stand, and the topics that it wants to see."""

    name: str
    topics: frozenset[str]

    def react(self, recorded: RecordedEvent) -> Iterable[Effect]:
        """What follows from an event. Pure."""
        ...
