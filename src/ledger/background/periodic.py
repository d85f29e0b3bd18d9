"""The one poll loop, which stops between two rounds."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import structlog

from ledger.domain.rejections import ConcurrentUpdate
from ledger.postgres.faults import Fault

_log = structlog.get_logger()


def _log_waiting(reason: str) -> None:
    _log.warning("tidying_waits", reason=reason)


async def run_periodically(
    work: Callable[[], Awaitable[object]],
    stop: asyncio.Event,
    *,
    pause_s: float = 1.0,
    log_waiting: Callable[[str], None] = _log_waiting,
) -> None:
    """Runs `work` and pauses, again and again, until `stop` is set. Work that has begun is finished.

    Work that raises a Fault or ConcurrentUpdate is repeated after the pause; `log_waiting` logs the fault's name.
    """
    while not stop.is_set():
        try:
            await work()
        except (Fault, ConcurrentUpdate) as fault:
            log_waiting(type(fault).__name__)
        await pause(stop, pause_s)


async def pause(stop: asyncio.Event, seconds: float) -> None:
    """Waits for so many seconds, or until `stop` is set."""
    with suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), seconds)
