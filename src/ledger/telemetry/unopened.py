"""Sealed records that a process of the service could not open: counted, and reported by its readiness for a while.

All processes of a service report them, as that which answers a load balancer is seldom the one that met the record: an
empty file in their shared directory has the time of the last one.
"""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from ledger.telemetry.metrics import RECORDS_UNOPENED, SHARED_DIRECTORY

RECENT_S: Final = 300.0
_NAME: Final = "unopened"

_last = float("-inf")


def note_unopened(holder: str, reason: str, directory: str | None = SHARED_DIRECTORY) -> None:
    """Counts a record of a `holder` ("customer") that did not open: its key is missing, or it is broken."""
    global _last  # noqa: PLW0603 - one moment for the process, as the metric is one
    _last = time.monotonic()
    RECORDS_UNOPENED.labels(holder, reason).inc()
    if directory is not None:
        with suppress(OSError):  # this process reports it all the same
            Path(directory, _NAME).touch()


def is_recent(directory: str | None = SHARED_DIRECTORY) -> bool:
    """Returns whether a process of the service could not open a record within the last five minutes."""
    if time.monotonic() - _last < RECENT_S:
        return True
    if directory is None:
        return False
    try:
        noted_at = Path(directory, _NAME).stat().st_mtime
    except OSError:
        return False
    return abs(time.time() - noted_at) < RECENT_S
