"""A bounded memory of what was met lately, in which nothing stays longer than it may.

The rule a stranger would break: an entry goes when its time is over even if nobody ever asks for it again. What is
remembered of a person must not outlive the person's erasure in a process that has nothing to do.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class TtlCache(Generic[K, V]):
    """At most `count_max` values, each for at most `ttl_s` seconds since it was put; the oldest goes first."""

    def __init__(self, count_max: int, ttl_s: float) -> None:
        self._count_max, self._ttl_s = count_max, ttl_s
        self._kept: OrderedDict[K, tuple[float, V]] = OrderedDict()
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: K) -> V | None:
        """What is remembered under a key, unless its time is over."""
        kept = self._kept.get(key)
        return None if kept is None or kept[0] <= time.monotonic() else kept[1]

    def put(self, key: K, value: V) -> None:
        """Remember a value from now on; one that stood there is replaced, and so is its time."""
        kept = self._kept
        kept[key] = (time.monotonic() + self._ttl_s, value)
        kept.move_to_end(key)
        if len(kept) > self._count_max:
            kept.popitem(last=False)
        if self._timer is None:
            self._wake_at_the_oldest()

    def drop(self, key: K) -> None:
        """Forget a key now."""
        self._kept.pop(key, None)

    def _wake_at_the_oldest(self) -> None:
        """Come back when the entry that was put first is over; entries stand in the order of their ends."""
        oldest = next(iter(self._kept.values()), None)
        if oldest is not None:
            wait_s = max(0.0, oldest[0] - time.monotonic())
            self._timer = asyncio.get_running_loop().call_later(wait_s, self._sweep)

    def _sweep(self) -> None:
        self._timer = None
        now = time.monotonic()
        while self._kept and next(iter(self._kept.values()))[0] <= now:
            self._kept.popitem(last=False)
        self._wake_at_the_oldest()
