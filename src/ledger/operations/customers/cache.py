"""Customers that this process has met lately, with the version they stood at.

The rule a stranger would break: what stands here may be old. It is only ever used beside a check of the version in the
same commit; a `VersionConflict` says so, `forget` drops it, and the log is asked. It stays for a minute at most, so that
a person who was erased elsewhere is soon forgotten here.
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

from msgspec import Struct

from ledger.domain.customers.events import CustomerCreated
from ledger.domain.customers.evolve import evolve
from ledger.domain.customers.state import Customer
from ledger.domain.fold import fold
from ledger.domain.ids import parse_uuid
from ledger.journal.append import ClaimKind
from ledger.journal.journal import Journal
from ledger.ttl_cache import TtlCache

_KNOWN_MAX: Final = 20_000
_KNOWN_S: Final = 60.0


class CachedCustomer(Struct, frozen=True):
    """A customer and the version of its stream at which it was so."""

    customer: Customer
    version: int


class CustomerCache:
    """Finds customers, by external id without a question to the database where this process knows them."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._known = TtlCache[tuple[UUID, str], CachedCustomer](_KNOWN_MAX, _KNOWN_S)

    def get(self, merchant_id: UUID, external_id: str) -> CachedCustomer | None:
        """What this process remembers; None says nothing about whether the customer exists."""
        return self._known.get((merchant_id, external_id))

    def put(self, merchant_id: UUID, customer: Customer, version: int) -> None:
        """Keep what a commit or the log has just shown."""
        self._known.put((merchant_id, customer.external_id), CachedCustomer(customer, version))

    def drop(self, merchant_id: UUID, external_id: str) -> None:
        """Drop what turned out to be old."""
        self._known.drop((merchant_id, external_id))

    async def by_external_id(self, merchant_id: UUID, external_id: str) -> CachedCustomer | None:
        """The customer with this external id, from the log."""
        owner = await self._journal.claim_owner(merchant_id, ClaimKind.CUSTOMER_EXTERNAL_ID, external_id)
        return None if owner is None else await self.by_id(merchant_id, owner)

    async def by_id(self, merchant_id: UUID, customer_id: UUID) -> CachedCustomer | None:
        """The customer with this service id, from the log; None also where the id is another thing's."""
        events = await self._journal.reader.stream_from(merchant_id, customer_id, CustomerCreated)
        if not events:
            return None
        customer = fold(evolve, None, events)
        self.put(merchant_id, customer, len(events))
        return CachedCustomer(customer, len(events))

    async def by_reference(self, merchant_id: UUID, reference: str) -> CachedCustomer | None:
        """The customer that `customer.id` of a request names: a service id, else an external id (contract N8)."""
        customer_id = parse_uuid(reference)
        found = await self.by_id(merchant_id, customer_id) if customer_id is not None else None
        return found or await self.by_external_id(merchant_id, reference)
