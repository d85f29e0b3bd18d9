"""Sealed records that this process could not open: counted, and reported by its readiness for a while."""

from __future__ import annotations

import time
from typing import Final

from ledger.telemetry.metrics import RECORDS_UNOPENED

RECENT_S: Final = 300.0

_last = float("-inf")


def note_unopened(holder: str, reason: str) -> None:
    """Counts a record of a `holder` ("customer") that did not open: its key is missing, or it is broken."""
    global _last  # noqa: PLW0603 - one moment for the process, as the metric is one
    _last = time.monotonic()
    RECORDS_UNOPENED.labels(holder, reason).inc()


def is_recent() -> bool:
    """Returns whether a record could not be opened within the last five minutes."""
    return time.monotonic() - _last < RECENT_S
