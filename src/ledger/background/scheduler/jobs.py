"""Jobs: what is to be done now, once, and again until it is done. A thin layer over procrastinate's queue.

The rule a stranger would break: a job is put into the queue on the connection, and so in the transaction, of whoever decided
that it is due. And it may run twice: a worker that is killed leaves its jobs to others, so what a job does is decided by the
versions of streams, like everything else.

A job carries many things that are due for one merchant, because the queue takes longer over a job than most things take. Of
several, each one that fails becomes a job of its own, and from then on has attempts and pauses of its own.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Self
from uuid import UUID

import psycopg
import structlog
from msgspec import Struct
from procrastinate import App, BaseRetryStrategy, JobContext, PsycopgConnector, RetryDecision, exceptions
from procrastinate.jobs import DeleteJobCondition, Job
from psycopg_pool import AsyncConnectionPool

from ledger.background.periodic import back_off_s, pause
from ledger.background.reactions.reaction import EnqueueJob
from ledger.operations.ledger import Ledger

_log = structlog.get_logger()

Handler = Callable[[Ledger, UUID, UUID, UUID, datetime], Awaitable[None]]
"""Does what was due: the ledger, merchant, stream and payment, and when it was due by the merchant's clock.

It may be called twice. Whatever it raises has it called again later.
"""

_TASK: Final = "ledger.due"
_ATTEMPTS_MAX: Final = 40
"""About five hours: longer than an outage that nobody notices."""
_PAUSE_MAX_S: Final = 600.0
_AT_ONCE: Final = 10
_TOGETHER: Final = 100  # due things in one job
_THINGS_AT_ONCE: Final = 32  # of one process, over all its jobs
_HEARTBEAT_S, _SILENT_S = 2.0, 15.0
"""A worker says this often that it lives; one that has been silent for so long has its jobs taken over."""
_POLL_S: Final = 2.0

# Jobs stand in a schema beside ours (see migration 0007).
_FIND_JOBS: Final = """
select set_config('search_path', current_setting('search_path') || ', ' || quote_ident(current_schema() || '_jobs'), false)
"""

# Jobs of a merchant that run or could run now; those that failed wait for their next attempt, with those behind them.
_OPEN: Final = """
select count(*) from procrastinate_jobs j
 where queue_name = %s and (status = 'doing' or (status = 'todo' and coalesce(scheduled_at, '-infinity') <= now() and not exists (
   select from procrastinate_jobs o where o.queue_name = j.queue_name and o.lock = j.lock and o.status = 'todo' and o.id < j.id)))
"""

# What is left of a job goes into other jobs: it ends with nothing to do, even if its worker does not live to see that.
_EMPTY: Final = "update procrastinate_jobs set args = jsonb_set(args, '{things}', '[]') where id = %s"


async def use_jobs_schema(connection: psycopg.AsyncConnection[Any]) -> None:
    """Let a connection find the queue's tables."""
    await connection.execute(_FIND_JOBS)
    if not connection.autocommit:
        await connection.commit()


def queue_of(merchant_id: UUID) -> str:
    """A queue per merchant, so that one merchant's jobs can be run and waited for alone."""
    return merchant_id.hex  # it becomes part of a channel, whose name is short


class JobRetry(BaseRetryStrategy):
    """Again after a second, two, four …, at most ten minutes, each time somewhat sooner or later than that."""

    def get_retry_decision(self, *, exception: BaseException, job: Job) -> RetryDecision | None:  # noqa: ARG002 - procrastinate's shape
        """When to try again; None once it has been tried often enough."""
        if job.attempts + 1 >= _ATTEMPTS_MAX:
            return None
        return RetryDecision(retry_at=_again_at(job.attempts))


