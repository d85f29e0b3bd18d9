"""An outage of the database: the requests that wait for it are answered instead of being held until their time-out.

Only the request ends. The operation that it began goes on in its own task (`Ledger.complete`): where a commit's fate is
unknown, it is settled once the database is back, and a repeated request gets the outcome.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Final

from api.http.request import ApiRequest

PATIENCE_S: Final = 0.5
"""How long a request waits in an outage: a connection that was lost alone is replaced within this time."""


class Outage:
    """The open requests of a process, each with the time at which it began, in seconds of `perf_counter`.

    `look` ends those that wait while `has_database` returns false.
    """

    def __init__(self, has_database: Callable[[], bool]) -> None:
        self.requests: dict[ApiRequest, float] = {}
        self._has_database = has_database
        self._since: float | None = None

    def look(self) -> None:
        """Ends the requests that have waited for longer than `PATIENCE_S` without the database."""
        if self._has_database():
            self._since = None
            return
        now = perf_counter()
        if self._since is None:
            self._since = now
        if now - self._since < PATIENCE_S:
            return
        for request, began in self.requests.items():
            waits = request.needs_database and not request.is_reading and not request.status
            if waits and now - began >= PATIENCE_S and not request.lost_database:
                request.lost_database = True
                request.timeout.expire()
