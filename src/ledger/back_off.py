"""The exponential back-off of everything that is tried again: jobs, look-ups, connections, processes."""

from __future__ import annotations

from collections import deque
from typing import Final

_WINDOW_S: Final = 60.0
_FIRST_S: Final = 0.1


def back_off_s(tries: int, max_s: float, first_s: float = 1.0) -> float:
    """Returns the pause after an attempt that had so many before it: doubled each time, at most `max_s`."""
    return min(first_s * 2.0 ** min(tries, 20), max_s)


class RecentEndings:
    """The endings of a process in the last minute, from which the pause before its next start follows."""

    def __init__(self, max_s: float) -> None:
        self._max_s = max_s
        self._endings: deque[float] = deque()

    def pause_s(self, now: float) -> float:
        """Records an ending at `now` (seconds of the monotonic clock) and returns the pause before the next start.

        There is none after the first ending in a minute. Then it is a tenth of a second, doubled each time, at most
        `max_s`.
        """
        while self._endings and self._endings[0] < now - _WINDOW_S:
            self._endings.popleft()
        tries = len(self._endings)
        self._endings.append(now)
        return back_off_s(tries - 1, self._max_s, _FIRST_S) if tries else 0.0
