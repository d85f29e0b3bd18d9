"""A pace for due work that a merchant has much of at one moment, so that requests have the processors meanwhile."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection

from ledger.background.periodic import pause


class Pace:
    """The pace of tasks of some kinds in one process: they begin evenly, at most so many a second.

    What was not used is lost. Setting `stop` ends every wait.
    """

    def __init__(self, kinds: Collection[str], per_second: float, stop: asyncio.Event) -> None:
        self._kinds = frozenset(kinds)
        self._interval_s = 1 / per_second
        self._next_s = 0.0
        self._stop = stop

    async def turn(self, kind: str) -> None:
        """Waits until a task of this kind may begin: one after another, as they came."""
        if kind not in self._kinds:
            return
        now = time.monotonic()
        at = max(now, self._next_s)
        self._next_s = at + self._interval_s
        if at > now:
            await pause(self._stop, at - now)
