"""How a merchant asks for events to be delivered again (see `background.deliveries.repeats`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol
from uuid import UUID

from msgspec import Struct


class Replay(Struct, frozen=True, kw_only=True):
    """Which events are delivered again to an endpoint: those of these numbers, of its `kinds` (None: all).

    `to_sequence` is at most the last number that was looked at for it: what follows is delivered anyway.
    """

    from_sequence: int
    to_sequence: int
    failed_only: bool = False
    kinds: frozenset[str] | None = None


class Replayed(Struct, frozen=True):
    """The numbers that a replay covers, and how many events it has."""

    from_sequence: int
    to_sequence: int
    events: int


class DeliveryRepeats(Protocol):
    """Lets the worker deliver events again, under their ids. Every method raises a Fault."""

    async def replay(self, merchant_id: UUID, endpoint_id: UUID, replay: Replay) -> Replayed:
        """Lets the events of a range be delivered again, as many as one replay takes. Raises ReplayInProgress."""
        ...

    async def redeliver(self, merchant_id: UUID, event_id: UUID, endpoints: Sequence[UUID]) -> None:
        """Lets an event be delivered to these endpoints again."""
        ...
