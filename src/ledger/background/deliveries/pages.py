"""Pages of merchants' feeds that this worker has read a moment ago: the endpoints of a merchant mostly want the same.

A page stays right: the numbers up to its end have these events. But it may have become too short, so pages are
forgotten once a feed has grown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Final
from uuid import UUID

from ledger.background.deliveries.event_source import EventSource, FeedPage

_PAGES_MAX: Final = 100

_Key = tuple[UUID, int, int, frozenset[str] | None]


class FeedPages:
    """The pages that the sessions of one worker share."""

    def __init__(self, source: EventSource) -> None:
        self._source = source
        self._pages: dict[_Key, FeedPage] = {}  # those that were read first come first
        self._lock = asyncio.Lock()  # the source has one connection
        self._forgotten = 0

    async def after(self, merchant_id: UUID, sequence: int, limit: int, kinds: frozenset[str] | None) -> FeedPage:
        """Returns at most `limit` next events of these kinds, or of all, after a number. Raises a Fault."""
        key = merchant_id, sequence, limit, kinds
        page = self._pages.get(key)
        if page is not None:
            return page
        async with self._lock:
            page = self._pages.get(key)
            if page is None:
                forgotten = self._forgotten
                page = await self._source.after(merchant_id, sequence, limit, kinds)
                if page.last_sequence > sequence and forgotten == self._forgotten:
                    self._pages[key] = page
                    if len(self._pages) > _PAGES_MAX:
                        del self._pages[next(iter(self._pages))]
        return page

    def forget(self, merchants: Collection[UUID] | None) -> None:
        """Forgets the pages of these merchants, or of all: their feeds have grown."""
        self._forgotten += 1
        self._pages = {
            key: page for key, page in self._pages.items() if merchants is not None and key[0] not in merchants
        }
