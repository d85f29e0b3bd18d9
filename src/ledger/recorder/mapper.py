"""The ledger's own events as the library hands them to a projection; the library's own events as ever.

The rule a stranger would break: the ledger's events have permanent topics and are read by the journal's codec, upcasters
included. The library's topics are places in Python code, and a class that moves takes its events along only if told so.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from eventsourcing.domain import DomainEventProtocol
from eventsourcing.persistence import Mapper, MapperDeserialisationError, ProgrammingError, StoredEvent
from msgspec import Struct

from ledger.journal.codec import CODEC, TOPICS


class JournalEvent(Struct, frozen=True):
    """An event of the ledger's: `event` is one of `ledger.domain.orders.events` and its like, `originator_id` its stream."""

    originator_id: UUID
    originator_version: int
    event: Any


class JournalMapper(Mapper[UUID]):
    """Reads the ledger's events through the codec, everything else as the library does. Writes no event of the ledger's."""

    def to_domain_event(self, stored_event: StoredEvent) -> DomainEventProtocol[UUID]:
        """A JournalEvent for a topic of the ledger's. Raises MapperDeserialisationError, and TopicError for an unknown topic."""
        if stored_event.topic not in TOPICS:
            return super().to_domain_event(stored_event)
        assert isinstance(stored_event.originator_id, UUID), "streams have UUIDs here"
        try:
            event = CODEC.decode(stored_event.topic, stored_event.state)
        except Exception as failure:
            place = f"{stored_event.originator_id} version {stored_event.originator_version}"
            raise MapperDeserialisationError(f"{stored_event.topic} of {place} cannot be read") from failure
        return JournalEvent(stored_event.originator_id, stored_event.originator_version, event)

    def to_stored_event(self, domain_event: DomainEventProtocol[UUID]) -> StoredEvent:
        """As the library does. Raises ProgrammingError for an event of the ledger's."""
        if isinstance(domain_event, JournalEvent):
            raise ProgrammingError("the ledger's events are appended by the journal, with their read models")
        return super().to_stored_event(domain_event)
