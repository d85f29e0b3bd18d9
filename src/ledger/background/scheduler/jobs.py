"""Jobs: work that is due now and is retried until it succeeds. A thin layer over procrastinate's queue.

Enqueue a job on the connection, and so in the transaction, that decides that it is due. A job may run twice, because
other workers take over the jobs of a worker that is killed: the versions of streams decide what it does, as for
everything else.

A job holds many tasks of one merchant, because the queue needs longer for a job than most tasks need. Each task of
several that fails becomes a job of its own, and from then on has attempts and pauses of its own. The merchants share
what runs at once (see `fair_queue` and `background.fair_slots`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from typing import Any, Final, Self
from uuid import UUID
from weakref import WeakValueDictionary

import psycopg
import structlog
from msgspec import Struct
from procrastinate import App, JobContext, PsycopgConnector, exceptions
from procrastinate.jobs import DeleteJobCondition, Job
from procrastinate.worker import Worker
from psycopg_pool import AsyncConnectionPool

from ledger.background.effects import EnqueueJob
from ledger.background.fair_slots import FairSlots
from ledger.background.pace import Pace
from ledger.background.periodic import pause
from ledger.background.scheduler.fair_queue import SESSION, FairQueue
from ledger.background.scheduler.lanes import MAIL_KINDS, MAILS_AT_ONCE, lane_of, queues_of
from ledger.background.scheduler.retry_policy import ATTEMPTS_MAX, JobRetry, next_attempt_at
from ledger.background.scheduler.stored_jobs import TASK, job_of, task_of
from ledger.operations.context.ledger import Ledger
from ledger.postgres.connection import Connection, apply_settings, require_none_waits
from ledger.telemetry.metrics import JOBS

_log = structlog.get_logger()

Handler = Callable[[Ledger, UUID, UUID, UUID, datetime], Awaitable[None]]
"""Does due work. Takes the ledger, merchant, stream, payment, and the time at which it was due by the merchant's clock.

It may be called twice. When it raises, it is called again later.
"""

_CONNECTIONS: Final = "ledger-jobs"
"""Their name in the database's activity view."""

TASKS_PER_JOB: Final = 100
LOOK_AGAIN_S: Final = 0.02
"""After what time it is looked again whether another worker has ended a merchant's jobs."""
_AT_ONCE, _POLL_S = 32, 2.0
_HEARTBEAT_S, _STALLED_S = 2.0, 15.0
"""How often a worker updates its heartbeat, and after how long without one other workers take over its jobs."""
_WORKER_OPTIONS: Final[dict[str, Any]] = {
    "install_signal_handlers": False,
    "delete_jobs": DeleteJobCondition.SUCCESSFUL,
    "stalled_worker_timeout": _STALLED_S,
    "update_heartbeat_interval": _HEARTBEAT_S,
}

_DONE, _FAILED, _GIVEN_UP = (JOBS.labels(outcome) for outcome in ("done", "failed", "given-up"))

# The queue has a schema of its own (see migration 0007).
_FIND_JOBS: Final = """
select set_config('search_path', current_setting('search_path') || ', ' || quote_ident(current_schema() || '_jobs'), false)
"""

# Jobs of a merchant that run or could run now: not those that wait for an attempt, nor later ones of their lock.
_OPEN: Final = """
select count(*) from procrastinate_jobs j
 where queue_name = any(%s) and (status = 'doing' or (status = 'todo' and coalesce(scheduled_at, '-infinity') <= now() and not exists (
   select from procrastinate_jobs o where o.queue_name = j.queue_name and o.lock = j.lock and o.status = 'todo' and o.id < j.id)))
"""

# The rest of a job goes into other jobs: it ends without tasks, even if its worker is killed before its end.
_EMPTY: Final = "update procrastinate_jobs set args = jsonb_set(args, '{things}', '[]') where id = %s"


async def use_jobs_schema(connection: psycopg.AsyncConnection[Any]) -> None:
    """Adds the queue's schema to the search path of a connection."""
    await connection.execute(_FIND_JOBS)
    if not connection.autocommit:
        await connection.commit()


async def _configure(connection: psycopg.AsyncConnection[Any]) -> None:
    """Gives a connection of the queue its settings."""
    await apply_settings(connection, SESSION)
    await require_none_waits(connection, _CONNECTIONS)
    await use_jobs_schema(connection)


