"""Which job is next: procrastinate's queue, with the merchants' jobs taken in turn.

procrastinate takes the oldest job of all queues, and reads past every job that waits for its next attempt. Here each
merchant's queue has its turn, and a merchant has at most four jobs at once in a process: each job holds up to a hundred
tasks. All messages together have eight, and all renewals sixteen (see `lanes`), so that a mail server without an answer
and renewals that wait for their pace leave the rest to other work.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

import structlog
from procrastinate.connector import BaseConnector
from procrastinate.exceptions import ConnectorException
from procrastinate.jobs import Job, Status
from procrastinate.manager import JobManager

from ledger.background.scheduler.lanes import full_lanes
from ledger.postgres.skip_scan import skip_scan

_log = structlog.get_logger()

_OF_A_MERCHANT: Final = 4
_LOOK_AGAIN_S: Final = 0.25
_STOP_PATIENCE_S: Final = 3.0
_HEARTBEAT_AGAIN_S: Final = (0.0, 0.5, 1.0, 2.0, 2.0)  # in all less than the time after which a worker counts as ended

SESSION: Final = dict.fromkeys(
    ("enable_sort", "enable_incremental_sort", "enable_seqscan", "enable_bitmapscan", "jit"), "off"
) | {
    "synchronous_commit": "on",  # the server's own may be weaker, also from a reload or a promotion on
    "client_min_messages": "warning",  # the one about a commit without its standby has to arrive
}
"""The settings of the queue's connections. A plan for an empty table prefers another index and a sort, and is kept for
long.
"""

# Takes the next job of the queue whose turn it is, of these queues or of all. A job waits for its time, and for earlier
# jobs of its lock (`todo` and `doing` are less than `succeeded`). It changes the row as procrastinate's own statement
# does (fetch_job of 3.10).
_FETCH: Final = skip_scan(
    table="procrastinate_jobs",
    column="queue_name",
    order="queue_name, coalesce(scheduled_at, '-infinity'), id",
    where="status = 'todo'",
    then=""", next as (
  select due.id from (
    select value from found
     where value <> all(%(full)s::text[]) and right(value, -32) <> all(%(full_lanes)s::text[])
       and (%(queues)s::text[] is null or value = any(%(queues)s::text[]))
     order by value <= %(after)s, value) turn
   cross join lateral (
     select j.id from procrastinate_jobs j
      where j.queue_name = turn.value and j.status = 'todo' and coalesce(j.scheduled_at, '-infinity') <= now()
        and not exists (
          select from procrastinate_jobs o
           where o.lock = j.lock and o.lock is not null and o.status < 'succeeded'
             and (o.status = 'doing' or o.priority > j.priority or (o.priority = j.priority and o.id < j.id)) offset 0)
      order by coalesce(j.scheduled_at, '-infinity'), j.id limit 1 for update skip locked) due
   limit 1)
update procrastinate_jobs j set status = 'doing', worker_id = %(worker_id)s from next where j.id = next.id
returning j.id, j.status, j.task_name, j.priority, j.lock, j.queueing_lock, j.args, j.scheduled_at, j.queue_name,
          j.attempts, j.worker_id
