"""Moves a sandbox merchant's clock from one due time to the next, as if the time had really passed.

The clock shows a due time while the work that is due then is done. Work that becomes due by it is done before the
clock moves on. The lease keeps other requests from moving the clock meanwhile, and workers from its timers. A move
ends after five thousand due things or twenty seconds, or once no client waits for it: between two due things, each of
which is done whole. What is due by then and was not begun is left to the next move, or to a worker.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Final, Self
from uuid import UUID, uuid4

import psycopg
from msgspec.structs import replace
from procrastinate.exceptions import ConnectorException

from ledger.background.clock import lock as clock_lock
from ledger.background.clock.turns import Turns
from ledger.background.reactions.dispatcher import AnyReaction, Dispatcher
from ledger.background.scheduler import timers
from ledger.background.scheduler.jobs import LOOK_AGAIN_S, TASKS_PER_JOB, Handler, Jobs
from ledger.domain.rejections import InvalidField
from ledger.operations.context.clock import BELIEVED_S, DUE_MAX, WORK_MAX_S, ClockAdvanced, is_always_awaited
from ledger.operations.context.ledger import Ledger
from ledger.operations.message_delivery import MessageDelivery
from ledger.postgres.faults import DatabaseUnavailable

_JOB_CONNECTIONS_MAX: Final = 4
"""How many connections the jobs of all moves of a process have (see `postgres.connection_count`)."""

_LAST: Final = datetime(2200, 1, 1, tzinfo=UTC)
_PASSED_MAX: Final = timedelta(minutes=1)

Target = Callable[[datetime], datetime]
"""Returns where to move the clock, given what it shows now."""


class _Move:
    """A move of one merchant's clock by the holder of a lease on it, and its bounds. `due` counts what became due."""

    def __init__(self, merchant_id: UUID, is_awaited: Callable[[], bool]) -> None:
        self.merchant_id = merchant_id
        self.holder = uuid4()
        self.due = 0
        self._is_awaited = is_awaited
        self._ends_at = time.monotonic() + WORK_MAX_S

    def is_over(self) -> bool:
        """Returns whether no further due thing is to begin."""
        return time.monotonic() >= self._ends_at or not self._is_awaited()

    @property
    def next_max(self) -> int:
        """How many due things may be taken next: at most a job's, so that the move notices its end soon."""
        return min(TASKS_PER_JOB, DUE_MAX - self.due)


