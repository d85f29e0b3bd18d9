"""Maps the ledger's events for the library's projections, and leaves the library's own events as they are.

The ledger's topics are permanent, and the journal's codec decodes them, upcasters included. The library's topics are
paths of Python classes: if such a class moves, register its old path, or its stored events cannot be read.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from eventsourcing.domain import DomainEventProtocol
from eventsourcing.persistence import Mapper, MapperDeserialisationError, ProgrammingError, StoredEvent
from msgspec import Struct

from ledger.domain.streams import TOPICS
from ledger.journal.codec import CODEC


class JournalEvent(Struct, frozen=True):
    """An event of the ledger (of `ledger.domain.orders.events` or another stream); `originator_id` is its stream."""

    originator_id: UUID
    originator_version: int
    event: Any


class JournalMapper(Mapper[UUID]):
    """A mapper that decodes the ledger's events by the codec and everything else as the library does.

    It refuses to store an event of the ledger.
    """

    def to_domain_event(self, stored_event: StoredEvent) -> DomainEventProtocol[UUID]:
        """Returns a JournalEvent for a topic of the ledger.

        Raises MapperDeserialisationError, and TopicError for an unknown topic.
        """
        if stored_event.topic not in TOPICS:
            return super().to_domain_event(stored_event)
        assert isinstance(stored_event.originator_id, UUID), "the ids of the ledger's streams are UUIDs"
        try:
            event = CODEC.decode(stored_event.topic, stored_event.state)
        except Exception as failure:
            place = f"stream {stored_event.originator_id} version {stored_event.originator_version}"
            raise MapperDeserialisationError(f"{stored_event.topic} of {place} cannot be decoded") from failure
        return JournalEvent(stored_event.originator_id, stored_event.originator_version, event)

    def to_stored_event(self, domain_event: DomainEventProtocol[UUID]) -> StoredEvent:
        """Encodes the event as the library does. Raises ProgrammingError for an event of the ledger."""
        if isinstance(domain_event, JournalEvent):
            raise ProgrammingError("only the journal appends the ledger's events, with their read models")
        return super().to_stored_event(domain_event)
