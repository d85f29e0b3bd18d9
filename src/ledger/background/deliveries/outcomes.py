"""Writes the outcomes of attempts, in groups: those of all endpoints that have any, in one transaction.

The transaction that writes an outcome moves the cursor and requires the lease. So a worker that was stopped, and whose
lease another one has meanwhile, writes nothing. The commit waits for the disk: what was written is not sent again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import psycopg
import structlog
from msgspec import Struct

from ledger.background.deliveries.delivery import (
    DeliveryAttempt,
    DeliveryStatus,
    encode_attempts,
    without_answers,
)
from ledger.background.deliveries.health import Health
from ledger.background.deliveries.store import Lease
from ledger.postgres.arrays import ENCODE_ARRAY, Array
from ledger.postgres.connection import SharedClient
from ledger.postgres.faults import Fault

_log = structlog.get_logger()

_AGAIN_S: Final = 0.25
_ROWS_MAX: Final = 2_000
"""How many deliveries one transaction writes, beyond which the next one takes the other endpoints."""

_SYNCHRONOUS: Final = "set local synchronous_commit = on"

# Moves the cursors of the endpoints whose leases are held, and writes their deliveries. What the texts of a delivery
# may have of an erased person is left out. Returns the present versions of these endpoints. Cursors are locked in the
# order of their keys, as leases are renewed: otherwise the two would wait for each other.
_WRITE: Final = """
with locked as (
  select c.merchant_id, c.endpoint_id
    from unnest(%(merchants)s::uuid[], %(endpoints)s::uuid[]) as k(merchant_id, endpoint_id)
    join webhook_cursor c on c.merchant_id = k.merchant_id and c.endpoint_id = k.endpoint_id
   order by c.merchant_id, c.endpoint_id for update of c),
held as (
  update webhook_cursor c
     set sequence = greatest(c.sequence, n.sequence), failures_in_a_row = n.failures, failing_since = n.failing_since,
         last_success_at = n.last_success_at, paused_until = n.paused_until, held_until = now() + interval '30 seconds'
    from unnest(%(merchants)s::uuid[], %(endpoints)s::uuid[], %(holders)s::uuid[], %(sequences)s::int8[],
                %(failures)s::int4[], %(failing)s::timestamptz[], %(successes)s::timestamptz[], %(paused)s::timestamptz[])
      as n(merchant_id, endpoint_id, holder, sequence, failures, failing_since, last_success_at, paused_until)
    join locked l on l.merchant_id = n.merchant_id and l.endpoint_id = n.endpoint_id
   where c.merchant_id = n.merchant_id and c.endpoint_id = n.endpoint_id and c.holder = n.holder
  returning c.merchant_id, c.endpoint_id, c.holder),
given as (
  select h.merchant_id, h.endpoint_id, n.*,
         case when n.body is not null or n.has_answers then coalesce(
           (select customer_id from payment_order o where o.merchant_id = h.merchant_id and o.order_id = n.stream_id),
           (select customer_id from subscription s
             where s.merchant_id = h.merchant_id and s.subscription_id = n.stream_id),
           (select customer_id from payment_method p
             where p.merchant_id = h.merchant_id and p.payment_method_id = n.resource_id),
           (select customer_id from data_key k where k.merchant_id = h.merchant_id and k.customer_id = n.stream_id))
         end as customer_id
    from unnest(%(of)s::uuid[], %(ids)s::uuid[], %(events)s::uuid[], %(numbers)s::int8[], %(kinds)s::text[],
                %(streams)s::uuid[], %(resources)s::uuid[], %(repeats)s::bool[], %(statuses)s::text[],
                %(next)s::timestamptz[], %(failed)s::timestamptz[], %(attempts)s::text[], %(bare)s::text[],
                %(bodies)s::bytea[], %(answers)s::bool[], %(new)s::bool[])
      as n(holder, id, event_id, sequence, kind, stream_id, resource_id, is_repeat, status, next_attempt_at,
           first_failed_at, attempts, bare, body, has_answers, is_new)
    join held h on h.holder = n.holder),
kept as (
  select g.*, k.destroyed_at is not null as is_erased
    from given g left join data_key k on k.merchant_id = g.merchant_id and k.customer_id = g.customer_id),
added as (
  insert into webhook_delivery (merchant_id, endpoint_id, id, event_id, sequence, kind, stream_id, status, is_repeat,
                                next_attempt_at, first_failed_at, attempts, body, customer_id, has_texts)
  select merchant_id, endpoint_id, id, event_id, sequence, kind, stream_id, status, is_repeat, next_attempt_at,
         first_failed_at, (case when is_erased then bare else attempts end)::jsonb,
         case when not is_erased then body end, customer_id, not is_erased and (body is not null or has_answers)
    from kept where is_new
  on conflict do nothing),
changed as (
  update webhook_delivery d
     set status = n.status, next_attempt_at = n.next_attempt_at, first_failed_at = n.first_failed_at,
         attempts = (case when n.is_erased then n.bare else n.attempts end)::jsonb,
         body = case when n.is_erased or n.status = 'SUCCEEDED' then null else coalesce(n.body, d.body) end,
         customer_id = coalesce(n.customer_id, d.customer_id),
         has_texts = not n.is_erased and (n.has_answers or n.status <> 'SUCCEEDED' and coalesce(n.body, d.body) is not null)
    from kept n
   where not n.is_new and d.merchant_id = n.merchant_id and d.endpoint_id = n.endpoint_id and d.id = n.id)
select h.holder, e.version
  from held h join webhook_endpoint e on e.merchant_id = h.merchant_id and e.endpoint_id = h.endpoint_id
