"""Writes the outcomes of attempts, in groups: those of all endpoints that have any, in one transaction.

The transaction that writes an outcome moves the cursor and requires the lease. So a worker that was stopped, and whose
lease another one has meanwhile, writes nothing. The commit waits for the disk: what was written is not sent again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import msgspec
import psycopg
import structlog
from msgspec import Struct

from ledger.background.deliveries.delivery import DeliveryAttempt, DeliveryStatus
from ledger.background.deliveries.health import Health
from ledger.background.deliveries.store import Lease
from ledger.postgres.connection import Connection, SharedClient
from ledger.postgres.faults import DatabaseUnavailable, Fault
from ledger.postgres.merchant_transactions import MerchantTransactions
from ledger.postgres.pipeline import Pipeline, Statement

_log = structlog.get_logger()

_AGAIN_S: Final = 0.25
_ROWS_MAX: Final = 2_000
"""How many deliveries one transaction writes, beyond which the next one takes the other endpoints."""
_BYTES_MAX: Final = 8 << 20
"""The same for the bytes of bodies, which are encoded at once: an event of hundreds of payments has a megabyte."""

# Moves the cursors of the endpoints whose leases are held, and writes their deliveries. The parameter is a JSON array
# of outcomes. The commit waits for the disk, whatever the settings of the connection are. What the texts of a delivery
# may have of an erased person is left out. Returns the present versions of these endpoints. Cursors are locked in the
# order of their keys, as leases are renewed: otherwise the two would wait for each other.
_STATEMENT: Final = """
with handed_in as materialized (
  select l.merchant_id, l.endpoint_id, l.holder, o.sequence, h.failures, h.failing_since, h.last_success_at,
         h.paused_until, o.rows, o.version
    from (select set_config('synchronous_commit', 'on', true)) as durable
   cross join json_to_recordset($1::json) as o(lease json, sequence int8, health json, rows json, version int4)
   cross join lateral json_to_record(o.lease) as l(merchant_id uuid, endpoint_id uuid, holder uuid)
   cross join lateral json_to_record(o.health)
      as h(failures int4, failing_since timestamptz, last_success_at timestamptz, paused_until timestamptz)),
locked as (
  select c.merchant_id, c.endpoint_id
    from handed_in k join webhook_cursor c on c.merchant_id = k.merchant_id and c.endpoint_id = k.endpoint_id
   order by c.merchant_id, c.endpoint_id for update of c),
held as (
  update webhook_cursor c
     set sequence = greatest(c.sequence, n.sequence), failures_in_a_row = n.failures, failing_since = n.failing_since,
         last_success_at = n.last_success_at, paused_until = n.paused_until, held_until = now() + interval '30 seconds'
    from handed_in n join locked l on l.merchant_id = n.merchant_id and l.endpoint_id = n.endpoint_id
   where c.merchant_id = n.merchant_id and c.endpoint_id = n.endpoint_id and c.holder = n.holder
  returning c.merchant_id, c.endpoint_id, c.holder),
given as (
  select h.merchant_id, h.endpoint_id, n.*,
         case when n.body is not null or n.has_answers then {customer} end as customer_id
    from held h join handed_in i on i.holder = h.holder
   cross join lateral json_to_recordset(i.rows)
      as n(id uuid, event_id uuid, sequence int8, kind text, stream_id uuid, resource_id uuid, is_repeat bool,
           status text, next_attempt_at timestamptz, first_failed_at timestamptz, attempts jsonb, body text,
           has_answers bool, is_new bool, person uuid, is_erased bool)),
kept as (
  select g.merchant_id, g.endpoint_id, g.id, g.event_id, g.sequence, g.kind, g.stream_id, g.is_repeat, g.status,
         g.next_attempt_at, g.first_failed_at, g.customer_id, g.is_new, k.destroyed_at is not null as is_erased,
         case when k.destroyed_at is null then g.attempts
              else (select coalesce(jsonb_agg(a - 'responseBody' order by n), '[]')
                      from jsonb_array_elements(g.attempts) with ordinality as e(a, n)) end as attempts,
         case when k.destroyed_at is null then decode(g.body, 'base64') end as body,
         g.has_answers and k.destroyed_at is null as has_answers
    from given g {key}),
added as (
  insert into webhook_delivery (merchant_id, endpoint_id, id, event_id, sequence, kind, stream_id, status, is_repeat,
                                next_attempt_at, first_failed_at, attempts, body, customer_id, has_texts)
  select merchant_id, endpoint_id, id, event_id, sequence, kind, stream_id, status, is_repeat, next_attempt_at,
         first_failed_at, attempts, body, customer_id, body is not null or has_answers
    from kept where is_new
  on conflict do nothing),
