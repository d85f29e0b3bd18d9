"""Time-outs for blocks of a task, and tasks that run to their end if the caller that awaits one is cancelled.

`Timeouts` holds hundreds of time-outs with one timer. A block ends up to a tenth of a second after its time, which is
enough for time-outs of seconds. `asyncio.timeout` ends it to the millisecond with a timer of its own, which costs each
request more than finding its route (docs/decisions/0023). `DetachedTasks` does what `asyncio.shield` does for a third
of the processor time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from types import TracebackType
from typing import Any, Final, Self, TypeVar

T = TypeVar("T")

LATE_MAX_S: Final = 0.1
"""How long after its time a block is ended, if the process is not busy."""


class Timeouts:
    """The time-outs of one event loop at a time. While there are any, it looks at all of them every tenth of a
    second.
    """

    def __init__(self) -> None:
        self.open: set[Timeout] = set()
        self._loop: asyncio.AbstractEventLoop | None = None

    def within(self, seconds: float) -> Timeout:
        """Returns a context that raises TimeoutError if its block takes longer: the task is cancelled, as by
        asyncio.timeout.
        """
        return Timeout(self, time.monotonic() + seconds)

    def add(self, timeout: Timeout) -> None:
        self.open.add(timeout)
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop = loop
            loop.call_later(LATE_MAX_S, self._look, loop)
        if timeout.at <= time.monotonic():
            # Not at once: a block that never waits would leave the cancellation to the next wait of its task.
            loop.call_soon(self._expire)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._loop is loop:
            if self.open:
                loop.call_later(LATE_MAX_S, self._look, loop)
            else:
                self._loop = None
        self._expire()

    def _expire(self) -> None:
        now = time.monotonic()
        for timeout in [each for each in self.open if each.at <= now]:
            timeout.expire()


class Timeout:
    """The time, on the monotonic clock, by which a block has to end. Used once."""

    __slots__ = ("_before", "_passed", "_task", "_timeouts", "at")

    def __init__(self, timeouts: Timeouts, at: float) -> None:
        self._timeouts = timeouts
        self._passed = False
        self.at = at

    def __enter__(self) -> Self:
        task = asyncio.current_task()
        assert task is not None, "only a task can be cancelled"
        self._task = task
        self._before = task.cancelling()
        self._timeouts.add(self)
        return self

    def expire(self) -> None:
        """Cancels the task."""
        self._timeouts.open.discard(self)
        self._passed = True
        self._task.cancel()

    def __exit__(self, kind: type[BaseException] | None, fault: BaseException | None, _: TracebackType | None) -> None:
        self._timeouts.open.discard(self)
        if self._passed and self._task.uncancel() <= self._before and kind is asyncio.CancelledError:
            raise TimeoutError from fault  # there is no other request to cancel the task


class DetachedTasks:
    """The tasks that were begun and have not ended.

    `unanswered` is called with the failure of a task whose caller no longer waits.
    """

    def __init__(self, unanswered: Callable[[BaseException], object] | None = None) -> None:
        self._unanswered = unanswered
        self._callers: dict[asyncio.Task[Any], asyncio.Future[Any] | None] = {}

    def complete(self, work: Coroutine[Any, Any, T]) -> Awaitable[T]:
        """Runs work to its end in a task of its own, and returns its outcome to a caller that may be cancelled.

        `asyncio.shield` of a task does the same for 9 µs of processor time; this takes 3, and every write pays it.
        """
        loop = asyncio.get_running_loop()
        task = loop.create_task(work)
        self._callers[task] = caller = loop.create_future()
        task.add_done_callback(self._answer)
        return caller

    def begin(self, work: Coroutine[Any, Any, Any]) -> None:
        """Starts a task that no caller awaits. It must not raise."""
        task = asyncio.get_running_loop().create_task(work)
        self._callers[task] = None
        task.add_done_callback(self._callers.pop)

    async def drain(self) -> None:
        """Waits until every task has ended, also those that begin meanwhile."""
        while self._callers:
            await asyncio.gather(*self._callers, return_exceptions=True)

    def _answer(self, task: asyncio.Task[Any]) -> None:
        caller = self._callers.pop(task)
        assert caller is not None, "the task was begun by `complete`"
        failure = None if task.cancelled() else task.exception()
        if caller.cancelled():
            if failure is not None and self._unanswered is not None:
                self._unanswered(failure)
        elif task.cancelled():
            caller.cancel()
        elif failure is not None:
            caller.set_exception(failure)
        else:
            caller.set_result(task.result())
