"""The parent's pings to a child, and the child's answers, each one byte over the pipes between the two.

The child answers from its event loop: a process that is stopped, or whose loop hangs, does not.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, Final

LOOK_S: Final = 0.5
"""How often the parent looks. A ping is sent, and a missing answer noticed, at most so much later."""

_MARGIN_S: Final = 2 * LOOK_S + 2.0
"""How long before its time-out a child is ended: two looks, and two seconds in which another process answers."""

_PING: Final = b"."
_READ_MAX: Final = 64
_STEP_MAX_S: Final = 1.0


class Ping:
    """The parent's side: one ping after the other through `to_child`, their answers through `from_child`.

    `timeout_s` is how long clients may wait for a stopped child. `limit_s`, for the answer to a ping, is three seconds
    less.
    """

    def __init__(self, to_child: int, from_child: int, timeout_s: float) -> None:
        self._to_child, self._from_child = to_child, from_child
        self.limit_s = max(timeout_s / 2, timeout_s - _MARGIN_S)
        self._waited_s: float | None = None
        self._last = 0.0

    def is_overdue(self, now: float) -> bool:
        """Returns whether the last ping has been unanswered for longer than `limit_s`; sends the next one.

        `now` is by the monotonic clock. Between two calls at most a second counts: a parent that was stopped together
        with its children lets them answer first.
        """
        with suppress(BlockingIOError):
            if os.read(self._from_child, _READ_MAX):
                self._waited_s = None
        if self._waited_s is None:
            with suppress(BrokenPipeError):  # the child has ended
                os.write(self._to_child, _PING)
            self._waited_s = 0.0
        else:
            self._waited_s += min(now - self._last, _STEP_MAX_S)
        self._last = now
        return self._waited_s > self.limit_s


class Responder:
    """The child's side: answers through `to_parent` while its event loop runs."""

    def __init__(self, to_parent: int) -> None:
        self._to_parent = to_parent
        self._loop: asyncio.AbstractEventLoop | None = None

    async def answer_during(self, main: Coroutine[Any, Any, None]) -> None:
        """Awaits `main`, whose event loop answers from now on."""
        self._loop = asyncio.get_running_loop()
        await main

    def pinged(self) -> None:
        """Has the event loop answer, from the thread that reads the pings."""
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop has ended, and the process is about to
                self._loop.call_soon_threadsafe(os.write, self._to_parent, _PING)
