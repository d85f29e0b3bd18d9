"""Customers that this process has loaded lately, with the versions of their streams.

A cached customer may be outdated. Use it only with a check of its version in the same commit; after a `VersionConflict`
the log is read. An entry expires after a minute, so that a person who was erased by another process soon leaves this
one.
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

from msgspec import Struct

from ledger.domain.customers.state import Customer
from ledger.domain.fold import fold
from ledger.domain.streams import CUSTOMERS
from ledger.journal.journal import Journal
from ledger.ttl_cache import TtlCache

_CUSTOMERS_MAX: Final = 20_000
_TTL_S: Final = 60.0


class CachedCustomer(Struct, frozen=True):
    """A customer, and the version of its stream."""

    customer: Customer
    version: int


class CustomerCache:
    """Finds customers: by external id in the cache, by service id in the log."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._cached = TtlCache[tuple[UUID, str], CachedCustomer](_CUSTOMERS_MAX, _TTL_S)

    def get(self, merchant_id: UUID, external_id: str) -> CachedCustomer | None:
        """Returns the cached customer, or None; the customer may exist nevertheless."""
        return self._cached.get((merchant_id, external_id))

    def put(self, merchant_id: UUID, customer: Customer, version: int) -> None:
        """Stores what a commit or the log has just shown."""
        self._cached.put((merchant_id, customer.external_id), CachedCustomer(customer, version))

    async def by_id(self, merchant_id: UUID, customer_id: UUID) -> CachedCustomer | None:
        """Returns the customer with this service id from the log; None also if the id is not a customer's."""
        events = await self._journal.reader.stream_from(merchant_id, customer_id, CUSTOMERS.first)
        if not events:
            return None
        customer = fold(CUSTOMERS.evolve, None, events)
        self.put(merchant_id, customer, len(events))
        return CachedCustomer(customer, len(events))
