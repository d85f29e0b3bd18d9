"""The tidying: keeps read models that appends leave in small pieces in a form that is quick to read.

The rule a stranger would break: nobody waits for it. A read model is right before it was tidied; a tidying that fails is
tried again, and one that never runs costs time and nothing else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from ledger.postgres.faults import Fault

_log = structlog.get_logger()

Tidy = Callable[[], Awaitable[int]]
"""Does what is due now, and says how much that was."""


async def run_periodically(tidy: Tidy, stop: asyncio.Event, *, pause_s: float = 1.0) -> None:
    """Tidy up every second until told to stop."""
    while not stop.is_set():
        try:
            await tidy()
        except Fault as fault:
            _log.warning("tidying_waits", reason=type(fault).__name__)
        try:
            await asyncio.wait_for(stop.wait(), pause_s)
        except TimeoutError:
            continue
