"""Jobs: what is to be done now, once, and again until it is done. A thin layer over procrastinate's queue.

The rule a stranger would break: a job is put into the queue on the connection, and so in the transaction, of whoever decided
that it is due. And it may run twice: a worker that is killed leaves its jobs to others, so what a job does is decided by the
versions of streams, like everything else.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Self
from uuid import UUID

import psycopg
import structlog
from procrastinate import App, BaseRetryStrategy, JobContext, PsycopgConnector, RetryDecision, exceptions
from procrastinate.jobs import DeleteJobCondition, Job
from psycopg_pool import AsyncConnectionPool

from ledger.operations.ledger import Ledger
from ledger.reactions.reaction import DoNow

_log = structlog.get_logger()

Handler = Callable[[Ledger, UUID, UUID, UUID, datetime], Awaitable[None]]
"""Does what was due: the ledger, merchant, stream and payment, and when it was due by the merchant's clock.

It may be called twice. Whatever it raises has it called again later.
"""

_TASK: Final = "ledger.due"
_ATTEMPTS_MAX: Final = 40
"""About five hours: longer than an outage that nobody notices."""
_PAUSE_FIRST_S, _PAUSE_MAX_S = 1.0, 600.0
_AT_ONCE: Final = 10
_HEARTBEAT_S, _SILENT_S = 2.0, 15.0
"""A worker says this often that it lives; one that has been silent for so long has its jobs taken over."""
_POLL_S: Final = 2.0

# Jobs stand in a schema beside ours (see migration 0007).
_FIND_JOBS: Final = """
select set_config('search_path', current_setting('search_path') || ', ' || quote_ident(current_schema() || '_jobs'), false)
"""

# Jobs of a merchant that run or could run now; those that failed wait for their next attempt.
_OPEN: Final = """
select count(*) from procrastinate_jobs
 where queue_name = %s and (status = 'doing' or (status = 'todo' and coalesce(scheduled_at, '-infinity') <= now()))
"""


async def see_jobs(connection: psycopg.AsyncConnection[Any]) -> None:
    """Let a connection find the queue's tables."""
    await connection.execute(_FIND_JOBS)
    if not connection.autocommit:
        await connection.commit()


def queue_of(merchant_id: UUID) -> str:
    """A queue per merchant, so that one merchant's jobs can be run and waited for alone."""
    return merchant_id.hex  # it becomes part of a channel, whose name is short


class Patiently(BaseRetryStrategy):
    """Again after a second, two, four …, at most ten minutes, each time somewhat sooner or later than that."""

    def get_retry_decision(self, *, exception: BaseException, job: Job) -> RetryDecision | None:  # noqa: ARG002 - procrastinate's shape
        """When to try again; None once it has been tried often enough."""
        if job.attempts + 1 >= _ATTEMPTS_MAX:
            return None
        pause = min(_PAUSE_FIRST_S * 2.0 ** min(job.attempts, 20), _PAUSE_MAX_S)
        again_at = datetime.now(UTC) + timedelta(seconds=pause * random.uniform(0.5, 1.5))
        return RetryDecision(retry_at=again_at)


class Jobs:
    """The queue of one process: puts jobs in, and runs them by `handlers` (kind to handler).

    It counts how attempts ended: `done`, `failed` and to be tried again, `given_up`.
    """

    def __init__(self, url: str, ledger: Ledger, handlers: Mapping[str, Handler]) -> None:
        logging.getLogger("procrastinate").setLevel(
            logging.CRITICAL
        )  # it prints arguments and exceptions; we say our own
        self._ledger = ledger
        self._handlers = handlers
        connector = PsycopgConnector(
            conninfo=url,
            min_size=1,
            max_size=4,
            configure=see_jobs,
            kwargs={"application_name": "ledger-jobs"},
            pool_factory=_pool,
        )
        self._app = App(connector=connector)
        self._app.task(name=_TASK, pass_context=True, retry=Patiently())(self._do)
        self.done = self.failed = self.given_up = 0

    async def __aenter__(self) -> Self:
        """Connect. Raises procrastinate's ConnectorException where the database is away."""
        await self._app.open_async()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._app.close_async()

    async def enqueue(self, connection: psycopg.AsyncConnection[Any], jobs: Sequence[tuple[UUID, DoNow]]) -> None:
        """Put jobs into their merchants' queues, in this connection's transaction. `see_jobs` was called on it before."""
        if jobs:
            waiting = [_job(merchant_id, job) for merchant_id, job in jobs]
            await self._app.job_manager.batch_defer_jobs_async(waiting, connection=connection)

    async def run(self, stop: asyncio.Event) -> None:
        """Run whatever is in any queue until told to stop; a job that has begun is finished."""
        while not stop.is_set():
            worker = asyncio.create_task(self._work())
            stopping = asyncio.create_task(stop.wait())
            await asyncio.wait((worker, stopping), return_when=asyncio.FIRST_COMPLETED)
            stopping.cancel()
            worker.cancel()
            (ending,) = await asyncio.gather(worker, return_exceptions=True)
            if not stop.is_set():
                _log.warning("jobs_wait", reason=type(ending).__name__)
                with suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), _POLL_S)

    async def take_over(self) -> None:
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
        while True:
            await self._app.run_worker_async(
                queues=[queue], wait=False, listen_notify=False, concurrency=1, install_signal_handlers=False,
                delete_jobs=DeleteJobCondition.SUCCESSFUL, stalled_worker_timeout=_SILENT_S,
                update_heartbeat_interval=_HEARTBEAT_S,
            )  # fmt: skip
            row = await (await connection.execute(_OPEN, [queue])).fetchone()
            if row == (0,):
                return
            await asyncio.sleep(0.02)

    async def _work(self) -> None:
        await self._app.run_worker_async(
            concurrency=_AT_ONCE, install_signal_handlers=False, fetch_job_polling_interval=_POLL_S,
            delete_jobs=DeleteJobCondition.SUCCESSFUL, stalled_worker_timeout=_SILENT_S,
            update_heartbeat_interval=_HEARTBEAT_S,
        )  # fmt: skip

    async def _do(
        self, context: JobContext, *, merchant_id: str, kind: str, stream_id: str, payment_id: str, due_at: str
    ) -> None:
        try:
            await self._ledger.clock.look(UUID(merchant_id))
            await self._handlers[kind](
                self._ledger, UUID(merchant_id), UUID(stream_id), UUID(payment_id), datetime.fromisoformat(due_at)
            )
        except Exception as failure:
            told = {"kind": kind, "merchant_id": merchant_id, "stream_id": stream_id, "reason": type(failure).__name__}
            if context.job.attempts + 1 >= _ATTEMPTS_MAX:
                self.given_up += 1
                _log.error("job_given_up", attempts=context.job.attempts + 1, **told)
            else:
                self.failed += 1
                _log.warning("job_failed", attempts=context.job.attempts + 1, **told)
            raise
        self.done += 1


def _pool(**options: Any) -> AsyncConnectionPool[Any]:
    """A pool that does not ask a connection whether it lives before each use: half of a job's time went there."""
    return AsyncConnectionPool(**options | {"check": None})


def _job(merchant_id: UUID, job: DoNow) -> Job:
    """Two jobs about one stream never run at the same time, and run in the order in which they became due."""
    return Job(
        queue=queue_of(merchant_id),
        lock=str(job.stream_id),
        queueing_lock=None,
        task_name=_TASK,
        task_kwargs={
            "merchant_id": str(merchant_id),
            "kind": job.kind,
            "stream_id": str(job.stream_id),
            "payment_id": str(job.payment_id),
            "due_at": job.due_at.isoformat(),
        },
    )
