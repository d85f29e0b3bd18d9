"""Jobs that have failed: what an operator sees of them, and how they are tried again at once.

The rule a stranger would break: a job that is tried again begins with all its attempts. Nothing is ever thrown away here:
what is due stays due until it is done.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

from msgspec import Struct

from ledger.journal.connection import Connection
from ledger.reactions.jobs import see_jobs

# What was given up, and what has failed and waits for its next attempt: the oldest first.
_FIND: Final = """
select id, status = 'failed', attempts, scheduled_at, (args->>'merchant_id')::uuid, thing->>0, (thing->>1)::uuid,
       (thing->>3)::timestamptz
  from procrastinate_jobs, jsonb_array_elements(args->'things') thing
 where status = 'failed' or (status = 'todo' and scheduled_at is not null) order by id
"""

_RETRY: Final = """
update procrastinate_jobs set status = 'todo', attempts = 0, scheduled_at = now()
 where (status = 'failed' or (status = 'todo' and scheduled_at is not null)) and (%s::int8[] is null or id = any(%s::int8[]))
returning id
"""


class Troubled(Struct, frozen=True, kw_only=True, rename="camel"):
    """Something that is due and could not be done yet. `next_at` in real time, None where it was given up."""

    job: int
    given_up: bool
    attempts: int
    next_at: datetime | None
    merchant_id: UUID
    kind: str
    order_id: UUID
    due_at: datetime


async def troubled_jobs(connection: Connection) -> Sequence[Troubled]:
    """Everything that has failed and was not done since. Raises psycopg.OperationalError."""
    await see_jobs(connection)
    rows = await (await connection.execute(_FIND)).fetchall()
    return [
        Troubled(
            job=job,
            given_up=given_up,
            attempts=attempts,
            next_at=None if given_up else next_at,
            merchant_id=merchant_id,
            kind=kind,
            order_id=order_id,
            due_at=due_at,
        )
        for job, given_up, attempts, next_at, merchant_id, kind, order_id, due_at in rows
    ]


async def retry_jobs(connection: Connection, jobs: Sequence[int] | None) -> Sequence[int]:
    """Have these jobs, or all that have failed, tried again at once; which those were. Raises psycopg.OperationalError."""
    await see_jobs(connection)
    ids = None if jobs is None else list(jobs)
    return sorted(job for (job,) in await (await connection.execute(_RETRY, (ids, ids))).fetchall())
