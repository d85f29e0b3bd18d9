"""Pages of merchants' feeds that this worker has read a moment ago: the endpoints of a merchant mostly want the same.

A page stays right: the numbers up to its end have these events. But it may have become too short, so pages are
forgotten once a feed has grown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from typing import Final
from uuid import UUID

from msgspec import Struct

from ledger.background.deliveries.event_source import EventSource, FeedPage
from ledger.background.deliveries.store import DeliveryStore

_PAGES_MAX: Final = 100

_Key = tuple[UUID, int, int, frozenset[str] | None]


class ReadPage(Struct, frozen=True):
    """A page, and the versions of the merchant's endpoints once it was read: no event on it is of after a later one."""

    page: FeedPage
    versions: Mapping[UUID, int]


class FeedPages:
    """The pages that the sessions of one worker share."""

    def __init__(self, source: EventSource, store: DeliveryStore) -> None:
        self._source, self._store = source, store
        self._pages: dict[_Key, ReadPage] = {}  # those that were read first come first
        self._lock = asyncio.Lock()  # the source has one connection
        self._forgotten = 0

    async def after(self, merchant_id: UUID, sequence: int, limit: int, kinds: frozenset[str] | None) -> ReadPage:
        """Returns at most `limit` next events of these kinds, or of all, after a number. Raises a Fault."""
        key = merchant_id, sequence, limit, kinds
        read = self._pages.get(key)
        if read is not None:
            return read
        async with self._lock:
            read = self._pages.get(key)
            if read is None:
                forgotten = self._forgotten
                page = await self._source.after(merchant_id, sequence, limit, kinds)
                # Read after the page, so that they have each change that was committed before an event up to its end.
                versions = await self._store.versions(merchant_id) if page.last_sequence > sequence else {}
                read = ReadPage(page, versions)
                if page.last_sequence > sequence and forgotten == self._forgotten:
                    self._pages[key] = read
                    if len(self._pages) > _PAGES_MAX:
                        del self._pages[next(iter(self._pages))]
        return read

    def forget(self, merchants: Collection[UUID] | None) -> None:
        """Forgets the pages of these merchants, or of all: their feeds have grown."""
        self._forgotten += 1
        self._pages = {
            key: page for key, page in self._pages.items() if merchants is not None and key[0] not in merchants
        }
