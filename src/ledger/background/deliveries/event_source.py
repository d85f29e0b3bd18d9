"""What a session needs of the feed: numbered events, and their bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol
from uuid import UUID

from ledger.domain.public_events.kinds import Kind


class FeedEvent(Protocol):
    """A public event with its number."""

    @property
    def sequence(self) -> int: ...
    @property
    def id(self) -> UUID: ...
    @property
    def kind(self) -> Kind: ...
    @property
    def stream_id(self) -> UUID: ...
    @property
    def resource_id(self) -> UUID: ...


class FeedPage(Protocol):
    """Events in the order of their numbers, the number up to which was looked, and whether there are more."""

    @property
    def events(self) -> Sequence[FeedEvent]: ...
    @property
    def last_sequence(self) -> int: ...
    @property
    def has_more(self) -> bool: ...


class EventSource(Protocol):
    """The feeds of all merchants."""

    async def after(self, merchant_id: UUID, sequence: int, limit: int, kinds: frozenset[str] | None) -> FeedPage:
        """Returns the next events of these kinds, or of all, after a number. Raises a Fault."""
        ...

    async def named(self, merchant_id: UUID, ids: Sequence[UUID]) -> Mapping[UUID, FeedEvent]:
        """Returns events by their ids. Raises a Fault."""
        ...

    async def render(
        self, merchant_id: UUID, events: Sequence[Any], *, is_thin: bool, bytes_max: int | None = None
    ) -> list[bytes]:
        """Returns the bytes of events, with `bytes_max` only up to the one that reaches so many. Raises a Fault, and
        one of `UNREADABLE`.
        """
        ...