"""


class DeliveryRow(Struct, frozen=True, kw_only=True):
    """A delivery as it is to be written. `body` has its bytes if its first attempt has just failed.

    `is_new` is False for one that has a row.
    """

    id: UUID
    event_id: UUID
    sequence: int
    kind: str
    stream_id: UUID
    resource_id: UUID | None
    is_repeat: bool
    status: DeliveryStatus
    next_attempt_at: datetime | None
    first_failed_at: datetime | None
    attempts: tuple[DeliveryAttempt, ...]
    body: bytes | None
    is_new: bool


class Outcomes(Struct, frozen=True):
    """What a session has to write: its cursor, its endpoint's health, and deliveries."""

    lease: Lease
    sequence: int
    health: Health
    rows: Sequence[DeliveryRow]


_Waiting = tuple[Outcomes, "asyncio.Future[int | None]"]


class OutcomeWriter:
    """Writes the outcomes of all sessions of a worker, those that wait together."""

    def __init__(self, url: str) -> None:
        self._client = SharedClient(url, "ledger-delivery-outcomes")
        self._waiting: list[_Waiting] = []
        self._wake = asyncio.Event()

    async def stop(self) -> None:
        """Disconnects."""
        await self._client.stop()

    def write(self, outcomes: Outcomes) -> asyncio.Future[int | None]:
        """Writes outcomes as soon as possible. The future has the endpoint's present version; None if the lease is
        lost, and nothing was written. While the database is away it is tried again.
        """
        written: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
        self._waiting.append((outcomes, written))
        self._wake.set()
        return written

    async def run(self) -> None:
        """Writes until it is cancelled."""
        while True:
            await self._wake.wait()
            some = self._next()
            try:
                await self._write_together(some)
            except Fault as fault:
                _log.warning("webhook_outcomes_wait", reason=type(fault).__name__)
                self._put_back(some)
                await asyncio.sleep(_AGAIN_S)

    async def _write_together(self, some: Sequence[_Waiting]) -> None:
        """Writes outcomes and answers those who wait. What the database refuses fails alone. Raises a Fault."""
        try:
            versions = await self._write([outcomes for outcomes, _ in some])
        except psycopg.Error as refused:
            if len(some) > 1:
                for each in some:
                    await self._write_together([each])
            elif not some[0][1].done():
                some[0][1].set_exception(refused)
            return
        for outcomes, written in some:
            if not written.done():  # its session may have ended
                written.set_result(versions.get(outcomes.lease.holder))

    def _next(self) -> list[_Waiting]:
        """Takes what waits, up to about so many rows."""
        some: list[_Waiting] = []
        rows = 0
        while self._waiting and rows < _ROWS_MAX:
            some.append(self._waiting.pop(0))
            rows += len(some[-1][0].rows)
        if not self._waiting:
            self._wake.clear()
        return some

    def _put_back(self, some: list[_Waiting]) -> None:
        self._waiting[:0] = [each for each in some if not each[1].done()]
        if self._waiting:
            self._wake.set()
        else:
            self._wake.clear()

    async def _write(self, some: Sequence[Outcomes]) -> dict[UUID, int]:
        async with self._client.turn() as connection, connection.transaction():
            await connection.execute(_SYNCHRONOUS)
            rows = await connection.execute(_WRITE.encode(), _values(some))
            return dict(await rows.fetchall())


def _values(some: Sequence[Outcomes]) -> dict[str, Any]:
    rows = [(outcomes.lease.holder, row) for outcomes in some for row in outcomes.rows]
    return {
        "merchants": _uuids(each.lease.merchant_id for each in some),
        "endpoints": _uuids(each.lease.endpoint_id for each in some),
        "holders": _uuids(each.lease.holder for each in some),
        "sequences": ENCODE_ARRAY["int8"]([each.sequence for each in some]),
        "failures": ENCODE_ARRAY["int4"]([each.health.failures for each in some]),
        "failing": [each.health.failing_since for each in some],
        "successes": [each.health.last_success_at for each in some],
        "paused": [each.health.paused_until for each in some],
        "of": _uuids(holder for holder, _ in rows),
        "ids": _uuids(row.id for _, row in rows),
        "events": _uuids(row.event_id for _, row in rows),
        "numbers": ENCODE_ARRAY["int8"]([row.sequence for _, row in rows]),
        "kinds": _texts(row.kind for _, row in rows),
        "streams": _uuids(row.stream_id for _, row in rows),
        "resources": _uuids(row.resource_id for _, row in rows),
        "repeats": ENCODE_ARRAY["bool"]([row.is_repeat for _, row in rows]),
        "statuses": _texts(row.status for _, row in rows),
        "next": [row.next_attempt_at for _, row in rows],
        "failed": [row.first_failed_at for _, row in rows],
        "attempts": ENCODE_ARRAY["text"]([encode_attempts(row.attempts) for _, row in rows]),
        "bare": ENCODE_ARRAY["text"]([_bare(row) for _, row in rows]),
        "bodies": ENCODE_ARRAY["bytea"]([row.body for _, row in rows]),
        "answers": ENCODE_ARRAY["bool"]([_has_answers(row) for _, row in rows]),
        "new": ENCODE_ARRAY["bool"]([row.is_new for _, row in rows]),
    }


def _has_answers(row: DeliveryRow) -> bool:
    return any(each.response_body for each in row.attempts)


def _bare(row: DeliveryRow) -> bytes:
    """Returns the attempts without what the receiver answered."""
    return encode_attempts(without_answers(row.attempts))


def _uuids(ids: Iterable[UUID | None]) -> Array:
    return ENCODE_ARRAY["uuid"]([None if each is None else each.bytes for each in ids])


def _texts(values: Iterable[str]) -> Array:
    return ENCODE_ARRAY["text"]([value.encode() for value in values])
