"""The fake's time, which tests move forward, and what is due at a time."""

from __future__ import annotations

import heapq
import itertools
import time
from collections.abc import Callable

Action = Callable[[], None]


class Clock:
    """The time of this machine, with an offset. Actions run once their time has come, in order."""

    def __init__(self) -> None:
        self._offset = 0.0
        self._due: list[tuple[float, int, Action]] = []
        self._numbers = itertools.count()

    def now(self) -> float:
        return time.time() + self._offset

    def seconds(self) -> int:
        """Returns the time as Stripe writes it."""
        return int(self.now())

    def advance(self, seconds: float) -> None:
        """Moves the time forward, stopping at each action that becomes due on the way."""
        end = self.now() + seconds
        while self._due and self._due[0][0] <= end:
            self._offset += max(0.0, self._due[0][0] - self.now())
            self.run_due()
        self._offset += max(0.0, end - self.now())

    def at(self, moment: float, action: Action) -> None:
        """Runs the action at the moment, or as soon after it as the fake is asked for something."""
        heapq.heappush(self._due, (moment, next(self._numbers), action))

    def after(self, seconds: float, action: Action) -> None:
        self.at(self.now() + seconds, action)

    def run_due(self) -> None:
        """Runs every action whose time has come."""
        now = self.now()
        while self._due and self._due[0][0] <= now:
            heapq.heappop(self._due)[2]()
