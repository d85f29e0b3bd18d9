"""Moves a sandbox merchant's clock from one due time to the next, as if the time had really passed.

The clock shows a due time while the work that is due then is done. Work that becomes due by it is done before the clock
moves on. The lease keeps other requests from moving the clock meanwhile, and workers from its timers.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Final, Self
from uuid import UUID

import psycopg
from procrastinate.exceptions import ConnectorException
from psycopg.pq import TransactionStatus

from ledger.background.clock import lock as clock_lock
from ledger.background.reactions.dispatcher import AnyReaction, Dispatcher
from ledger.background.scheduler import timers
from ledger.background.scheduler.jobs import Handler, Jobs, use_jobs_schema
from ledger.domain.rejections import ConcurrentUpdate, InvalidField
from ledger.operations.context.clock import BELIEVED_S, ClockAdvanced
from ledger.operations.context.ledger import Ledger
from ledger.operations.message_delivery import MessageDelivery
from ledger.postgres.connection import Connection, connect
from ledger.postgres.faults import DatabaseUnavailable

_MOVES_AT_ONCE: Final = 2
_JOB_CONNECTIONS_MAX: Final = 2
"""How many clocks a process moves at once, and how many connections each move has for jobs beside its own. Further
moves wait: all connections are counted in advance (see `service.connection_count`).
"""

_LAST: Final = datetime(2200, 1, 1, tzinfo=UTC)

Target = Callable[[datetime], datetime]
"""Returns where to move the clock, given what it shows now."""


class ClockAdvancer:
    """Moves clocks for one process. `reactions` and `handlers` are those of the workers.

    Used as a context, it keeps the connections of its last moves for the next ones; otherwise each move opens its own.
    """

    def __init__(
        self,
        url: str,
        ledger: Ledger,
        reactions: Sequence[AnyReaction],
        handlers: Mapping[str, Handler],
        delivery: MessageDelivery | None = None,
    ) -> None:
        self._url = url
        self._ledger = ledger
        self._reactions = reactions
        self._handlers = handlers
        self._delivery = delivery
        self._keeps = False
        self._idle: list[Connection] = []
        self._permits = asyncio.Semaphore(_MOVES_AT_ONCE)

    async def __aenter__(self) -> Self:
        self._keeps = True
        return self

    async def __aexit__(self, *_: object) -> None:
        self._keeps = False
        while self._idle:
            await self._idle.pop().close()

    async def advance(self, merchant_id: UUID, field: str, target: Target) -> ClockAdvanced:
        """Moves a merchant's clock (see `operations.clock.ClockControl`)."""
        try:
            jobs_of_move = Jobs(self._url, self._ledger, self._handlers, connections_max=_JOB_CONNECTIONS_MAX)
            queue = jobs_of_move.when_needed()
            async with self._permits, self._leased(merchant_id) as connection, queue as jobs:
                now = await self._ledger.clock.refresh(merchant_id)
                until = _checked(field, now, target)
                jobs_run = await self._pass_time(connection, jobs, merchant_id, until)
                await clock_lock.move(connection, merchant_id, until)
        except (psycopg.Error, ConnectorException) as fault:
            raise DatabaseUnavailable(type(fault).__name__) from fault
        return ClockAdvanced(await self._ledger.clock.refresh(merchant_id), jobs_run)

    async def _pass_time(self, connection: Connection, jobs: Jobs, merchant_id: UUID, until: datetime) -> int:
        dispatcher = Dispatcher(self._ledger.journal, jobs, self._reactions)
        jobs_run = 0
        while True:
            await dispatcher.catch_up(connection, merchant_id)
            await jobs.run_all_of(connection, merchant_id)
            await dispatcher.catch_up(connection, merchant_id)
            due_at = await self._next(connection, merchant_id, until)
            if due_at is None:
                return jobs_run
            async with connection.transaction():
                await clock_lock.move(connection, merchant_id, due_at)
                jobs_run += await timers.enqueue_due_of(connection, jobs, merchant_id, due_at)
            if self._delivery is not None:  # before the jobs: money that arrives at the time of an expiry is in time
                jobs_run += await self._delivery.deliver_due(merchant_id, due_at)

    async def _next(self, connection: Connection, merchant_id: UUID, until: datetime) -> datetime | None:
        """Returns the earliest time up to `until` at which a timer or a message of a processor is due."""
        moments = [await timers.next_of(connection, merchant_id, until)]
        if self._delivery is not None:
            moments.append(await self._delivery.next_due_at(merchant_id, until))
        return min((moment for moment in moments if moment is not None), default=None)

    @asynccontextmanager
    async def _leased(self, merchant_id: UUID) -> AsyncIterator[Connection]:
        """Yields a connection while the clock is leased. Raises ConcurrentUpdate, psycopg.Error."""
        connection = await self._connection()
        try:
            is_first = await clock_lock.acquire(connection, merchant_id)
            if is_first is None:
                raise ConcurrentUpdate("The clock is being moved by another request: send the request again later.")
            try:
                if is_first:
                    await asyncio.sleep(2 * BELIEVED_S)  # until no process assumes that the clock was never moved
                yield connection
            finally:
                await clock_lock.release(connection, [merchant_id])
        finally:
            await self._keep(connection)

    async def _connection(self) -> Connection:
        """Returns the connection that was kept, if it still works, or a new one."""
        while self._idle:
            kept = self._idle.pop()
            try:
                await kept.execute("")
            except psycopg.OperationalError:
                await kept.close()
            else:
                return kept
        connection = await connect(self._url, "ledger-clock")
        await use_jobs_schema(connection)
        return connection

    async def _keep(self, connection: Connection) -> None:
        if self._keeps and connection.info.transaction_status is TransactionStatus.IDLE:
            self._idle.append(connection)
        else:
            await connection.close()


def _checked(field: str, now: datetime, target: Target) -> datetime:
    """Returns the time to move to. Raises InvalidField if it is before `now` or after 2199."""
    try:
        until = target(now)
    except (OverflowError, ValueError):
        raise InvalidField(field, "must lead to a time before the year 2200") from None
    if until < now:
        raise InvalidField(field, "is before the clock's current time: the clock only moves forward")
    if until > _LAST:
        raise InvalidField(field, "must lead to a time before the year 2200")
    return until
