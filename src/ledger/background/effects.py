"""A reaction: a pure function from one recorded event to its effects, later or now.

A reaction sees every event once, in the order of its merchant's log, and returns what follows from this event alone.
Read neither a clock nor the database in it. Its effects are written in the transaction that moves its cursor.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Protocol, runtime_checkable
from uuid import UUID

from msgspec import Struct

from ledger.journal.journal import Journal
from ledger.journal.reader import SeenEvent


class SetTimer(Struct, frozen=True):
    """Work of this kind is due on the stream at `due_at` by the merchant's clock. A later timer replaces it."""

    kind: str
    stream_id: UUID
    payment_id: UUID
    due_at: datetime


class EnqueueJob(Struct, frozen=True):
    """Work to do now, as a job. `due_at` is when it became due by the merchant's clock."""

    kind: str
    stream_id: UUID
    payment_id: UUID
    due_at: datetime


class NoteAlias(Struct, frozen=True):
    """Gives a payment of the stream an alias, by which a processor's message may name it (see `payment_index`)."""

    name: str
    stream_id: UUID
    payment_id: UUID


Effect = SetTimer | EnqueueJob | NoteAlias


@runtime_checkable
class StateReaction(Protocol):
    """A reaction that returns a stream's current timers, whenever the stream has new events of its topics.

    The returned timers replace all timers of the stream. If the stream has changed since, the reaction is called again.
    """

    name: str
    topics: frozenset[str]

    def is_settled(self, seen: Sequence[SeenEvent]) -> bool:
        """Returns whether these events, the first that the reaction sees of a stream, show that it has no timers."""
        ...

    async def timers(self, journal: Journal, merchant_id: UUID, stream_id: UUID) -> Sequence[SetTimer]:
        """Returns the timers of the stream now."""
        ...


class Reaction(Protocol):
    """A reaction with its topics and its name, which is permanent: its cursors are stored under it."""

    name: str
    topics: frozenset[str]

    def react(self, recorded: SeenEvent) -> Iterable[Effect]:
        """Returns what follows from an event."""
        ...
