"""The parts of a commit, and the exceptions with which a commit fails.

A commit is all or nothing over every stream, claim and row in it. Never split one into two appends: an order could then
refer to a customer that does not exist.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from msgspec import Struct

from ledger.domain.streams import ClaimKind
from ledger.postgres.faults import Fault


class Claim(Struct, frozen=True):
    """A key that one stream takes permanently, in the same commit as the events that need it."""

    kind: ClaimKind
    key: str
    stream_id: UUID


class Change(Struct, frozen=True):
    """One stream's part of a commit: `events` follow version `expected`, and the state `before` becomes `after`.

    A change without events only checks that the stream is still at version `expected`.
    """

    stream_id: UUID
    expected: int
    events: Sequence[Struct]
    before: Any
    after: Any


class EncodedEvent(Struct, frozen=True):
    """An event as it is stored. `recorded_at` in microseconds since 2000-01-01 UTC, as Postgres stores it."""

    topic: bytes
    data: bytes
    recorded_at: int


class StreamWrite(Struct, frozen=True):
    """The encoded events of one stream. An empty list only checks the version."""

    stream_id: bytes
    expected: int
    events: Sequence[EncodedEvent]


class Append(Struct, frozen=True):
    """One encoded command, as the writer puts it into a batch. Ids are the 16 bytes of a UUID."""

    merchant_id: bytes
    command_id: bytes
    context: bytes
    streams: Sequence[StreamWrite]
    claims: Sequence[Claim]
    rows: Mapping[str, Sequence[tuple[Any, ...]]]


class Conflict(Exception):
    """Another command was first, and nothing of this one was written.

    The caller loads the streams again and decides again.
    """


class VersionConflict(Conflict):
    """A stream has a newer version than the one that the command expected."""

    def __init__(self, stream_id: UUID) -> None:
        super().__init__(f"stream {stream_id} has a newer version than the one expected: load it again")
        self.stream_id = stream_id


class ClaimTaken(Conflict):
    """The key of a claim already belongs to another stream."""

    def __init__(self, claim: Claim) -> None:
        super().__init__(f"{claim.kind.name} is taken")
        self.claim = claim


class CommitUnknown(Fault):
    """The process could not find out in time whether the command is committed, and on the synchronous standby.

    A repeated request gets the outcome.
    """


class KeyUnavailable(Fault):
    """A customer's data key is unavailable: this process lacks its sealing key, or its row is lost."""


class SealBroken(Exception):
    """Sealed data differs from what was written in this place. Reading stops, as at an unknown topic."""


class DataRefused(Exception):
    """The database refused a value of this command, which validation should have refused.

    Other commands are unaffected.
    """
