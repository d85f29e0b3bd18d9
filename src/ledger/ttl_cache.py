"""A bounded cache whose entries expire.

An entry is removed when its time is over even if it is never read again: in an idle process, personal data in the cache
must not outlive the person's erasure.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class TtlCache(Generic[K, V]):
    """At most `count_max` values, each for at most `ttl_s` seconds since it was put; the oldest is removed first."""

    def __init__(self, count_max: int, ttl_s: float) -> None:
        self._count_max, self._ttl_s = count_max, ttl_s
        self._entries: OrderedDict[K, tuple[float, V]] = OrderedDict()
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: K) -> V | None:
        """Returns the value of a key, or None if there is none or its time is over."""
        entry = self._entries.get(key)
        return None if entry is None or entry[0] <= time.monotonic() else entry[1]

    def put(self, key: K, value: V) -> None:
        """Keeps a value from now on, in place of an earlier one of the key."""
        self._entries[key] = (time.monotonic() + self._ttl_s, value)
        self._entries.move_to_end(key)
        if len(self._entries) > self._count_max:
            self._entries.popitem(last=False)
        if self._timer is None:
            self._sweep()

    def drop(self, key: K) -> None:
        """Removes a key now."""
        self._entries.pop(key, None)

    def _sweep(self) -> None:
        """Removes expired entries and schedules itself for the next expiry: entries are in that order."""
        self._timer, now = None, time.monotonic()
        while self._entries:
            expires_at, _ = next(iter(self._entries.values()))
            if expires_at > now:
                self._timer = asyncio.get_running_loop().call_later(expires_at - now, self._sweep)
                return
            self._entries.popitem(last=False)
