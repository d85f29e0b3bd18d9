"""Long work of requests in slices: one slice at a time in a process, and after each a pause as long as the slice.

Small requests so find at least half of the event loop's time free, however many imports a process has.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import perf_counter
from typing import Final

SLICE_S: Final = 0.001
"""How long a slice is at least. The piece of work that reaches it is finished."""


class Slices:
    """The slices of one process. Those who want one get it in their order.

    A process without requests need not rest between them: other work has its turn all the same.
    """

    def __init__(self, *, rests: bool = True) -> None:
        self.rests = rests
        self._lock = asyncio.Lock()
        self.count = 0  # of the pauses

    @asynccontextmanager
    async def work(self) -> AsyncIterator[Slice]:
        """Waits for a slice, and yields it for work whose pieces are each followed by `Slice.end_piece`.

        Wait for nothing else inside: it would delay all other long work.
        """
        await self._lock.acquire()
        work = Slice(self, self._lock)
        try:
            yield work
        finally:
            if work.has_turn:
                self._lock.release()


class Slice:
    """A part of the work, which has the loop until it ends a piece after `SLICE_S`."""

    __slots__ = ("_began", "_lock", "_slices", "has_turn")

    def __init__(self, slices: Slices, lock: asyncio.Lock) -> None:
        self._slices, self._lock = slices, lock
        self.has_turn = True  # False while it waits for the next one, and if that was cancelled
        self._began = perf_counter()

    async def end_piece(self) -> None:
        """Ends a piece of the work: pauses if the slice is over, and waits for the next one."""
        spent_s = perf_counter() - self._began
        if spent_s < SLICE_S:
            return
        self._slices.count += 1
        await asyncio.sleep(spent_s if self._slices.rests else 0)  # no other work has a slice meanwhile
        self.has_turn = False
        self._lock.release()
        await self._lock.acquire()
        self.has_turn = True
        self._began = perf_counter()
