"""Jobs that have failed: lists them for operators, and has them tried again at once.

Never delete a job here: due work stays due until it is done. A job that an operator retries has all its attempts again.
A job that was given up is tried once an hour, whether or not an operator has seen it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

from msgspec import Struct
from psycopg.rows import class_row

from ledger.background.scheduler.jobs import use_jobs_schema
from ledger.postgres.connection import Connection

# Jobs that were given up, and jobs that have failed and wait for their next attempt: the oldest first.
_FIND: Final = """
select id as job, status = 'failed' as given_up, attempts, case when status <> 'failed' then scheduled_at end as next_at,
       (args->>'merchant_id')::uuid as merchant_id, thing->>0 as kind, (thing->>1)::uuid as order_id,
       (thing->>3)::timestamptz as due_at
  from procrastinate_jobs, jsonb_array_elements(args->'things') thing
 where status = 'failed' or (status = 'todo' and scheduled_at is not null) order by id
"""

_RETRY: Final = """
update procrastinate_jobs set status = 'todo', attempts = 0, scheduled_at = now()
 where (status = 'failed' or (status = 'todo' and scheduled_at is not null)) and (%s::int8[] is null or id = any(%s::int8[]))
returning id
"""

_RESUME: Final = """
update procrastinate_jobs set status = 'todo', scheduled_at = now()
 where id = any(array(
   select id from procrastinate_jobs
    where status = 'failed' and coalesce(scheduled_at, '-infinity') < now() - interval '1 hour'
    order by id limit 500 for update skip locked))
"""


class FailedJob(Struct, frozen=True, kw_only=True, rename="camel"):
    """Due work that could not be done yet. `next_at` is in real time, None if the job was given up."""

    job: int
    given_up: bool
    attempts: int
    next_at: datetime | None
    merchant_id: UUID
    kind: str
    order_id: UUID
    due_at: datetime


async def failed_jobs(connection: Connection) -> Sequence[FailedJob]:
    """Returns the due work that has failed and was not done since. Raises psycopg.OperationalError."""
    await use_jobs_schema(connection)
    return await (await connection.cursor(row_factory=class_row(FailedJob)).execute(_FIND)).fetchall()


async def retry_jobs(connection: Connection, jobs: Sequence[int] | None) -> Sequence[int]:
    """Has these jobs, or all that have failed, tried again at once; returns their ids.

    Raises psycopg.OperationalError.
    """
    await use_jobs_schema(connection)
    ids = None if jobs is None else list(jobs)
    return sorted(job for (job,) in await (await connection.execute(_RETRY, (ids, ids))).fetchall())


async def resume_given_up(connection: Connection) -> int:
    """Has jobs that were given up at least an hour ago tried once more; returns how many.

    Raises psycopg.OperationalError. The connection uses the jobs' schema.
    """
    return (await connection.execute(_RESUME)).rowcount
