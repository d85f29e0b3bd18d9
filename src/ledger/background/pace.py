"""A pace for due work of which a merchant has much at one moment, so that requests get processor time meanwhile."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Collection
from typing import Final

from ledger.background.periodic import pause

_GROUP_S: Final = 0.5
"""Tasks that wait begin together, four times a second: their statements and commits become one each. Evenly spaced
tasks cost more than twice the processor time.
"""


class Pace:
    """The pace of tasks of some kinds in one process: at most so many a second begin, those that wait in groups.

    Unused turns are lost. Setting `stop` ends every wait.
    """

    def __init__(self, kinds: Collection[str], per_second: float, stop: asyncio.Event) -> None:
        self._kinds = frozenset(kinds)
        self._interval_s = 1 / per_second
        self._next_s = 0.0
        self._stop = stop

    async def turn(self, kind: str) -> None:
        """Waits until a task of this kind may begin: in the order in which they came."""
        if kind not in self._kinds:
            return
        now = time.monotonic()
        at = max(now, self._next_s)
        self._next_s = at + self._interval_s
        if at > now:
            await pause(self._stop, math.ceil(at / _GROUP_S) * _GROUP_S - now)
