"""The bodies of events that this worker has rendered a moment ago: all endpoints of a merchant get the same.

Never keep a body for long: after an erasure it is rendered without the person.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final
from uuid import UUID

from msgspec import Struct

from ledger.background.deliveries.event_source import EventSource, FeedEvent

FRESH_S: Final = 1.0
"""How long after its rendering a body may be sent: the person whom it has may be erased meanwhile."""
READ_MAX_S: Final = 10.0
"""How long after its reading has begun: a process that is stopped in between goes on with the person of before."""
_BYTES_MAX: Final = 32 << 20
_AT_ONCE_BYTES: Final = 4 << 20
"""How many bytes are rendered at once."""

_Key = tuple[int, bool]
"""The id of an event as a number, because a UUID's hash is computed in Python, and whether the body is thin."""


class Body(Struct, frozen=True):
    """The bytes of an event, and until which monotonic time they may be sent."""

    content: bytes
    until_s: float

    @property
    def is_fresh(self) -> bool:
        return time.monotonic() < self.until_s


def fresh_until(read_s: float) -> float:
    """Returns until which monotonic time bodies may be sent that are ready now, and whose reading began at `read_s`."""
    return min(time.monotonic() + FRESH_S, read_s + READ_MAX_S)


class RenderedBodies:
    """The bodies that the sessions of one worker share. A merchant's events are rendered by one session at a time."""

    def __init__(self, source: EventSource) -> None:
        self._source = source
        # The oldest first. A dict would look for its first entry past all that were dropped since it grew last.
        self._bodies = OrderedDict[_Key, Body]()
        self._size = 0
        self._locks: dict[UUID, tuple[asyncio.Lock, int]] = {}

    async def of(self, merchant_id: UUID, events: Sequence[FeedEvent], *, is_thin: bool) -> list[Body | None]:
        """Returns the body of each event, None for those behind the first ones if they are large.

        Raises like `EventSource.render`.
        """
        lock, users = self._locks.get(merchant_id, (asyncio.Lock(), 0))
        self._locks[merchant_id] = lock, users + 1
        try:
            async with lock:
                return await self._of(merchant_id, events, is_thin=is_thin)
        finally:
            lock, users = self._locks[merchant_id]
            self._locks[merchant_id] = lock, users - 1
            if users == 1:
                del self._locks[merchant_id]

    def clear(self) -> None:
        """Forgets all bodies."""
        self._bodies.clear()
        self._size = 0

    async def _of(self, merchant_id: UUID, events: Sequence[FeedEvent], *, is_thin: bool) -> list[Body | None]:
        self._drop_old()
        keys = [(event.id.int, is_thin) for event in events]
        # One that was read for long is old before others that were kept before it.
        found = [body if (body := self._bodies.get(key)) is not None and body.is_fresh else None for key in keys]
        missing = [n for n, body in enumerate(found) if body is None]
        if missing:
            read_s = time.monotonic()
            contents = await self._source.render(
                merchant_id, [events[n] for n in missing], is_thin=is_thin, bytes_max=_AT_ONCE_BYTES
            )
            until_s = fresh_until(read_s)
            for n, content in zip(missing, contents, strict=False):  # the others are asked for again
                found[n] = body = Body(content, until_s)
                replaced = self._bodies.pop(keys[n], None)  # also of an event that is wanted twice: new, and repeated
                self._size += len(content) - (0 if replaced is None else len(replaced.content))
                self._bodies[keys[n]] = body
        return found

    def _drop_old(self) -> None:
        """Drops bodies that may not be sent any more, and the oldest if there are too many."""
        while self._bodies:
            key, body = next(iter(self._bodies.items()))
            if body.is_fresh and self._size <= _BYTES_MAX:
                return
            del self._bodies[key]
            self._size -= len(body.content)