class Jobs:
    """One process's access to the queue: enqueues jobs, and runs them by `handlers` (kind to handler).

    It has at most `connections_max` connections, and `run` one more that listens. Tasks of jobs begin at `pace`.
    """

    def __init__(
        self,
        url: str,
        ledger: Ledger,
        handlers: Mapping[str, Handler],
        *,
        pace: Pace | None = None,
        connections_max: int = 4,
    ) -> None:
        # procrastinate logs arguments and exceptions, which may hold personal data; failures are logged here.
        logging.getLogger("procrastinate").setLevel(logging.CRITICAL)
        self._ledger, self._handlers = ledger, handlers
        self._slots, self._mail_slots = FairSlots[None](), FairSlots[None](MAILS_AT_ONCE, MAILS_AT_ONCE // 2)
        self._streams = WeakValueDictionary[tuple[UUID, bool], asyncio.Lock]()  # those with a task that runs or waits
        self._pace = pace
        self._stopping = self._connected = False
        self._connecting, self._users = asyncio.Lock(), 0
        self._is_over: dict[
            str, Callable[[], bool]
        ] = {}  # whether the run of a queue's jobs is to begin no further task
        self._connector = PsycopgConnector(
            conninfo=url,
            min_size=1,
            max_size=connections_max,
            configure=_configure,
            kwargs={"application_name": _CONNECTIONS},
            pool_factory=_pool,
        )
        self._app = App(connector=self._connector)
        self._queue = self._app.job_manager = FairQueue(self._connector, self._must_end)
        self._app.task(name=TASK, pass_context=True, retry=JobRetry())(self._run_job)

    async def __aenter__(self) -> Self:
        """Connects. Raises procrastinate's ConnectorException if the database is unreachable."""
        await self._connect()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._disconnect()

    @asynccontextmanager
    async def when_needed(self) -> AsyncIterator[Self]:
        """Works as the context itself, but connects only once a job is run. Several may use it at once.

        Connecting costs more than everything else that moving a clock does when nothing is due.
        """
        self._users += 1
        try:
            yield self
        finally:
            self._users -= 1
            await self._disconnect()

    async def _connect(self) -> None:
        async with self._connecting:
            if not self._connected:
                await self._app.open_async()
                self._connected = True

    async def _disconnect(self) -> None:
        """Closes the connections if they have no user, which may have come while another one waited here."""
        async with self._connecting:
            if self._connected and not self._users:
                self._connected = False
                await self._app.close_async()

    async def enqueue(self, connection: psycopg.AsyncConnection[Any], jobs: Sequence[tuple[UUID, EnqueueJob]]) -> None:
        """Enqueues work for its merchants, in this connection's transaction. The connection uses the jobs' schema."""
        tasks: dict[tuple[UUID, str], list[EnqueueJob]] = {}
        for merchant_id, task in jobs:
            tasks.setdefault((merchant_id, lane_of(task.kind)), []).append(task)
        await self._defer(
            connection,
            [
                job_of(merchant_id, some[n : n + TASKS_PER_JOB])
                for (merchant_id, _), some in tasks.items()
                for n in range(0, len(some), TASKS_PER_JOB)
            ],
        )

    async def _defer(self, connection: psycopg.AsyncConnection[Any], jobs: Sequence[Job]) -> None:
        if jobs:
            await self._app.job_manager.batch_defer_jobs_async(list(jobs), connection=connection)

    async def run(self, stop: asyncio.Event) -> None:
        """Runs the jobs of all queues until `stop` is set.

        A task that has begun is finished; the others are put back.
        """
        while not stop.is_set():
            worker = Worker(self._app, concurrency=_AT_ONCE, fetch_job_polling_interval=_POLL_S, **_WORKER_OPTIONS)
            working: asyncio.Task[None] = asyncio.create_task(worker.run())  # type: ignore[no-untyped-call]
            stopping = asyncio.create_task(stop.wait())
            await asyncio.wait((working, stopping), return_when=asyncio.FIRST_COMPLETED)
            self._stopping = stop.is_set()
            stopping.cancel()
            # Both: a worker drops a stop from before its first step, and before Python 3.12 asyncio.wait_for loses a
            # cancellation that comes together with the connection that the worker waits for.
            worker.stop()  # type: ignore[no-untyped-call]
            working.cancel()
            (ending,) = await asyncio.gather(working, return_exceptions=True)
            if not stop.is_set():
                _log.warning("jobs_wait", reason=type(ending).__name__)
                await pause(stop, _POLL_S)

    async def requeue_stalled(self) -> None:
        """Puts back jobs of workers that have ended, and those that this one lost. Raises ConnectorException."""
        lost = await self._queue.lost_jobs()
        for job in [*lost, *await self._queue.get_stalled_jobs(seconds_since_heartbeat=_STALLED_S)]:
            with suppress(exceptions.ConnectorException):  # another worker was faster, or it has ended after all
                await self._queue.requeue(job)
                _log.warning("job_taken_over", job=job.id)

    async def run_all_of(self, connection: psycopg.AsyncConnection[Any], merchant_id: UUID) -> None:
        """Runs the jobs of a merchant's queues and returns when none is left, those that another worker runs included.

        Does not wait for the next attempt of a job that fails.
        """
        while await self.has_open(connection, merchant_id):
            await self.run_open(merchant_id)
            if not await self.has_open(connection, merchant_id):
                return
            await asyncio.sleep(LOOK_AGAIN_S)

    async def has_open(self, connection: psycopg.AsyncConnection[Any], merchant_id: UUID) -> bool:
        """Returns whether a merchant has jobs that run or could run now, here or in another worker."""
        return await (await connection.execute(_OPEN, [queues_of(merchant_id)])).fetchone() != (0,)

    async def run_open(self, merchant_id: UUID, is_over: Callable[[], bool] = lambda: False) -> None:
        """Runs the jobs of a merchant's queues that could run now.

        Once `is_over` returns True, no task begins: those that have begun are finished, and the others are put back.
        """
        queues = queues_of(merchant_id)
        await self._connect()
        self._is_over |= dict.fromkeys(queues, is_over)
        try:
            await self._app.run_worker_async(
                queues=queues, wait=False, listen_notify=False, concurrency=1, **_WORKER_OPTIONS
            )
        finally:
            for queue in queues:
                self._is_over.pop(queue, None)

    def _must_end(self, queue: str) -> bool:
        """Returns whether no further task of this queue is to begin in this process."""
        is_over = self._is_over.get(queue)
        return self._stopping or (is_over is not None and is_over())

    async def _run_job(self, context: JobContext, *, merchant_id: str, things: list[list[str]]) -> None:
        with self._queue.running(context.job):
            await self._ledger.clock.refresh(UUID(merchant_id))
            await self._run_tasks(context.job, UUID(merchant_id), [task_of(row) for row in things])

    async def _run_tasks(self, job: Job, merchant_id: UUID, tasks: Sequence[EnqueueJob]) -> None:
        streams: dict[UUID, list[EnqueueJob]] = {}
        for task in tasks:
            streams.setdefault(task.stream_id, []).append(task)
        attempts = job.attempts if len(tasks) == 1 else 0
        undone = await asyncio.gather(
            *[self._run_in_order(merchant_id, some, attempts, job.queue) for some in streams.values()]
        )
        if len(tasks) == 1 and undone[0].failure is not None:
            raise undone[0].failure  # the job has one task, and keeps its attempts
        await self._put_back(job, merchant_id, undone)

    async def _run_in_order(self, merchant_id: UUID, tasks: Sequence[EnqueueJob], attempts: int, queue: str) -> _Undone:
        """Runs the tasks of one stream until one fails; returns that one and those after it.

        A task of the same stream in another job is waited for: a timer that was set again while its first job was
        pending is then found done.
        """
        is_mail = tasks[0].kind in MAIL_KINDS
        slots = self._mail_slots if is_mail else self._slots
        stream = self._streams.setdefault((tasks[0].stream_id, is_mail), asyncio.Lock())
        for n, task in enumerate(tasks):
            if self._pace is not None:
                await self._pace.turn(task.kind)
            async with stream, slots.slot(merchant_id):
                if self._must_end(queue):
                    return _Undone(tasks=tasks[n:])
                try:
                    await self._run_task(merchant_id, task, attempts)
                except Exception as failure:  # noqa: BLE001 - it was logged, and is tried again
                    return _Undone(tasks=tasks[n:], failure=failure)
        return _Undone(tasks=())

    async def _run_task(self, merchant_id: UUID, task: EnqueueJob, attempts: int) -> None:
        try:
            await self._ledger.clock.reach(merchant_id, task.due_at)  # its timer is gone: it must not be found early
            await self._handlers[task.kind](self._ledger, merchant_id, task.stream_id, task.payment_id, task.due_at)
        except Exception as failure:
            about = {"kind": task.kind, "merchant_id": str(merchant_id), "stream_id": str(task.stream_id)}
            about |= {"reason": type(failure).__name__}
            if attempts + 1 >= ATTEMPTS_MAX:
                _GIVEN_UP.inc()
                _log.error("job_given_up", attempts=attempts + 1, **about)
            else:
                _FAILED.inc()
                _log.warning("job_failed", attempts=attempts + 1, **about)
            raise
        _DONE.inc()

    async def _put_back(self, job: Job, merchant_id: UUID, undone: Sequence[_Undone]) -> None:
        """Enqueues in one transaction the failed tasks, each as a job for later, and the tasks that have not begun, as
        one job.
        """
        failed = [
            job_of(merchant_id, [task], next_attempt_at(0)) for some in undone if some.failure for task in some.tasks
        ]
        if rest := [task for some in undone if not some.failure for task in some.tasks]:
            failed.append(job_of(merchant_id, rest))
        if failed:
            async with self._connector.pool.connection() as connection, connection.transaction():
                await self._defer(connection, failed)
                await connection.execute(_EMPTY, (job.id,))


class _Undone(Struct, frozen=True):
    """The tasks of a stream that are not done, and the failure of the first of them, None if it has not begun."""

    tasks: Sequence[EnqueueJob]
    failure: Exception | None = None


def _pool(**options: Any) -> AsyncConnectionPool[Any]:
    """Returns a pool that does not check a connection before each use: the check took half of a job's time.

    Its connections wait for the synchronous standby as all others, also at a stop.
    """
    return AsyncConnectionPool(**options | {"check": None, "connection_class": Connection})
