"""The one poll loop, and how pauses between attempts grow."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import structlog

from ledger.domain.rejections import ConcurrentUpdate
from ledger.postgres.faults import Fault

_log = structlog.get_logger()


async def run_periodically(
    work: Callable[[], Awaitable[object]],
    stop: asyncio.Event,
    *,
    pause_s: float = 1.0,
    waits_event: str = "tidying_waits",
) -> None:
    """Runs `work` and pauses, again and again, until `stop` is set. Work that has begun is finished.

    Work that raises a Fault or ConcurrentUpdate is repeated after the pause; the fault is logged as `waits_event`.
    """
    while not stop.is_set():
        try:
            await work()
        except (Fault, ConcurrentUpdate) as fault:
            _log.warning(waits_event, reason=type(fault).__name__)
        await pause(stop, pause_s)


async def pause(stop: asyncio.Event, seconds: float) -> None:
    """Waits for so many seconds, or until `stop` is set."""
    with suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), seconds)


def back_off_s(tries: int, max_s: float, first_s: float = 1.0) -> float:
    """Returns the pause after an attempt that had so many before it: doubled each time, at most `max_s`."""
    return min(first_s * 2.0 ** min(tries, 20), max_s)
