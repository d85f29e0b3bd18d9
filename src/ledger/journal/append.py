"""What the journal is asked to commit, and how it says no.

The rule a stranger would break: a commit is all or nothing over every stream, claim and row in it. Two appends where
one was meant is how an order gets a customer that does not exist.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any
from uuid import UUID

from msgspec import Struct

from ledger.postgres.faults import Fault


class ClaimKind(IntEnum):
    """What a key must be unique for within a merchant."""

    ORDER_EXTERNAL_ID = 1
    CUSTOMER_EXTERNAL_ID = 2


class Claim(Struct, frozen=True):
    """A key that one stream takes for ever, in the same commit as the events that need it."""

    kind: ClaimKind
    key: str
    stream_id: UUID


class Change(Struct, frozen=True):
    """What a decision does to one stream: `events` after version `expected`, taking `before` to `after`.

    No events at all is a change too: it only insists that the stream still stands at `expected`.
    """

    stream_id: UUID
    expected: int
    events: Sequence[Struct]
    before: Any
    after: Any


class EncodedEvent(Struct, frozen=True):
    """An event as it is stored. `recorded_at` in microseconds since 2000-01-01 UTC, as Postgres keeps it."""

    topic: bytes
    data: bytes
    recorded_at: int


class StreamWrite(Struct, frozen=True):
    """The encoded events of one stream; an empty list only checks the version."""

    stream_id: bytes
    expected: int
    events: Sequence[EncodedEvent]


class Append(Struct, frozen=True):
    """One command, encoded: what the writer puts into a batch. Ids are the 16 bytes of a UUID."""

    merchant_id: bytes
    command_id: bytes
    context: bytes
    streams: Sequence[StreamWrite]
    claims: Sequence[Claim]
    rows: Mapping[str, Sequence[tuple[Any, ...]]]


class Conflict(Exception):
    """Somebody else was first. Nothing of the command was written: load again and decide again."""


class VersionConflict(Conflict):
    """A stream has moved on since it was read."""

    def __init__(self, stream_id: UUID) -> None:
        super().__init__(f"stream {stream_id} has moved on")
        self.stream_id = stream_id


class ClaimTaken(Conflict):
    """A key already belongs to another stream."""

    def __init__(self, claim: Claim) -> None:
        super().__init__(f"{claim.kind.name} is taken")
        self.claim = claim


class CommitUnknown(Fault):
    """The process ends before the database could be asked whether it had committed. A repeated request is told."""


class KeyUnavailable(Fault):
    """What seals a person's data cannot be had here: a sealing key that this process does not know, or a lost row."""


class SealBroken(Exception):
    """Sealed data is not what was written in this place: reading stops, like at an unknown topic."""


class DataRefused(Exception):
    """The database refused the values of this very command: a bug in our validation, and never a neighbour's fault."""