class Jobs:
    """The queue of one process: puts jobs in, and runs them by `handlers` (kind to handler).

    It counts how attempts at due things ended: `done`, `failed` and to be tried again, `given_up`.
    """

    def __init__(self, url: str, ledger: Ledger, handlers: Mapping[str, Handler]) -> None:
        logging.getLogger("procrastinate").setLevel(
            logging.CRITICAL
        )  # it prints arguments and exceptions; we say our own
        self._ledger = ledger
        self._handlers = handlers
        self._places = asyncio.Semaphore(_THINGS_AT_ONCE)
        self._stopping = self._connected = False
        self._connector = PsycopgConnector(
            conninfo=url,
            min_size=1,
            max_size=4,
            configure=use_jobs_schema,
            kwargs={"application_name": "ledger-jobs"},
            pool_factory=_pool,
        )
        self._app = App(connector=self._connector)
        self._app.task(name=_TASK, pass_context=True, retry=JobRetry())(self._do)
        self.done = self.failed = self.given_up = 0

    async def __aenter__(self) -> Self:
        """Connect. Raises procrastinate's ConnectorException where the database is away."""
        await self._connect()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._disconnect()

    @asynccontextmanager
    async def when_needed(self) -> AsyncIterator[Self]:
        """As the context itself, connected only once `run_all_of` finds something to run: connecting costs more than all
        else that a clock's move does when nothing is due.
        """
        try:
            yield self
        finally:
            await self._disconnect()

    async def _connect(self) -> None:
        if not self._connected:
            await self._app.open_async()
            self._connected = True

    async def _disconnect(self) -> None:
        if self._connected:
            self._connected = False
            await self._app.close_async()

    async def enqueue(self, connection: psycopg.AsyncConnection[Any], jobs: Sequence[tuple[UUID, EnqueueJob]]) -> None:
        """Put jobs into their merchants' queues, in this connection's transaction. `see_jobs` was called on it before."""
        things: dict[UUID, list[EnqueueJob]] = {}
        for merchant_id, thing in jobs:
            things.setdefault(merchant_id, []).append(thing)
        await self._defer(
            connection,
            [
                _job(merchant_id, some[n : n + _TOGETHER])
                for merchant_id, some in things.items()
                for n in range(0, len(some), _TOGETHER)
            ],
        )

    async def _defer(self, connection: psycopg.AsyncConnection[Any], jobs: Sequence[Job]) -> None:
        if jobs:
            await self._app.job_manager.batch_defer_jobs_async(list(jobs), connection=connection)

    async def run(self, stop: asyncio.Event) -> None:
        """Run whatever is in any queue until told to stop; a thing that was begun is finished, and the rest put back."""
        while not stop.is_set():
            worker = asyncio.create_task(self._work())
            stopping = asyncio.create_task(stop.wait())
            await asyncio.wait((worker, stopping), return_when=asyncio.FIRST_COMPLETED)
            self._stopping = stop.is_set()
            stopping.cancel()
            worker.cancel()
            (ending,) = await asyncio.gather(worker, return_exceptions=True)
            if not stop.is_set():
                _log.warning("jobs_wait", reason=type(ending).__name__)
                await pause(stop, _POLL_S)

    async def requeue_stalled(self) -> None:
        """Put back into the queue what workers had begun that are no more. Raises procrastinate's ConnectorException."""
        for job in await self._app.job_manager.get_stalled_jobs(seconds_since_heartbeat=_SILENT_S):
            with suppress(exceptions.ConnectorException):  # somebody else was quicker, or it came to its end after all
                await self._app.job_manager.retry_job(job)
                _log.warning("job_taken_over", job=job.id)

    async def run_all_of(self, connection: psycopg.AsyncConnection[Any], merchant_id: UUID) -> None:
        """Run what is in a merchant's queue, here or wherever it has been begun, and return when nothing is left of it.

        A job that fails is not waited for: it has run, and will again.
        """
        queue = queue_of(merchant_id)
        while await self._is_open(connection, queue):
            await self._connect()
            await self._app.run_worker_async(
                queues=[queue], wait=False, listen_notify=False, concurrency=1, install_signal_handlers=False,
                delete_jobs=DeleteJobCondition.SUCCESSFUL, stalled_worker_timeout=_SILENT_S,
                update_heartbeat_interval=_HEARTBEAT_S,
            )  # fmt: skip
            if not await self._is_open(connection, queue):
                return
            await asyncio.sleep(0.02)

    async def _is_open(self, connection: psycopg.AsyncConnection[Any], queue: str) -> bool:
        return await (await connection.execute(_OPEN, [queue])).fetchone() != (0,)

    async def _work(self) -> None:
        await self._app.run_worker_async(
            concurrency=_AT_ONCE, install_signal_handlers=False, fetch_job_polling_interval=_POLL_S,
            delete_jobs=DeleteJobCondition.SUCCESSFUL, stalled_worker_timeout=_SILENT_S,
            update_heartbeat_interval=_HEARTBEAT_S,
        )  # fmt: skip

    async def _do(self, context: JobContext, *, merchant_id: str, things: list[list[str]]) -> None:
        due = [_thing(row) for row in things]
        await self._ledger.clock.refresh(UUID(merchant_id))
        if len(due) == 1:
            await self._do_one(UUID(merchant_id), due[0], context.job.attempts)
            return
        streams: dict[UUID, list[EnqueueJob]] = {}
        for thing in due:
            streams.setdefault(thing.stream_id, []).append(thing)
        undone = await asyncio.gather(*[self._do_in_order(UUID(merchant_id), some) for some in streams.values()])
        await self._put_back(context.job, UUID(merchant_id), undone)

    async def _do_in_order(self, merchant_id: UUID, things: Sequence[EnqueueJob]) -> _Undone:
        """Do what is due about one stream; what comes behind something that fails has to wait for it."""
        for n, thing in enumerate(things):
            async with self._places:
                if self._stopping:
                    return _Undone(begun=False, things=things[n:])
                try:
                    await self._do_one(merchant_id, thing, 0)
                except Exception:  # noqa: BLE001 - it was logged, and is tried again
                    return _Undone(begun=True, things=things[n:])
        return _Undone(begun=False, things=())

    async def _do_one(self, merchant_id: UUID, thing: EnqueueJob, attempts: int) -> None:
        try:
            await self._handlers[thing.kind](self._ledger, merchant_id, thing.stream_id, thing.payment_id, thing.due_at)
        except Exception as failure:
            told = {"kind": thing.kind, "merchant_id": str(merchant_id), "stream_id": str(thing.stream_id)}
            told |= {"reason": type(failure).__name__}
            if attempts + 1 >= _ATTEMPTS_MAX:
                self.given_up += 1
                _log.error("job_given_up", attempts=attempts + 1, **told)
            else:
                self.failed += 1
                _log.warning("job_failed", attempts=attempts + 1, **told)
            raise
        self.done += 1

    async def _put_back(self, job: Job, merchant_id: UUID, undone: Sequence[_Undone]) -> None:
        """In one transaction: what failed into jobs of their own, for later, and what was not begun into one for now."""
        failed = [_job(merchant_id, [thing], _again_at(0)) for some in undone if some.begun for thing in some.things]
        rest = [thing for some in undone if not some.begun for thing in some.things]
        if rest:
            failed.append(_job(merchant_id, rest))
        if failed:
            async with self._connector.pool.connection() as connection, connection.transaction():
                await self._defer(connection, failed)
                await connection.execute(_EMPTY, (job.id,))


