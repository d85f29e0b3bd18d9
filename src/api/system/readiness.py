"""Whether this process is ready: the checks, and a line in the log for each change.

Query the database in every check: a connection that looks open may be broken.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final

import msgspec
import structlog
from msgspec import Meta, Struct

from api.http.dependencies import Dependencies, DependencyHolder
from ledger.postgres.faults import Fault
from ledger.telemetry.all_processes import all_ready

_log = structlog.get_logger()

LOOK_S: Final = 2.0
"""The pause between two checks of readiness, in seconds."""

_TIMEOUT_S: Final = 2.0
_LAG_MAX: Final = timedelta(seconds=60)
"""Reactions read every log every two seconds. With a lag of this many seconds, no worker runs or it cannot keep up."""
_CLOCK_MAX_S: Final = 5.0


class Checks(Struct, rename="camel"):
    """The results of the checks: all that a request needs to create an order, and the other processes."""

    database: Annotated[bool, Meta(description="Whether the database answers.")]
    writer: Annotated[
        bool,
        Meta(description="Whether the journal can read and write; false at a standby and at a read-only database."),
    ]
    commits: Annotated[
        bool,
        Meta(
            description="Whether the oldest commit in flight is younger than `LEDGER_COMMIT_AGE_MAX_S`. One of an import, or "
            "of as many streams, does not count: it holds up its own merchant alone."
        ),
    ]
    disk: Annotated[bool, Meta(description="Whether the database has room to write.")]
    processor: Annotated[
        bool, Meta(description="Whether calls can be sent to the payment processor; true where none is connected.")
    ]
    order_numbers: Annotated[bool, Meta(description="Whether new orders get their numbers.")]
    clock: Annotated[bool, Meta(description="Whether the machine's clock is at most five seconds from the database's.")]
    reactions: Annotated[bool, Meta(description="Whether the reactions to events are less than a minute behind.")]
    processes: Annotated[
        bool, Meta(description="Whether every process of the service runs; true in a process that runs alone.")
    ]

    @property
    def failed(self) -> list[str]:
        """Returns the names of the checks that are false."""
        return [name for name, passed in msgspec.structs.asdict(self).items() if not passed]


class ReadinessLog:
    """Checks readiness every two seconds and logs each change."""

    def __init__(self, holder: DependencyHolder) -> None:
        self._holder = holder
        self._was_ready = True

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Checks readiness regularly while the block runs."""
        task = asyncio.create_task(self._run(), name="readiness")
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])

    async def look(self) -> None:
        """Checks readiness once.

        Logs that the process became ready, or is not ready any more, with the checks that fail.
        """
        failed = (await check(self._holder.deps)).failed
        if self._was_ready is not bool(failed):
            return
        self._was_ready = not failed
        if failed:
            _log.warning("readiness_lost", failed=failed)
        else:
            _log.warning("readiness_back")

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            await self.look()


async def check(deps: Dependencies | None) -> Checks:
    """Returns the results of all checks. Without dependencies the process starts or ends, and is not ready."""
    checks = Checks(
        database=False,
        writer=False,
        commits=False,
        disk=False,
        processor=False,
        order_numbers=False,
        clock=False,
        reactions=False,
        processes=all_ready(),
    )
    if deps is not None:
        ledger = deps.ledger
        checks.writer = ledger.journal.alive and not ledger.journal.disk.is_read_only
        checks.commits = ledger.journal.held_up_s <= deps.commit_age_max_s
        checks.clock = abs(deps.clock_ahead_s()) <= _CLOCK_MAX_S
        checks.disk = not ledger.journal.disk.refusal
        checks.processor = ledger.processors.alive
        with suppress(Fault, TimeoutError):
            async with asyncio.timeout(_TIMEOUT_S):
                await deps.queries.require_answers()
                lag = datetime.now(UTC) - await deps.queries.reacted_until()
                checks.database = ledger.clock.alive
                checks.reactions = lag < _LAG_MAX
                await ledger.order_numbers.provide()
                checks.order_numbers = True
    return checks
