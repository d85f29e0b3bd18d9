"""One place of a service, for an API process or the worker, and the child that is in it.

The child is replaced for as long as the service runs, after pauses that grow with the number of endings in the last
minute.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from ledger.back_off import RecentEndings
from ledger.service.child_main import Role
from ledger.service.child_process import ChildProcess

_PAUSE_MAX_S: Final = 5.0


class ChildSlot:
    """A place and its child, which `start` starts. Raises OSError if the first one cannot be started."""

    def __init__(self, role: Role, start: Callable[[], ChildProcess]) -> None:
        self.role = role
        self.child: ChildProcess | None = start()
        self._start = start
        self._endings = RecentEndings(_PAUSE_MAX_S)
        self._next_start = 0.0
        self._reported = ""

    def is_ready(self) -> bool:
        return self.child is not None and self.child.is_alive() and self.child.is_ready

    def tick(self, *, may_start: bool) -> str:
        """Ends a child that does not answer, and replaces one that has ended if `may_start` is true.

        Returns the event for a person; "" without one, and for a repeated one before the child was ready.
        """
        now = time.monotonic()
        child = self.child
        if child is None:
            return self._replace(now) if may_start and now >= self._next_start else ""
        if child.is_alive():
            self._reported = "" if child.is_ready else self._reported
            reason = child.end_if_stopped()
            return f"the {self.role} process (pid {child.pid}) {reason}; ending it" if reason else ""
        self.child = None
        child.end()
        if child.is_ready:
            self._reported = ""
            return self._ended(now, f"(pid {child.pid}) {child.ending}")
        return self._ended(now, f"{child.ending} before it was ready")

    def _replace(self, now: float) -> str:
        try:
            self.child = self._start()
        except OSError as refusal:  # no memory or no descriptors for another process
            return self._ended(now, f"cannot be started: {refusal.strerror}")
        return ""

    def _ended(self, now: float, what: str) -> str:
        pause_s = self._endings.pause_s(now)
        self._next_start = now + pause_s
        if what == self._reported:
            return ""
        self._reported = what
        return f"the {self.role} process {what}; starting another{f' in {pause_s:.1f} s' if pause_s else ''}"
