"""A command as the log has it, stream by stream, and the public event that follows from it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol
from uuid import UUID

from msgspec import Struct

from ledger.domain.public_events.kinds import Kind, ResourceType


class LoggedEvent(Protocol):
    """An event of a stream with its place: `version` in the stream, `position` in the merchant's log."""

    @property
    def topic(self) -> str: ...
    @property
    def version(self) -> int: ...
    @property
    def position(self) -> int: ...
    @property
    def event(self) -> Any: ...


class CommandStream(Struct, frozen=True):
    """What one command did to one stream: its events in the log's order, and the states before and after them.

    `before` is None for a new stream. The states are those that `ledger.domain.streams` folds.
    """

    stream_id: UUID
    before: Any
    after: Any
    events: Sequence[LoggedEvent]

    @property
    def version(self) -> int:
        """The version of the stream after the command."""
        return self.events[-1].version

    @property
    def position(self) -> int:
        """The position of the first event of the command in this stream."""
        return self.events[0].position


class Subject(Struct, frozen=True, kw_only=True):
    """What a public event is about beside its resource: a payment, and its refund or dispute; a document."""

    payment_id: UUID | None = None
    refund_id: UUID | None = None
    dispute_id: str | None = None
    document_id: UUID | None = None


class PublicEvent(Struct, frozen=True, kw_only=True):
    """One public event of a command. The resource is that of `stream_id`, or a part of it, at `version`.

    `position` is that of the last event of the command that this one announces. No two of a log agree in position, kind
    and resource. `previous_status` is the status before the command, for a kind that announces a change of status.
    """

    kind: Kind
    resource_id: UUID
    stream_id: UUID
    version: int
    position: int
    previous_status: str | None = None
    subject: Subject = Subject()

    @property
    def resource_type(self) -> ResourceType:
        return self.kind.resource_type
