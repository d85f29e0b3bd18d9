"""Jobs that have failed: lists them for operators, and has them tried again at once.

Never delete a job here: what is due stays due until it is done. A job that is tried again has all its attempts again.
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


class FailedJob(Struct, frozen=True, kw_only=True, rename="camel"):
    """Due work that could not be done yet. `next_at` is in real time, None where the job was given up."""

    job: int
    given_up: bool
    attempts: int
    next_at: datetime | None
    merchant_id: UUID
    kind: str
    order_id: UUID
    due_at: datetime


async def failed_jobs(connection: Connection) -> Sequence[FailedJob]:
    """Returns what has failed and was not done since. Raises psycopg.OperationalError."""
    await use_jobs_schema(connection)
    return await (await connection.cursor(row_factory=class_row(FailedJob)).execute(_FIND)).fetchall()


async def retry_jobs(connection: Connection, jobs: Sequence[int] | None) -> Sequence[int]:
    """Has these jobs, or all that have failed, tried again at once; returns their ids.

    Raises psycopg.OperationalError.
    """
    await use_jobs_schema(connection)
    ids = None if jobs is None else list(jobs)
    return sorted(job for (job,) in await (await connection.execute(_RETRY, (ids, ids))).fetchall())
