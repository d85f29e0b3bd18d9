"""Bounded caches whose entries expire.

An entry is removed when its time is over even if it is never read again: in an idle process, personal data in the cache
must not outlive the person's erasure.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Final, Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")

READ_AHEAD: Final = 0.25
"""In which last part of its time a value is read again."""


class TtlCache(Generic[K, V]):
    """At most `count_max` values, each for at most `ttl_s` seconds since it was put; the oldest is removed first."""

    def __init__(self, count_max: int, ttl_s: float, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._count_max, self._ttl_s, self._monotonic = count_max, ttl_s, monotonic
        self._entries: OrderedDict[K, tuple[float, V]] = OrderedDict()
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: K) -> V | None:
        """Returns the value of a key, or None if there is none or its time is over."""
        entry = self._entries.get(key)
        return None if entry is None or entry[0] <= self._monotonic() else entry[1]

    def get_with_rest(self, key: K) -> tuple[V, float] | None:
        """Returns the value of a key and the rest of its time in seconds, or None if there is none or it is over."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        rest_s = entry[0] - self._monotonic()
        return (entry[1], rest_s) if rest_s > 0 else None

    def put(self, key: K, value: V) -> None:
        """Keeps a value from now on, in place of an earlier one of the key."""
        self._entries[key] = (self._monotonic() + self._ttl_s, value)
        self._entries.move_to_end(key)
        if len(self._entries) > self._count_max:
            self._entries.popitem(last=False)
        if self._timer is None:
            self._sweep()

    def drop(self, key: K) -> None:
        """Removes a key now."""
        self._entries.pop(key, None)

    def drop_where(self, matches: Callable[[V], bool]) -> None:
        """Removes the values that match now."""
        for key in [key for key, (_, value) in self._entries.items() if matches(value)]:
            del self._entries[key]

    def _sweep(self) -> None:
        """Removes expired entries and schedules itself for the next expiry: entries are in that order."""
        self._timer, now = None, self._monotonic()
        while self._entries:
            expires_at, _ = next(iter(self._entries.values()))
            if expires_at > now:
                self._timer = asyncio.get_running_loop().call_later(expires_at - now, self._sweep)
                return
            self._entries.popitem(last=False)


class ReadAheadCache(Generic[K, V]):
    """Values that are read from the database, each used for at most `ttl_s` seconds since it was read.

    A caller that comes in the last quarter of that time has the value read again and does not wait for it, so a value
    that is in use is never waited for (docs/decisions/0087). Callers that must wait for a value share one read.
    """

    def __init__(self, count_max: int, ttl_s: float, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._ahead_s = ttl_s * READ_AHEAD
        self._known = TtlCache[K, V](count_max, ttl_s, monotonic)
        self._reads: dict[K, asyncio.Task[V]] = {}

    def __len__(self) -> int:
        return len(self._known)

    async def get(self, key: K, read: Callable[[], Awaitable[V]]) -> V:
        """Returns the value of a key, which `read` returns if it is not known. Raises what `read` raises.

        What a read raises that no caller waits for is ignored: the next caller after the value's time reads again.
        """
        known = self._entry(key, read)
        if known is None:
            # Shielded: a caller that goes away must not end the read of the others.
            return await asyncio.shield(self._reads.get(key) or self._begin(key, read))
        return known[0]

    def known(self, key: K, read: Callable[[], Awaitable[V]]) -> V | None:
        """Returns what `get` returns without waiting, or None: a request that finds its value saves a coroutine."""
        known = self._entry(key, read)
        return None if known is None else known[0]

    def _entry(self, key: K, read: Callable[[], Awaitable[V]]) -> tuple[V, float] | None:
        """Returns a known value with the rest of its time in seconds, and has it read again in the last part of it."""
        known = self._known.get_with_rest(key)
        if known is not None and known[1] <= self._ahead_s and key not in self._reads:
            self._begin(key, read)
        return known

    def drop(self, key: K) -> None:
        """Removes a value, because it has changed. A read that began before the change is not kept."""
        self._known.drop(key)
        self._reads.pop(key, None)

    def drop_where(self, matches: Callable[[V], bool]) -> None:
        """Removes the values that match, because they have changed. No read that began before the change is kept."""
        self._known.drop_where(matches)
        self._reads.clear()

    def _begin(self, key: K, read: Callable[[], Awaitable[V]]) -> asyncio.Task[V]:
        task = self._reads[key] = asyncio.create_task(self._read(key, read))
        task.add_done_callback(_look_at_failure)
        return task

    async def _read(self, key: K, read: Callable[[], Awaitable[V]]) -> V:
        this = asyncio.current_task()
        try:
            value = await read()
        except BaseException:
            if self._reads.get(key) is this:
                del self._reads[key]
            raise
        if self._reads.get(key) is this:
            del self._reads[key]
            self._known.put(key, value)
        return value


def _look_at_failure(task: asyncio.Task[V]) -> None:
    """Reads the failure of a task, so that asyncio does not log one that no caller waits for."""
    if not task.cancelled():
        task.exception()
