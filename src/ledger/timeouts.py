"""Deadlines for whatever waits, hundreds of them for the price of one timer.

The rule a stranger would break: a deadline is kept a moment late, and that is enough for one of seconds. `asyncio.timeout`
keeps it to the millisecond with a timer of its own, which costs each request more than finding its route; most of them are
over long before.
"""

from __future__ import annotations

import asyncio
import time
from types import TracebackType
from typing import Final, Self

LATE_MAX_S: Final = 0.1
"""How long after its moment a deadline is kept, where the process has time for it."""


class Timeouts:
    """Those of one loop at a time; one look every tenth of a second, while there are any."""

    def __init__(self) -> None:
        self._kept: set[Timeout] = set()
        self._loop: asyncio.AbstractEventLoop | None = None

    def within(self, seconds: float) -> Timeout:
        """A block that raises TimeoutError where it takes longer: its task is cancelled, as by `asyncio.timeout`."""
        return Timeout(self, time.monotonic() + seconds)

    def keep(self, deadline: Timeout) -> None:
        """Look after a deadline until it is let go."""
        self._kept.add(deadline)
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop = loop
            loop.call_later(LATE_MAX_S, self._look, loop)
        if deadline.at <= time.monotonic():
            # Not at once: a block that never waits would leave the cancellation to whatever its task waits for next.
            loop.call_soon(self._end_those_that_passed)

    def let_go(self, deadline: Timeout) -> None:
        self._kept.discard(deadline)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._loop is loop:
            if self._kept:
                loop.call_later(LATE_MAX_S, self._look, loop)
            else:
                self._loop = None
        self._end_those_that_passed()

    def _end_those_that_passed(self) -> None:
        now = time.monotonic()
        for passed in [each for each in self._kept if each.at <= now]:
            passed.expire()


class Timeout:
    """The moment, on the monotonic clock, by which a block is left. Used once."""

    __slots__ = ("_before", "_deadlines", "_passed", "_task", "at")

    def __init__(self, deadlines: Timeouts, at: float) -> None:
        self._deadlines = deadlines
        self._passed = False
        self.at = at

    def __enter__(self) -> Self:
        task = asyncio.current_task()
        assert task is not None, "only a task can be told to stop waiting"
        self._task = task
        self._before = task.cancelling()
        self._deadlines.keep(self)
        return self

    def expire(self) -> None:
        """The moment has come."""
        self._deadlines.let_go(self)
        self._passed = True
        self._task.cancel()

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, _: TracebackType | None) -> None:
        self._deadlines.let_go(self)
        if self._passed and self._task.uncancel() <= self._before and kind is asyncio.CancelledError:
            raise TimeoutError from fault  # nobody else wanted the task to end