class _Undone(Struct, frozen=True):
    """What of a stream's due things is still to be done, and whether the first of them was tried."""

    begun: bool
    things: Sequence[EnqueueJob]


def _pool(**options: Any) -> AsyncConnectionPool[Any]:
    """A pool that does not ask a connection whether it lives before each use: half of a job's time went there."""
    return AsyncConnectionPool(**options | {"check": None})


def _again_at(attempts: int) -> datetime:
    return datetime.now(UTC) + timedelta(seconds=back_off_s(attempts, _PAUSE_MAX_S) * random.uniform(0.5, 1.5))


def _job(merchant_id: UUID, things: Sequence[EnqueueJob], at: datetime | None = None) -> Job:
    """Jobs of one thing each about one stream never run at the same time, and run in the order in which they became due."""
    return Job(
        queue=queue_of(merchant_id),
        lock=str(things[0].stream_id) if len(things) == 1 else None,
        queueing_lock=None,
        task_name=_TASK,
        task_kwargs={
            "merchant_id": str(merchant_id),
            "things": [
                [thing.kind, str(thing.stream_id), str(thing.payment_id), thing.due_at.isoformat()] for thing in things
            ],
        },
        scheduled_at=at,
    )


def _thing(row: Sequence[str]) -> EnqueueJob:
    kind, stream_id, payment_id, due_at = row
    return EnqueueJob(kind, UUID(stream_id), UUID(payment_id), datetime.fromisoformat(due_at))