""",
)


class FairQueue(JobManager):
    """procrastinate's access to the queue. A worker of all queues takes their jobs in turn.

    `must_end` returns whether no further task of a queue is to begin; "" names all queues.
    """

    def __init__(self, connector: BaseConnector, must_end: Callable[[str], bool]) -> None:
        super().__init__(connector)
        self._must_end = must_end
        self._running: Counter[str] = Counter()  # jobs of this process, by queue
        self._has_ended = asyncio.Event()
        self._last = ""  # the queue that had the last turn
        self._worker_id: int | None = None
        self._held: set[int | None] = set()  # jobs that this process took and whose end is not written
        self._suspects: set[int | None] = set()

    @contextmanager
    def running(self, job: Job) -> Iterator[None]:
        """Counts a job that was fetched until the context ends."""
        try:
            yield
        finally:
            self._running -= Counter([job.queue])  # drops a queue that has none
            self._has_ended.set()

    async def fetch_job(self, queues: Iterable[str] | None, worker_id: int) -> Job | None:
        """Takes the next job; returns None if there is none, or if the run of these queues is to end.

        Raises procrastinate's ConnectorException.

        While a merchant has as many jobs as it may, a worker of all queues waits here, so that it notices their end.
        """
        if queues is not None and any(self._must_end(queue) for queue in queues):
            return None
        while (job := await self._fetch(queues, worker_id)) is None:
            if queues is not None or not (self._full() or self._full_lanes()) or self._must_end(""):
                return None
            with suppress(TimeoutError):
                await asyncio.wait_for(self._has_ended.wait(), _LOOK_AGAIN_S)
            self._has_ended.clear()
        self._running[job.queue] += 1
        self._last = job.queue
        self._held.add(job.id)
        return job

    async def finish_job(self, job: Job, status: Status, delete_job: bool) -> None:
        """Writes the end of a job. A job whose end the database did not take is found by `lost_jobs`."""
        with self._ending(job):
            await super().finish_job(job, status, delete_job)

    async def retry_job(self, job: Job, *args: Any, **options: Any) -> None:
        """Writes when a job that failed is tried again, like `finish_job`."""
        with self._ending(job):
            await super().retry_job(job, *args, **options)

    async def update_heartbeat(self, worker_id: int) -> None:
        """Reports that this worker works, by a new connection if one has broken.

        A failure would end the worker, which fetches nothing until the last of its jobs has ended. Raises
        procrastinate's ConnectorException after some seconds.
        """
        for pause_s in _HEARTBEAT_AGAIN_S:
            with suppress(ConnectorException):
                return await super().update_heartbeat(worker_id)
            await asyncio.sleep(pause_s)
        return await super().update_heartbeat(worker_id)

    async def requeue(self, job: Job) -> None:
        """Puts a job back that no worker runs. Raises procrastinate's ConnectorException."""
        await super().retry_job(job)

    @contextmanager
    def _ending(self, job: Job) -> Iterator[None]:
        try:
            yield
        except ConnectorException as fault:
            _log.warning("job_end_not_written", job=job.id, reason=type(fault).__name__)
        finally:
            self._held.discard(job.id)

    async def lost_jobs(self) -> list[Job]:
        """Returns the jobs that the queue believes this worker to run and that it does not run.

        The answer about their begin or their end was lost with a connection. Two calls in a row have to find a job,
        because the worker may be taking it at this moment. Raises procrastinate's ConnectorException.
        """
        if self._worker_id is None:
            return []
        doing = await self.list_jobs_async(status=Status.DOING.value, worker_id=self._worker_id)
        found = {job.id: job for job in doing if job.id not in self._held}
        lost = [job for job_id, job in found.items() if job_id in self._suspects]
        self._suspects = set(found)
        return lost

    async def _fetch(self, queues: Iterable[str] | None, worker_id: int) -> Job | None:
        self._worker_id = worker_id
        only, full, full_lanes = (None, self._full(), self._full_lanes()) if queues is None else (list(queues), [], [])
        fetching = asyncio.ensure_future(
            self.connector.execute_query_all_async(
                _FETCH,
                queues=only,
                full=full,
                full_lanes=full_lanes,
                after=self._last,
                worker_id=worker_id,
            )
        )
        try:
            rows = await asyncio.shield(fetching)
        except asyncio.CancelledError:
            await self._put_back(fetching)
            raise
        return Job.from_row(rows[0]) if rows else None

    async def _put_back(self, fetching: asyncio.Future[list[dict[str, Any]]]) -> None:
        """Puts back the job that the worker takes as it is stopped. Its commit is not cancelled: it may wait for the
        synchronous standby. A job whose commit takes longer is found by the worker that runs next.
        """
        with suppress(ConnectorException):
            await asyncio.wait([fetching], timeout=_STOP_PATIENCE_S)
            if fetching.done() and (rows := fetching.result()):
                await self.requeue(Job.from_row(rows[0]))

    def _full_lanes(self) -> list[str]:
        return full_lanes(self._running.items())

    def _full(self) -> list[str]:
        return [queue for queue, count in self._running.items() if count >= _OF_A_MERCHANT]