changed as (
  update webhook_delivery d
     set status = n.status, next_attempt_at = n.next_attempt_at, first_failed_at = n.first_failed_at,
         attempts = n.attempts,
         body = case when n.is_erased or n.status = 'SUCCEEDED' then null else coalesce(n.body, d.body) end,
         customer_id = coalesce(n.customer_id, d.customer_id),
         has_texts = not n.is_erased and (n.has_answers or n.status <> 'SUCCEEDED' and coalesce(n.body, d.body) is not null)
    from kept n
   where not n.is_new and d.merchant_id = n.merchant_id and d.endpoint_id = n.endpoint_id and d.id = n.id)
select h.holder, e.version
  from held h join {endpoints} on e.merchant_id = h.merchant_id and e.endpoint_id = h.endpoint_id
"""
_CUSTOMER: Final = """
coalesce((select customer_id from payment_order o where o.merchant_id = {merchant} and o.order_id = n.stream_id),
         (select customer_id from subscription s where s.merchant_id = {merchant} and s.subscription_id = n.stream_id),
         (select customer_id from payment_method p
           where p.merchant_id = {merchant} and p.payment_method_id = n.resource_id),
         (select customer_id from data_key k where k.merchant_id = {merchant} and k.customer_id = n.stream_id))
"""
_WRITE: Final = Statement(
    b"write_outcomes",
    _STATEMENT.format(
        customer=_CUSTOMER.format(merchant="h.merchant_id"),
        key="left join data_key k on k.merchant_id = g.merchant_id and k.customer_id = g.customer_id",
        endpoints="webhook_endpoint e",
    ).encode(),
)

# On Citus, what the statement needs of the merchants' nodes is read before, node by node: the versions of the
# endpoints, and the persons whom the texts of deliveries are about, with whether they were erased. A shard answers for
# its own merchants alone, which the heads show: what is on another one does not count as missing.
_VERSIONS: Final = """
select n.n, e.version
  from unnest(%(numbers)s::int4[], %(merchants)s::uuid[], %(endpoints)s::uuid[]) as n(n, merchant_id, endpoint_id)
  join webhook_endpoint e on e.merchant_id = n.merchant_id and e.endpoint_id = n.endpoint_id
"""
_PERSONS: Final = f"""
select g.n, g.customer_id, exists (select from data_key k where k.merchant_id = g.merchant_id
                                      and k.customer_id = g.customer_id and k.destroyed_at is not null)
  from (select n.n, n.merchant_id, {_CUSTOMER.format(merchant="n.merchant_id")} as customer_id
          from unnest(%(numbers)s::int4[], %(merchants)s::uuid[], %(streams)s::uuid[], %(resources)s::uuid[])
               as n(n, merchant_id, stream_id, resource_id)
          join merchant_head h on h.merchant_id = n.merchant_id offset 0) g
"""  # noqa: S608 - constants
_WRITE_GIVEN: Final = Statement(
    b"write_outcomes",
    _STATEMENT.format(
        customer="n.person",
        key="cross join lateral (select case when g.is_erased then now() end as destroyed_at) k",
        endpoints="handed_in e",
    ).encode(),
)


class DeliveryRow(Struct, frozen=True, kw_only=True):
    """A delivery as it is to be written. `body` has its bytes if its first attempt has just failed.

    `has_answers` is whether its attempts have something of what the receiver answered. `is_new` is False for one that
    has a row.
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
    has_answers: bool
    is_new: bool


class Outcomes(Struct, frozen=True):
    """What a session has to write: its cursor, its endpoint's health, and deliveries."""

    lease: Lease
    sequence: int
    health: Health
    rows: Sequence[DeliveryRow]


class Written(Struct, frozen=True):
    """The present versions of the endpoints whose outcomes were written, by the leases' tokens; and the tokens of those
    that cannot be written now, because their merchants' node of Citus does not answer.
    """

    versions: Mapping[UUID, int]
    away: Collection[UUID] = ()


_encode: Final = msgspec.json.Encoder().encode
_Waiting = tuple[Outcomes, "asyncio.Future[int | None]"]


