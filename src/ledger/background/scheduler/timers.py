"""Turns due timers into jobs: by real time, and for sandbox merchants by their own clocks.

Delete a timer in the transaction that enqueues its job. Timers of a leased clock are left to the holder of the lease,
who runs what becomes due in the order of time. A merchant with many due timers delays another one's by one batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from ledger.background.effects import EnqueueJob
from ledger.background.scheduler.jobs import Jobs
from ledger.postgres.connection import Connection
from ledger.postgres.skip_scan import skip_scan

_AT_ONCE: Final = 500

_TAKE: Final = """
with due as materialized ({which})
delete from due_time d using due
 where d.merchant_id = due.merchant_id and d.stream_id = due.stream_id and d.kind = due.kind and d.payment_id = due.payment_id
returning d.merchant_id, d.kind, d.stream_id, d.payment_id, d.due_at
"""

# Timers that are due by real time. No merchant's clock is behind real time.
_DUE: Final = _TAKE.format(
    which="""
  select merchant_id, stream_id, kind, payment_id from due_time t
   where due_at <= now() and not exists (
     select from merchant_clock c where c.merchant_id = t.merchant_id and c.moving_until > now())
   order by due_at limit %(limit)s for update skip locked"""
)

# The same, from each merchant in turn. It reads more if many merchants have timers, so it follows a full batch
# alone.
_DUE_IN_TURN: Final = _TAKE.format(
    which=skip_scan(
        table="due_time",
        column="merchant_id",
        where="true",
        then="""
  select d.merchant_id, d.stream_id, d.kind, d.payment_id from (
    select next.* from found f cross join lateral (
      select t.*, row_number() over (order by due_at) as n from due_time t
       where t.merchant_id = f.value and due_at <= now() order by due_at limit %(limit)s) next
     where not exists (select from merchant_clock c where c.merchant_id = f.value and c.moving_until > now())
     order by next.n, next.due_at limit %(limit)s) next
    join due_time d using (merchant_id, stream_id, kind, payment_id) for update of d skip locked""",
    )
)

# Timers that are due by clocks that are ahead of real time.
_DUE_AHEAD: Final = _TAKE.format(
    which="""
  select t.merchant_id, t.stream_id, t.kind, t.payment_id from merchant_clock c
    join due_time t on t.merchant_id = c.merchant_id and t.due_at <= now() + c.ahead_us * interval '1 microsecond'
   where coalesce(c.moving_until, '-infinity') <= now()
   order by t.due_at limit %(limit)s for update of t skip locked"""
)

# Whether there may be timers of either kind: read four times a second, and nearly always false.
_IS_DUE: Final = """
select exists (select from due_time where due_at <= now()),
       exists (select from merchant_clock c where exists (
         select from due_time t where t.merchant_id = c.merchant_id and t.due_at <= now() + c.ahead_us * interval '1 microsecond'))
"""

# One merchant's timers up to a time of its clock.
_DUE_OF: Final = _TAKE.format(
    which="""
  select merchant_id, stream_id, kind, payment_id from due_time
   where merchant_id = %s and due_at <= %s order by due_at limit %s for update"""
)

_NEXT: Final = "select min(due_at) from due_time where merchant_id = %s and due_at <= %s"


async def enqueue_due(connection: Connection, jobs: Jobs) -> int:
    """Turns the timers of all merchants that are due now into jobs; returns how many there were.

    Raises psycopg.Error.
    """
    is_due = await (await connection.execute(_IS_DUE)).fetchone()
    assert is_due is not None, "a select without from has one row"
    found = 0
    for (first, next_ones), may_be in zip(((_DUE, _DUE_IN_TURN), (_DUE_AHEAD, _DUE_AHEAD)), is_due, strict=True):
        count = await _take(connection, jobs, first) if may_be else 0
        found += count
        while count == _AT_ONCE:
            count = await _take(connection, jobs, next_ones)
            found += count
    return found


async def _take(connection: Connection, jobs: Jobs, statement: str) -> int:
    """Turns one batch of due timers into jobs; returns how many there were."""
    async with connection.transaction():
        rows = await (await connection.execute(statement, {"limit": _AT_ONCE})).fetchall()
        await jobs.enqueue(connection, _in_order(rows))
    return len(rows)


async def next_of(connection: Connection, merchant_id: UUID, until: datetime) -> datetime | None:
    """Returns the earliest due time of a merchant up to `until`, or None."""
    row = await (await connection.execute(_NEXT, (merchant_id, until))).fetchone()
    return None if row is None else row[0]


async def enqueue_due_of(
    connection: Connection, jobs: Jobs, merchant_id: UUID, until: datetime, limit: int = _AT_ONCE
) -> int:
    """Turns a merchant's timers up to a time of its clock into jobs, in the caller's transaction; returns how many.

    It takes the earliest first, at most `limit`.
    """
    rows = await (await connection.execute(_DUE_OF, (merchant_id, until, limit))).fetchall()
    await jobs.enqueue(connection, _in_order(rows))
    return len(rows)


def _in_order(rows: Sequence[tuple[Any, ...]]) -> list[tuple[UUID, EnqueueJob]]:
    ordered = sorted(rows, key=lambda row: (row[4], row[2], row[1]))
    return [
        (merchant_id, EnqueueJob(kind, stream_id, payment_id, at))
        for merchant_id, kind, stream_id, payment_id, at in ordered
    ]
