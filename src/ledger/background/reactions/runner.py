"""The watch over all logs: runs the dispatcher whenever a log has grown, and makes jobs of what has become due.

The rule a stranger would break: a notification only says where it is worth looking. Every two seconds it looks everywhere,
so that a word that was lost delays and loses nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final
from uuid import UUID

import psycopg
import structlog
from procrastinate.exceptions import ConnectorException

from ledger.background.periodic import pause
from ledger.background.reactions.dispatcher import Dispatcher
from ledger.background.scheduler import timers
from ledger.background.scheduler.jobs import Jobs, use_jobs_schema
from ledger.journal.commit.notifier import CHANNEL, merchants_in
from ledger.postgres.connection import Connection, connect
from ledger.postgres.faults import Fault

_log = structlog.get_logger()

_LOOK_EVERYWHERE_S: Final = 2.0
_DUE_S: Final = 0.25
_TAKE_OVER_S: Final = 5.0
_AGAIN_S: Final = 1.0

# A look costs its statements, however little it finds: so a log that grows all the time is given time to grow. But the next
# look everywhere is not put off by it.
_REST_S: Final = 0.25

# Everything that had been appended by then has been reacted to. Read before the look, written after it.
_NOW: Final = "select now()"
_PROGRESS: Final = "update reaction_progress set as_of = greatest(as_of, %s)"

# A cursor and what follows from the events behind it are one commit, made again from the log where a crash takes it back.
# So nobody waits for the disk, the journal's next commit least of all; and what is done about it later is flushed after it.
_NEED_NOT_LAST: Final = "set synchronous_commit = off"


class ReactionRunner:
    """One worker's share of the reactions. `enqueued` counts the due times that it made jobs of."""

    def __init__(self, url: str, dispatcher: Dispatcher, jobs: Jobs) -> None:
        self._url = url
        self._dispatcher = dispatcher
        self._jobs = jobs
        self._grown: set[UUID] = set()
        self._wake = asyncio.Event()
        self.enqueued = 0

    async def run(self, stop: asyncio.Event) -> None:
        """Watch until told to stop; what is being written then is finished."""
        tasks = [
            asyncio.create_task(self._kept_up("ledger-dispatcher", self._dispatch, stop)),
            asyncio.create_task(self._kept_up("ledger-due-times", self._enqueue_due, stop)),
            asyncio.create_task(self._kept_up("ledger-stalled-jobs", self._take_over, stop)),
        ]
        listening = asyncio.create_task(self._kept_up("ledger-listener", self._listen, stop))
        stopping = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait((*tasks, stopping), return_when=asyncio.FIRST_COMPLETED)
            self._wake.set()
            await asyncio.gather(*tasks)
        finally:
            for task in (listening, stopping):
                task.cancel()
            await asyncio.gather(listening, stopping, return_exceptions=True)

    async def _kept_up(
        self, name: str, work: Callable[[Connection, asyncio.Event], Awaitable[None]], stop: asyncio.Event
    ) -> None:
        """Do a piece of work on a connection of its own, again on a new one whenever the database has been away."""
        while not stop.is_set():
            try:
                connection = await connect(self._url, name)
                async with connection:
                    await use_jobs_schema(connection)
                    await work(connection, stop)
            except (psycopg.Error, ConnectorException, Fault, OSError) as fault:
                _log.warning("reactions_wait", of=name, reason=type(fault).__name__)
                await pause(stop, _AGAIN_S)

    async def _listen(self, connection: Connection, stop: asyncio.Event) -> None:
        await connection.execute(f"listen {CHANNEL}")
        while not stop.is_set():
            async for word in connection.notifies(timeout=_LOOK_EVERYWHERE_S):
                self._grown.update(merchants_in(word.payload))
                self._wake.set()

    async def _dispatch(self, connection: Connection, stop: asyncio.Event) -> None:
        await connection.execute(_NEED_NOT_LAST)
        everywhere_at = 0.0
        while not stop.is_set():
            self._wake.clear()
            grown, self._grown = self._grown, set()
            if time.monotonic() >= everywhere_at:
                row = await (await connection.execute(_NOW)).fetchone()
                assert row is not None, "there is always a present"
                everywhere_at = time.monotonic() + _LOOK_EVERYWHERE_S
                if await self._dispatcher.sweep(connection):
                    await connection.execute(_PROGRESS, row)
            elif grown:
                await self._dispatcher.sweep(connection, sorted(grown))
                await pause(stop, min(_REST_S, everywhere_at - time.monotonic()))
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), max(0.0, everywhere_at - time.monotonic()))

    async def _enqueue_due(self, connection: Connection, stop: asyncio.Event) -> None:
        while not stop.is_set():
            self.enqueued += await timers.enqueue_due(connection, self._jobs)
            await pause(stop, _DUE_S)

    async def _take_over(self, _: Connection, stop: asyncio.Event) -> None:
        while not stop.is_set():
            await self._jobs.requeue_stalled()
            await pause(stop, _TAKE_OVER_S)