class OutcomeWriter:
    """Writes the outcomes of all sessions of a worker, those that wait together."""

    def __init__(self, url: str) -> None:
        self._client = SharedClient(url, "ledger-delivery-outcomes")
        self._persons = SharedClient(url, "ledger-delivery-persons")
        self._transactions = MerchantTransactions(url, "ledger-delivery-persons")
        self._pipeline: tuple[Connection, Pipeline] | None = None
        self._waiting: list[_Waiting] = []
        self._wake = asyncio.Event()

    async def stop(self) -> None:
        """Disconnects."""
        if self._pipeline is not None:
            self._pipeline[1].close()
        await self._client.stop()
        await self._transactions.stop()
        await self._persons.stop()

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
            done = await self._write([outcomes for outcomes, _ in some])
        except psycopg.Error as refused:
            if len(some) > 1:
                for each in some:
                    await self._write_together([each])
            elif not some[0][1].done():
                some[0][1].set_exception(refused)
            return
        later: list[_Waiting] = []
        for outcomes, written in some:
            if outcomes.lease.holder in done.away:
                later.append((outcomes, written))
            elif not written.done():  # its session may have ended
                written.set_result(done.versions.get(outcomes.lease.holder))
        if later:
            _log.warning("webhook_outcomes_wait", reason=DatabaseUnavailable.__name__)
            asyncio.get_running_loop().call_later(_AGAIN_S, self._put_back, later)

    def _next(self) -> list[_Waiting]:
        """Takes what waits, up to about so many rows and bytes."""
        some: list[_Waiting] = []
        rows = size = 0
        while self._waiting and rows < _ROWS_MAX and size < _BYTES_MAX:
            some.append(self._waiting.pop(0))
            added = some[-1][0].rows
            rows += len(added)
            size += sum(len(row.body or b"") for row in added)
        if not self._waiting:
            self._wake.clear()
        return some

    def _put_back(self, some: list[_Waiting]) -> None:
        self._waiting[:0] = [each for each in some if not each[1].done()]
        if self._waiting:
            self._wake.set()
        else:
            self._wake.clear()

    async def _write(self, some: Sequence[Outcomes]) -> Written:
        away: set[UUID] = set()
        async with self._client.turn() as connection:
            if connection.has_citus:
                given, away = await self._with_persons(some)
                if not given:
                    return Written({}, away)
                written = _WRITE_GIVEN, [_encode(given)]
            else:
                written = _WRITE, [_encode(some)]
            versions: dict[UUID, int] = await self._pipeline_of(connection).send([written], lambda rows: dict(rows[0]))
        return Written(versions, away)

    async def _with_persons(self, some: Sequence[Outcomes]) -> tuple[Sequence[dict[str, Any]], set[UUID]]:
        """Returns outcomes as JSON objects that have what the statement is given on Citus; and the tokens of those that
        are left out, because their merchants' node does not answer.
        """
        given: list[dict[str, Any]] = msgspec.json.decode(_encode(some))
        versions, are_away = await self._read(_VERSIONS, some, {"endpoints": [each.lease.endpoint_id for each in some]})
        for n, each in enumerate(given):
            (each["version"],) = versions.get(n, (None,))
        of_rows = [each for each in some for _ in each.rows]
        rows = [row for each in some for row in each.rows]
        if rows:
            streams, resources = [row.stream_id for row in rows], [row.resource_id for row in rows]
            persons, are_away_now = await self._read(_PERSONS, of_rows, {"streams": streams, "resources": resources})
            are_away |= are_away_now
            for n, row in enumerate(row for each in given for row in each["rows"]):
                person, is_erased = persons.get(n, (None, False))
                row |= {"person": None if person is None else str(person), "is_erased": is_erased}
        here = [each for outcomes, each in zip(some, given, strict=True) if outcomes.lease.holder not in are_away]
        return here, are_away

    async def _read(
        self, statement: str, about: Sequence[Outcomes], values: Mapping[str, Any]
    ) -> tuple[dict[int, Sequence[Any]], set[UUID]]:
        """Returns what the nodes have for each number among these outcomes; and the tokens of those of which nothing is
        known.
        """
        merchants = [each.lease.merchant_id for each in about]
        numbered = {**values, "merchants": merchants, "numbers": list(range(len(about)))}
        async with self._persons.turn() as connection:
            found = await self._transactions.read_all(connection, statement, numbered, merchants)
        away = {each.lease.holder for each in about if found.is_away(each.lease.merchant_id)}
        return {n: row for n, *row in found.rows}, away

    def _pipeline_of(self, connection: Connection) -> Pipeline:
        """Returns the pipeline of a connection, which is used for nothing else."""
        if self._pipeline is None or self._pipeline[0] is not connection:
            self._pipeline = connection, Pipeline(connection, lambda: None)  # who waits learns of its end
        return self._pipeline[1]
