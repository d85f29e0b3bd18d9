"""Runs the dispatcher whenever a log has grown, and turns due timers into jobs.

A notification only names logs to read first. Every two seconds all logs are read, so that a lost notification delays a
reaction and loses none.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, TypeVar
from uuid import UUID

import psycopg
import structlog
from procrastinate.exceptions import ConnectorException
from psycopg.pq import TransactionStatus

from ledger.background.periodic import pause
from ledger.background.reactions.dispatcher import Dispatcher
from ledger.background.reactions.numbering import EventNumbers, Standing
from ledger.background.scheduler import timers
from ledger.background.scheduler.failed_jobs import resume_given_up
from ledger.background.scheduler.jobs import Jobs, use_jobs_schema
from ledger.journal.commit.notifier import CHANNEL, merchants_in
from ledger.postgres.connection import Connection, connect_unless_one_waits
from ledger.postgres.faults import UNAVAILABLE, Fault
from ledger.postgres.merchant_transactions import MerchantTransactions
from ledger.telemetry.metrics import DUE_TIMES

T = TypeVar("T")

_log = structlog.get_logger()

_LOOK_EVERYWHERE_S: Final = 2.0
_DUE_S: Final = 0.25
_REQUEUE_S: Final = 5.0
_RESUME_S: Final = 60.0
"""How often the worker looks for jobs that were given up an hour ago."""
_AGAIN_S: Final = 1.0

# A sweep costs its statements however little it finds, so a log that grows all the time is left to grow for a while.
# The next sweep of all logs is not delayed by that.
_REST_S: Final = 0.25

_NUMBERING_REST_S: Final = 0.05
_NUMBERING_REST_OF_ROUND: Final = 4
_FAR_S: Final = 0.1
"""For how long slices of long pasts are numbered, at least one, before the other logs that have grown meanwhile."""

# Reactions have seen everything that had been appended by then. Read before the sweep, written after it.
_NOW: Final = "select now()"
_PROGRESS: Final = "update reaction_progress set as_of = greatest(as_of, %s)"

# A cursor and the effects of the events before it are one commit, which is repeated from the log if a crash undoes it.
# So the commit does not wait for the disk, and does not delay the journal's next one; jobs that follow are flushed
# after it.
_ASYNCHRONOUS_COMMIT: Final = "set synchronous_commit = off"


_PARTS: Final[tuple[Callable[[Standing], Sequence[UUID]], ...]] = (
    lambda each: each.near,
    lambda each: each.far,
    lambda each: each.others,
)

OnNumbered = Callable[[Collection[UUID]], None]
"""Is called with merchants whose new events have numbers now, whichever process gave them."""


def _ignore(_: Collection[UUID]) -> None: ...


def rest_of_round(took_s: float) -> float:
    """Returns how long the numbering rests after a round, which costs its statements however little it finds.

    Four times as long as that took, so that on a busy machine fewer rounds have more events each, between 50 ms and
    `_REST_S`.
    """
    return min(max(_NUMBERING_REST_S, _NUMBERING_REST_OF_ROUND * took_s), _REST_S)


async def _found(connection: Connection, look: Callable[[], Awaitable[T]]) -> T | None:
    """Returns what a look finds, None if a node of Citus does not answer: the merchants of the others go on."""
    try:
        return await look()
    except (*UNAVAILABLE, Fault) as fault:
        idle = connection.info.transaction_status == TransactionStatus.IDLE
        if not connection.has_citus or connection.closed or not idle:
            raise
        _log.warning("reactions_wait", of="merchants of a node", reason=type(fault).__name__)
        return None


async def _done(connection: Connection, work: Callable[[], Awaitable[object]]) -> bool:
    """Does work. Returns False if a node of Citus does not answer."""

    async def do() -> bool:
        await work()
        return True

    return bool(await _found(connection, do))


class ReactionRunner:
    """One worker's share of the reactions. `on_numbered` is called after new events have got their numbers."""

    def __init__(
        self,
        url: str,
        dispatcher: Dispatcher,
        jobs: Jobs,
        numbers: EventNumbers | None = None,
        on_numbered: OnNumbered = _ignore,
    ) -> None:
        self._url = url
        self._dispatcher = dispatcher
        self._jobs = jobs
        self._numbers = numbers
        self._on_numbered = on_numbered
        self._grown: set[UUID] = set()
        self._wake = asyncio.Event()
        self._grown_unnumbered: set[UUID] = set()
        self._wake_numbering = asyncio.Event()

    async def run(self, stop: asyncio.Event) -> None:
        """Runs until `stop` is set. What is being written then is finished."""
        tasks = [
            asyncio.create_task(self._run_connected("ledger-dispatcher", self._dispatch, stop)),
            asyncio.create_task(self._run_connected("ledger-due-times", self._enqueue_due, stop)),
            asyncio.create_task(self._run_connected("ledger-stalled-jobs", self._requeue_stalled, stop)),
        ]
        if self._numbers is not None:
            number = partial(self._number, self._numbers)
            tasks.append(asyncio.create_task(self._run_connected("ledger-numbering", number, stop)))
        listening = asyncio.create_task(self._run_connected("ledger-listener", self._listen, stop))
        stopping = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait((*tasks, stopping), return_when=asyncio.FIRST_COMPLETED)
            self._wake.set()
            self._wake_numbering.set()
            await asyncio.gather(*tasks)
        finally:
            for task in (listening, stopping):
                task.cancel()
            await asyncio.gather(listening, stopping, return_exceptions=True)

    async def _run_connected(
        self, name: str, work: Callable[[Connection, asyncio.Event], Awaitable[None]], stop: asyncio.Event
    ) -> None:
        """Runs work on a connection of its own, and again on a new one whenever the database was unreachable."""
        while not stop.is_set():
            try:
                connection = await connect_unless_one_waits(self._url, name)
                async with connection:
                    await use_jobs_schema(connection)
                    await work(connection, stop)
            except (psycopg.Error, ConnectorException, Fault, OSError) as fault:
                _log.warning("reactions_wait", of=name, reason=type(fault).__name__)
                await pause(stop, _AGAIN_S)

    async def _listen(self, connection: Connection, stop: asyncio.Event) -> None:
        await connection.execute(f"listen {CHANNEL}")
        while not stop.is_set():
            async for notification in connection.notifies(timeout=_LOOK_EVERYWHERE_S):
                grown = list(merchants_in(notification.payload))
                self._grown.update(grown)
                self._wake.set()
                if self._numbers is not None:
                    self._grown_unnumbered.update(grown)
                    self._wake_numbering.set()

    async def _dispatch(self, connection: Connection, stop: asyncio.Event) -> None:
        async with MerchantTransactions(self._url, "ledger-dispatcher") as transactions:
            await self._dispatch_until(connection, transactions, stop)

    async def _dispatch_until(
        self, connection: Connection, transactions: MerchantTransactions, stop: asyncio.Event
    ) -> None:
        await connection.execute(_ASYNCHRONOUS_COMMIT)
        everywhere_at = 0.0
        while not stop.is_set():
            self._wake.clear()
            grown, self._grown = self._grown, set()
            if time.monotonic() >= everywhere_at:
                row = await (await connection.execute(_NOW)).fetchone()
                assert row is not None, "a select without from has one row"
                everywhere_at = time.monotonic() + _LOOK_EVERYWHERE_S
                if not await _done(connection, partial(self._dispatch_all, connection, row)):
                    grown.update(await self._dispatcher.behind(connection, transactions))
                    await self._dispatch_grown(connection, sorted(grown))
            elif grown:
                await self._dispatch_grown(connection, sorted(grown))
                await pause(stop, min(_REST_S, everywhere_at - time.monotonic()))
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), max(0.0, everywhere_at - time.monotonic()))

    async def _dispatch_all(self, connection: Connection, now: tuple[Any, ...]) -> None:
        if await self._dispatcher.sweep(connection):
            await connection.execute(_PROGRESS, now)

    async def _dispatch_grown(self, connection: Connection, grown: Sequence[UUID]) -> None:
        """Dispatches new events of these merchants: of each one apart, if a node of Citus does not answer."""
        if grown and not await _done(connection, partial(self._dispatcher.sweep, connection, grown)):
            for merchant_id in grown:
                await _done(connection, partial(self._dispatcher.sweep, connection, [merchant_id]))

    async def _number(self, numbers: EventNumbers, connection: Connection, stop: asyncio.Event) -> None:
        """Numbers public events, on a connection of its own: a long past delays no reaction.

        A log that has grown is looked at again after the rest, until it has not: while events follow each other, none
        waits for a notification. Long pasts take turns, and let every other log be numbered before they go on.
        """
        everywhere_at = 0.0
        growing: Sequence[UUID] = ()
        far = deque[UUID]()  # whose logs have more than a slice without numbers
        while not stop.is_set():
            self._wake_numbering.clear()
            grown, self._grown_unnumbered = self._grown_unnumbered, set()
            began_s = time.monotonic()
            looked_at = grown.union(growing)
            if began_s >= everywhere_at:
                everywhere_at = began_s + _LOOK_EVERYWHERE_S
                looked_at.update(await _found(connection, partial(numbers.behind, connection)) or ())
            growing = ()
            if looked_at := looked_at.difference(far):
                standing = await self._among(numbers, connection, sorted(looked_at))
                if numbered := grown.intersection(standing.others):
                    self._on_numbered(numbered)
                await self._number_all(numbers, connection, standing.near)
                growing = standing.near
                far.extend(standing.far)
            rest_s = rest_of_round(time.monotonic() - began_s)
            if far:
                growing = [*growing, *await self._number_far(numbers, connection, far)]
                rest_s = _NUMBERING_REST_S / max(1, len(far))  # one rest for a slice of each
            if growing or far:
                await pause(stop, rest_s)
            else:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._wake_numbering.wait(), max(0.0, everywhere_at - time.monotonic()))

    async def _among(self, numbers: EventNumbers, connection: Connection, merchants: Sequence[UUID]) -> Standing:
        """Returns how far merchants are. If a node of Citus does not answer, each one is asked for apart, and those of
        that node are left out.
        """
        standing = await _found(connection, partial(numbers.among, connection, merchants))
        if standing is not None:
            return standing
        apart = [await _found(connection, partial(numbers.among, connection, [each])) for each in merchants]
        found = [each for each in apart if each is not None]
        near, far, others = ([one for each in found for one in part(each)] for part in _PARTS)
        return Standing(near, far, others)

    async def _number_far(self, numbers: EventNumbers, connection: Connection, far: deque[UUID]) -> list[UUID]:
        """Numbers slices of these merchants' logs in turn, for `_FAR_S`. Removes and returns those with no more."""
        until_s = time.monotonic() + _FAR_S
        ended: list[UUID] = []
        while far:
            merchant_id = far.popleft()
            goes_on = await self._number_all(numbers, connection, [merchant_id])
            (far if goes_on else ended).append(merchant_id)
            if time.monotonic() >= until_s:
                break
        return ended

    async def _number_all(self, numbers: EventNumbers, connection: Connection, behind: Sequence[UUID]) -> bool:
        """Numbers a slice of each of these merchants' logs. Returns whether one went on behind it."""
        goes_on = False
        for merchant_id in behind:
            goes_on |= await _found(connection, partial(numbers.advance, connection, merchant_id)) or False
            self._on_numbered([merchant_id])  # at once: no merchant waits for the others
        return goes_on

    async def _enqueue_due(self, connection: Connection, stop: asyncio.Event) -> None:
        while not stop.is_set():
            DUE_TIMES.inc(await timers.enqueue_due(connection, self._jobs))
            await pause(stop, _DUE_S)

    async def _requeue_stalled(self, connection: Connection, stop: asyncio.Event) -> None:
        resume_at = 0.0
        while not stop.is_set():
            await self._jobs.requeue_stalled()
            if time.monotonic() >= resume_at:
                resume_at = time.monotonic() + _RESUME_S
                await resume_given_up(connection)
            await pause(stop, _REQUEUE_S)
