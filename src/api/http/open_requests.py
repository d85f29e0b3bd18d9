"""The open requests of a process: one whose time is over is ended, and in an outage of the database one that waits for
it.

Do nothing here per request but keep it with its task: one look at all of them every tenth of a second ends them.

Only the request ends. The operation that it began goes on in its own task (`Ledger.complete`): if a commit's fate is
unknown, it is settled once the database is back, and a repeated request gets the outcome.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import perf_counter
from typing import Any, Final

from api.http.request import ApiRequest

PATIENCE_S: Final = 0.5
"""How long a request waits in an outage: a connection that was lost alone is replaced within this time."""

LATE_MAX_S: Final = 0.1
"""How long after its time a request is ended, if the process is not busy."""


class OpenRequests:
    """The open requests, each with its task, which is cancelled `timeout_s` after the request began, or earlier if
    `has_database` returns false for as long as `PATIENCE_S`.
    """

    def __init__(self, timeout_s: float, has_database: Callable[[], bool]) -> None:
        self._timeout_s = timeout_s
        self._has_database = has_database
        self._tasks: dict[ApiRequest, asyncio.Task[Any] | None] = {}
        self._loop: asyncio.AbstractEventLoop | None = None  # the one that looks at them
        self._away_since: float | None = None
        self._is_at_standstill = self._is_unconfirmed = False

    def add(self, request: ApiRequest) -> None:
        """Adds a request, which the current task answers."""
        loop = asyncio.get_running_loop()
        self._tasks[request] = asyncio.current_task(loop)
        if self._loop is not loop:
            self._loop = loop
            loop.call_later(LATE_MAX_S, self._look_again, loop)

    def remove(self, request: ApiRequest) -> None:
        """Removes a request that has ended, or whose answer is known."""
        self._tasks.pop(request, None)

    def look(self) -> None:
        """Ends the requests that have taken too long or that have waited too long without the database."""
        now = perf_counter()
        self._end([each for each in self._tasks if now - each.began >= self._timeout_s])
        if self._has_database() and not self._is_at_standstill:
            self._away_since = None
            return
        if self._away_since is None:
            self._away_since = now
        if self._is_at_standstill or now - self._away_since >= PATIENCE_S:
            waiting = [each for each in self._tasks if each.awaits_database and now - each.began >= PATIENCE_S]
            for request in waiting:
                request.lost_database, request.is_unconfirmed = not self._is_unconfirmed, self._is_unconfirmed
            self._end(waiting)

    def end_at_standstill(self, *, is_unconfirmed: bool) -> None:
        """Ends from now on each request that waits for the database, which completes nothing while the process is to
        end: it is away, or its commits are held up (`is_unconfirmed`).
        """
        self._is_at_standstill, self._is_unconfirmed = True, is_unconfirmed

    def _look_again(self, loop: asyncio.AbstractEventLoop) -> None:
        self.look()
        if self._loop is loop:
            if self._tasks:
                loop.call_later(LATE_MAX_S, self._look_again, loop)
            else:
                self._loop = None

    def _end(self, requests: list[ApiRequest]) -> None:
        for request in requests:
            request.has_timed_out = True
            task = self._tasks.pop(request)
            if task is not None:
                task.cancel()
