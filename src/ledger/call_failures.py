"""The two ways in which a call to an outside system fails: every contract with one derives its exceptions from them."""

from __future__ import annotations


class Unavailable(Exception):
    """The call has no effect: it was never sent."""


class TimedOut(Exception):
    """The outcome is unknown: no answer came in time."""
