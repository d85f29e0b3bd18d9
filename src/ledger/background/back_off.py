"""The exponential back-off of everything that the background tries again."""

from __future__ import annotations


def back_off_s(tries: int, max_s: float, first_s: float = 1.0) -> float:
    """Returns the pause after an attempt that had so many before it: doubled each time, at most `max_s`."""
    return min(first_s * 2.0 ** min(tries, 20), max_s)