class ClockAdvancer:
    """Moves clocks for one process. `reactions` and `handlers` are those of the workers.

    Used as a context, it keeps the connections of its last moves for the next ones; otherwise they are closed once no
    clock is moving.
    """

    def __init__(
        self,
        url: str,
        ledger: Ledger,
        reactions: Sequence[AnyReaction],
        handlers: Mapping[str, Handler],
        delivery: MessageDelivery | None = None,
    ) -> None:
        self._ledger = ledger
        self._reactions = reactions
        self._delivery = delivery
        self._turns = Turns(url)
        self._jobs = Jobs(url, ledger, handlers, connections_max=_JOB_CONNECTIONS_MAX)

    async def __aenter__(self) -> Self:
        self._turns.keeps_connections = True
        return self

    async def __aexit__(self, *_: object) -> None:
        self._turns.keeps_connections = False
        await self._turns.close()

    async def advance(
        self, merchant_id: UUID, field: str, target: Target, is_awaited: Callable[[], bool] = is_always_awaited
    ) -> ClockAdvanced:
        """Moves a merchant's clock (see `operations.clock.ClockControl`)."""
        move = _Move(merchant_id, is_awaited)
        try:
            async with self._turns.move_of(merchant_id), self._leased(move), self._jobs.when_needed():
                until = _checked(field, await self._ledger.clock.refresh(merchant_id), target)
                has_arrived = await self._pass_time(move, until)
        except (psycopg.Error, ConnectorException) as fault:
            raise DatabaseUnavailable(type(fault).__name__) from fault
        now = await self._ledger.clock.refresh(merchant_id)
        return ClockAdvanced(now=now, jobs_run=move.due, until=until, more=not has_arrived)

    async def advance_fully(self, merchant_id: UUID, field: str, target: Target) -> ClockAdvanced:
        """Moves a merchant's clock the whole way, by as many moves as that takes. Raises like `advance`."""
        moved = await self.advance(merchant_id, field, target)
        jobs_run, until = moved.jobs_run, moved.until
        while moved.more:
            moved = await self.advance(merchant_id, field, lambda _: until)
            jobs_run += moved.jobs_run
        return replace(moved, jobs_run=jobs_run)

    async def _pass_time(self, move: _Move, until: datetime) -> bool:
        """Does what becomes due up to `until`. Returns whether the clock shows that time, False if the move has ended
        before.
        """
        dispatcher = Dispatcher(self._ledger.journal, self._jobs, self._reactions)
        while await self._run_jobs(dispatcher, move):
            due_at = await self._next(move, until)
            if due_at is not None and move.due and (move.is_over() or not move.next_max):
                return False  # a move whose client closed its side at once takes what is due next all the same
            async with self._turns.turn() as connection:
                await clock_lock.move(connection, move.merchant_id, move.holder, until if due_at is None else due_at)
            if due_at is None:
                return True
            await self._take_due(move, due_at)
        return False

    async def _run_jobs(self, dispatcher: Dispatcher, move: _Move) -> bool:
        """Runs the merchant's jobs, and those that follow from them.

        Returns whether none is left; False if the move has ended before.
        """
        while await self._catch_up(dispatcher, move):
            if move.is_over():
                return False
            await self._jobs.run_open(move.merchant_id, move.is_over)
            if await self._has_jobs(move):
                await asyncio.sleep(LOOK_AGAIN_S)  # another worker runs them
        return True

    async def _catch_up(self, dispatcher: Dispatcher, move: _Move) -> bool:
        """Shows new events to the reactions. Returns whether the merchant has jobs then."""
        async with self._turns.turn() as connection:
            await dispatcher.catch_up(connection, move.merchant_id)
            return await self._jobs.has_open(connection, move.merchant_id)

    async def _has_jobs(self, move: _Move) -> bool:
        async with self._turns.turn() as connection:
            return await self._jobs.has_open(connection, move.merchant_id)

    async def _next(self, move: _Move, until: datetime) -> datetime | None:
        """Returns the earliest time up to `until` at which a timer or a message of a processor is due."""
        async with self._turns.turn() as connection:
            moments = [await timers.next_of(connection, move.merchant_id, until)]
        if self._delivery is not None:
            moments.append(await self._delivery.next_due_at(move.merchant_id, until))
        return min((moment for moment in moments if moment is not None), default=None)

    async def _take_due(self, move: _Move, due_at: datetime) -> None:
        """Delivers messages that are due, and then turns timers that are due into jobs: money that arrives at the time
        of an expiry is in time.
        """
        if self._delivery is not None:
            limit = move.next_max
            delivered = await self._delivery.deliver_due(move.merchant_id, due_at, limit)
            move.due += delivered
            if delivered == limit:
                return  # there may be more messages
        async with self._turns.turn() as connection, connection.transaction():
            move.due += await timers.enqueue_due_of(connection, self._jobs, move.merchant_id, due_at, move.next_max)

    @asynccontextmanager
    async def _leased(self, move: _Move) -> AsyncIterator[None]:
        """Holds the lease on the clock. Raises ConcurrentUpdate, psycopg.Error."""
        async with self._turns.turn() as connection:
            is_first = await clock_lock.acquire(connection, move.merchant_id, move.holder)
        if is_first is None:
            raise clock_lock.being_moved()
        try:
            if is_first:
                await asyncio.sleep(2 * BELIEVED_S)  # until no process assumes that the clock was never moved
            yield
        finally:
            with suppress(psycopg.Error):  # then the lease expires
                async with self._turns.turn() as connection:
                    await clock_lock.release(connection, [move.merchant_id], move.holder)


def _checked(field: str, now: datetime, target: Target) -> datetime:
    """Returns the time to move to, in UTC. Raises InvalidField if it is before `now` or after 2199.

    A time that passed within the last minute is `now`: a move that is sent again, for the rest of the way, names a time
    that the clock may have passed meanwhile.
    """
    try:
        until = target(now)
    except (OverflowError, ValueError):
        raise InvalidField(field, "must lead to a time before the year 2200") from None
    if until < now - _PASSED_MAX:
        raise InvalidField(field, "is before the clock's current time: the clock only moves forward")
    if until > _LAST:
        raise InvalidField(field, "must lead to a time before the year 2200")
    return max(now, until).astimezone(UTC)
