"""Leases, cursors and deliveries in the database.

A lease is known by its token. It ends half a minute after it was last renewed. A holder whose lease another one has
taken can write nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from typing import Any, Final
from uuid import UUID

from msgspec import Struct

from ledger.background.deliveries.delivery import Delivery, DeliveryStatus, decode_attempts
from ledger.background.deliveries.health import Health
from ledger.postgres.arrays import ENCODE_ARRAY, Array
from ledger.postgres.connection import Connection, SharedClient
from ledger.postgres.merchant_transactions import MerchantTransactions, RowsOfAll

LEASE_S: Final = 30.0
"""As the statements have it."""

# Endpoints with the last numbers of their merchants' feeds. On Citus, where cursors are on the coordinator and
# endpoints are not, these rows are read first, node by node, and are parameters of the statements below.
_ENDPOINTS: Final = """
select e.merchant_id, e.endpoint_id, e.version, e.status, f.sequence
  from webhook_endpoint e left join event_feed f on f.merchant_id = e.merchant_id {of}
"""
_GIVEN: Final = """
unnest(%(merchant_ids)s::uuid[], %(endpoint_ids)s::uuid[], %(versions)s::int4[], %(statuses)s::text[],
       %(sequences)s::int8[]) as e(merchant_id, endpoint_id, version, status, last_sequence)"""

# Begins the cursors of new endpoints.
_ADD_CURSORS: Final = """
insert into webhook_cursor (merchant_id, endpoint_id)
select merchant_id, endpoint_id from {endpoints}
 where e.status = 'ENABLED' and not exists (
   select from webhook_cursor c where c.merchant_id = e.merchant_id and c.endpoint_id = e.endpoint_id) {some}
on conflict do nothing
"""

# Takes the leases on endpoints with something to do, that no worker has: the endpoint was changed; it is enabled and
# has events behind its cursor, or a delivery is due, or its last holder ended without giving the lease back; it was
# deleted while an event was asked for again. Those that no worker has had for longest come first.
_CLAIM: Final = """
with due as (
  select c.merchant_id, c.endpoint_id
    from {endpoints}
    join webhook_cursor c on c.merchant_id = e.merchant_id and c.endpoint_id = e.endpoint_id
    {feed}
    left join merchant_clock k on k.merchant_id = e.merchant_id
   where (c.holder is null or c.held_until < now())
     and (c.version <> e.version
          or e.status = 'DELETED' and c.due_at is not null
          or e.status = 'ENABLED' and coalesce(c.paused_until, '-infinity') <= now()
             and (c.holder is not null or c.sequence is null or c.sequence < f.sequence
                  or c.due_at <= now() + coalesce(k.ahead_us, 0) * interval '1 microsecond'))
     and e.endpoint_id <> all(%(without)s) {some}
   order by c.held_until nulls first limit %(limit)s for update of c skip locked)
update webhook_cursor c set holder = gen_random_uuid(), held_until = now() + interval '30 seconds', due_at = null
  from due d where c.merchant_id = d.merchant_id and c.endpoint_id = d.endpoint_id
returning c.merchant_id, c.endpoint_id, c.holder, c.sequence, c.origin, c.version, c.failures_in_a_row, c.failing_since,
          c.last_success_at, c.paused_until
"""
_OF_MERCHANTS: Final = "and e.merchant_id = any(%(merchants)s)"
_STORED_FEED: Final = "left join event_feed f on f.merchant_id = e.merchant_id"
_STATEMENTS: Final = {
    is_of_all: (
        _ADD_CURSORS.format(endpoints="webhook_endpoint e", some=some),
        _CLAIM.format(endpoints="webhook_endpoint e", feed=_STORED_FEED, some=some),
    )
    for is_of_all, some in ((True, ""), (False, _OF_MERCHANTS))
}
# By a small index: an idle endpoint costs nothing.
_IS_TIMED: Final = "(c.holder is not null or c.due_at is not null or c.paused_until is not null)"
_CLAIM_TIMED: Final = _CLAIM.format(endpoints="webhook_endpoint e", feed=_STORED_FEED, some=f"and {_IS_TIMED}")

_GIVEN_FEED: Final = "cross join lateral (select e.last_sequence as sequence) f"
_ADD_GIVEN: Final = _ADD_CURSORS.format(endpoints=_GIVEN, some="")
_CLAIM_GIVEN: Final = _CLAIM.format(endpoints=_GIVEN, feed=_GIVEN_FEED, some="")
_CLAIM_GIVEN_TIMED: Final = _CLAIM.format(endpoints=_GIVEN, feed=_GIVEN_FEED, some=f"and {_IS_TIMED}")
_TIMED_MERCHANTS: Final = f"""
select distinct merchant_id from webhook_cursor c where {_IS_TIMED} and (c.holder is null or c.held_until < now())
"""  # noqa: S608 - a constant

# Renews leases, and returns those that are still held. They are locked in the order of their keys, as for outcomes:
# otherwise the two would wait for each other.
_RENEW: Final = """
with locked as (
  select c.merchant_id, c.endpoint_id, n.holder
    from unnest(%s::uuid[], %s::uuid[], %s::uuid[]) as n(merchant_id, endpoint_id, holder)
    join webhook_cursor c on c.merchant_id = n.merchant_id and c.endpoint_id = n.endpoint_id
   order by c.merchant_id, c.endpoint_id for update of c)
update webhook_cursor c set held_until = now() + interval '30 seconds' from locked n
 where c.merchant_id = n.merchant_id and c.endpoint_id = n.endpoint_id and c.holder = n.holder
returning c.holder
"""

# Gives a lease back now, with the version of the endpoint that was acted on, and when the next delivery is due. What
# was asked for again during the lease has set due_at, and stays due: its rows may be younger than the snapshot of this
# statement.
_RELEASE: Final = """
update webhook_cursor c
   set holder = null, held_until = now(), version = greatest(c.version, %(version)s), due_at = least(c.due_at, (
  select min(next_attempt_at) from webhook_delivery
   where merchant_id = %(merchant_id)s and endpoint_id = %(endpoint_id)s and status = 'PENDING'))
 where merchant_id = %(merchant_id)s and endpoint_id = %(endpoint_id)s and holder = %(holder)s
"""

# The position behind which an endpoint gets events.
_ORIGIN: Final = "select position from event where merchant_id = %s and stream_id = %s and version = %s"

# Begins the numbering of a merchant's events, unless it has begun.
_NUMBER: Final = """
insert into event_feed (merchant_id, sequence, past)
select h.merchant_id, n.behind, h.position from merchant_head h cross join event_numbers n where h.merchant_id = %s
on conflict do nothing
"""

# The number of the last event at or before a position; none until the log is numbered up to it. After a restore there
# may be a gap before the next event.
_NUMBER_AT: Final = """
select coalesce(
  (select sequence from public_event where merchant_id = %(merchant_id)s and until_position <= %(origin)s
    order by sequence desc limit 1),
  (select sequence - 1 from public_event where merchant_id = %(merchant_id)s order by sequence limit 1),
  f.sequence)
  from event_feed f where f.merchant_id = %(merchant_id)s and f.position >= %(origin)s
"""

# Puts a cursor where its endpoint begins, or goes on after it skipped what it had missed. A cursor never goes back.
_BEGIN: Final = """
update webhook_cursor set sequence = greatest(sequence, %(sequence)s), origin = %(origin)s
 where merchant_id = %(merchant_id)s and endpoint_id = %(endpoint_id)s and holder = %(holder)s
returning sequence
"""

# Notes the version of an endpoint that was acted on: its failures before count no more.
_NOTE_VERSION: Final = """
update webhook_cursor set version = %(version)s, failures_in_a_row = 0, failing_since = null, paused_until = null
 where merchant_id = %(merchant_id)s and endpoint_id = %(endpoint_id)s and holder = %(holder)s
"""

# What sessions look at while they have leases, of those that are held: the endpoint's version, the last number of the
# feed, whether a sandbox clock is being moved, and whether a delivery is due.
_PLACES: Final = """
select n.holder, e.version, f.sequence,
       exists (select from merchant_clock k where k.merchant_id = n.merchant_id and k.moving_until > now()),
       exists (select from webhook_delivery d where d.merchant_id = n.merchant_id and d.endpoint_id = n.endpoint_id
                  and d.status = 'PENDING' and d.next_attempt_at <= n.now)
  from unnest(%(merchants)s::uuid[], %(leased)s::uuid[], %(holders)s::uuid[], %(times)s::timestamptz[])
       as n(merchant_id, endpoint_id, holder, now)
  join webhook_cursor c on c.merchant_id = n.merchant_id and c.endpoint_id = n.endpoint_id and c.holder = n.holder
  join {endpoints} on e.merchant_id = c.merchant_id and e.endpoint_id = c.endpoint_id
  {feed}
"""
_PLACES_STORED: Final = _PLACES.format(
    endpoints="webhook_endpoint e", feed="join event_feed f on f.merchant_id = c.merchant_id"
)
_PLACES_GIVEN: Final = _PLACES.format(
    endpoints=_GIVEN, feed="join lateral (select e.last_sequence as sequence) f on f.sequence is not null"
)

_VERSIONS: Final = "select endpoint_id, version from webhook_endpoint where merchant_id = %s"

_COLUMNS: Final = "id, event_id, sequence, kind, stream_id, is_repeat, next_attempt_at, first_failed_at, attempts::text"
# The streams of deliveries that are due.
_DUE_STREAMS: Final = """
select distinct stream_id from (
  select stream_id from webhook_delivery
   where merchant_id = %(merchant_id)s and endpoint_id = %(endpoint_id)s and status = 'PENDING'
     and next_attempt_at <= %(now)s and id <> all(%(known)s) order by next_attempt_at limit %(limit)s) d
"""
# The deliveries of streams that have not ended, in their order.
_WAITING: Final = f"""
select {_COLUMNS} from webhook_delivery
 where merchant_id = %(merchant_id)s and endpoint_id = %(endpoint_id)s and stream_id = any(%(streams)s)
   and status = 'PENDING' and (sequence, id) > (%(after)s, %(after_id)s) order by sequence, id limit %(limit)s
"""  # noqa: S608 - constants
_WAITING_AT_ONCE: Final = 2_000

# The last event that has a row, 0 if none has, and whether one of those that have has not ended.
_RECORDED_BEFORE: Final = """
select coalesce(max(sequence), 0), exists (
  select from webhook_delivery where merchant_id = %(merchant_id)s and endpoint_id = %(endpoint_id)s
                                 and status = 'PENDING')
  from webhook_delivery where merchant_id = %(merchant_id)s and endpoint_id = %(endpoint_id)s and not is_repeat
"""

# Which of these events have a row although the cursor is before them.
_RECORDED: Final = """
select sequence from webhook_delivery
 where merchant_id = %s and endpoint_id = %s and sequence = any(%s) and not is_repeat
"""

# The bytes of events whose first attempt failed, and the persons whom they are about.
_BODIES: Final = """
select id, customer_id, body from webhook_delivery
 where merchant_id = %s and endpoint_id = %s and id = any(%s) and body is not null
"""
# Those of these persons who were erased.
_ERASED: Final = """
select customer_id from data_key where merchant_id = %s and customer_id = any(%s) and destroyed_at is not null
"""

# Ends deliveries that will not be attempted: of kinds that were deselected, or all. Those of a newer release's kinds
# are left to its workers.
_SKIP: Final = """
with chosen as (
  select id from webhook_delivery
   where merchant_id = %(merchant_id)s and endpoint_id = %(endpoint_id)s and status = 'PENDING' {some} limit 5000
     for update)
update webhook_delivery d set status = 'SKIPPED', next_attempt_at = null, body = null
  from chosen where d.merchant_id = %(merchant_id)s and d.endpoint_id = %(endpoint_id)s and d.id = chosen.id
   and exists (select from webhook_cursor where merchant_id = %(merchant_id)s and endpoint_id = %(endpoint_id)s
                  and holder = %(holder)s)
"""
_SKIP_ALL: Final = _SKIP.format(some="")
_SKIP_KINDS: Final = _SKIP.format(some="and kind = any(%(deselected)s::text[])")

# Lets the deliveries be looked at again that wait for their order in a stream: what they wait for may have ended.
_RECONSIDER: Final = """
update webhook_delivery set next_attempt_at = now()
 where merchant_id = %(merchant_id)s and endpoint_id = %(endpoint_id)s and status = 'PENDING'
   and first_failed_at is null and next_attempt_at > now()
"""


class Lease(Struct, frozen=True):
    """The right to deliver to an endpoint. `holder` is its token."""

    merchant_id: UUID
    endpoint_id: UUID
    holder: UUID


class Cursor(Struct, frozen=True):
    """Where the deliveries to an endpoint are when its lease is taken."""

    lease: Lease
    sequence: int | None
    origin: int
    version: int
    health: Health


class Place(Struct, frozen=True):
    """What a session looks at: see the statement. `is_moving`: the merchant's sandbox clock is being moved."""

    version: int
    last_sequence: int
    is_moving: bool
    has_due: bool


class Claimed(Struct, frozen=True):
    """The cursors of the endpoints whose leases were taken. `is_whole` is False if a node of Citus could not be read,
    and its merchants' endpoints were left out.
    """

    cursors: Sequence[Cursor]
    is_whole: bool


class DeliveryStore:
    """The deliveries of all merchants' endpoints, at one connection. Every method raises a Fault.

    A node of Citus that is down leaves the endpoints of the other nodes' merchants their deliveries.
    """

    def __init__(self, url: str) -> None:
        self.client = SharedClient(url, "ledger-deliveries")
        self.transactions = MerchantTransactions(url, "ledger-deliveries")
        """For a task that has the client's turn."""

    async def stop(self) -> None:
        await self.transactions.stop()
        await self.client.stop()

    async def claim(self, limit: int, without: Collection[UUID], merchants: Collection[UUID] | None = None) -> Claimed:
        """Takes the leases on at most `limit` endpoints with something to do, of these merchants or of all.

        Leaves out the endpoints `without`.
        """
        add, claim = _STATEMENTS[merchants is None]
        values = {"limit": limit, "without": list(without), "merchants": list(merchants or ())}
        is_whole = True
        async with self.client.turn() as connection:
            if connection.has_citus:
                add, claim = _ADD_GIVEN, _CLAIM_GIVEN
                found = await self._endpoints(connection, merchants)
                values, is_whole = values | _given(found), found.is_whole
            await connection.execute(add.encode(), values)
            rows = await (await connection.execute(claim.encode(), values)).fetchall()
        return Claimed([_cursor(row) for row in rows], is_whole)

    async def claim_timed(self, limit: int, without: Collection[UUID]) -> list[Cursor]:
        """Takes the leases on at most `limit` endpoints with something to do because time has passed: a delivery is
        due, a pause is over, a holder has ended. Leaves out the endpoints `without`.
        """
        claim, values = _CLAIM_TIMED, {"limit": limit, "without": list(without)}
        async with self.client.turn() as connection:
            if connection.has_citus:
                timed = await (await connection.execute(_TIMED_MERCHANTS)).fetchall()
                found = await self._endpoints(connection, [one for (one,) in timed])
                claim, values = _CLAIM_GIVEN_TIMED, values | _given(found)
            rows = await (await connection.execute(claim.encode(), values)).fetchall()
        return [_cursor(row) for row in rows]

    async def renew(self, leases: Sequence[Lease]) -> set[UUID]:
        """Renews leases. Returns the tokens of those that are held."""
        async with self.client.turn() as connection:
            rows = await connection.execute(_RENEW, _columns(leases))
            return {holder for (holder,) in await rows.fetchall()}

    async def release(self, lease: Lease, version: int) -> None:
        """Gives a lease back. `version` is that of the endpoint which the holder has acted on."""
        async with self.client.turn() as connection:
            await connection.execute(_RELEASE, {**_key(lease), "version": version})

    async def begin(self, cursor: Cursor, from_version: int) -> int | None:
        """Puts a cursor behind the event of the endpoint's stream from which on it gets events, and returns it. None if
        the log is not numbered so far yet, or the lease is lost.
        """
        lease = cursor.lease
        async with self.client.turn() as connection:
            found = await connection.execute(_ORIGIN, (lease.merchant_id, lease.endpoint_id, from_version))
            row = await found.fetchone()
            assert row is not None, "the endpoint's stream has this version"
            values = {**_key(lease), "origin": row[0]}
            if cursor.sequence is not None and cursor.origin == row[0]:
                return cursor.sequence
            await connection.execute(_NUMBER, (lease.merchant_id,))
            number = await (await connection.execute(_NUMBER_AT, values)).fetchone()
            if number is None:
                return None
            begun = await (await connection.execute(_BEGIN, {**values, "sequence": number[0]})).fetchone()
            return None if begun is None else begun[0]

    async def note_version(self, lease: Lease, version: int) -> None:
        """Notes the version of an endpoint that was acted on, and forgets its failures."""
        async with self.client.turn() as connection:
            await connection.execute(_NOTE_VERSION, {**_key(lease), "version": version})

    async def places(self, leases: Sequence[Lease], times: Sequence[datetime]) -> dict[UUID, Place | None]:
        """Returns what the sessions with these leases look at, each at its merchant's time, by the leases' tokens.

        Those that are not held any more are missing, and those of endpoints without a feed. None is for those of
        merchants whose node of Citus cannot be read now: nothing is known of them.
        """
        away: dict[UUID, Place | None] = {}
        async with self.client.turn() as connection:
            merchants, leased, holders = _columns(leases)
            values = {"merchants": merchants, "leased": leased, "holders": holders, "times": list(times)}
            statement = _PLACES_STORED
            if connection.has_citus:
                statement = _PLACES_GIVEN
                found = await self._endpoints(connection, {lease.merchant_id for lease in leases})
                values |= _given(found)
                away = {lease.holder: None for lease in leases if found.is_away(lease.merchant_id)}
            rows = await connection.execute(statement.encode(), values)
            return away | {holder: Place(*place) for holder, *place in await rows.fetchall()}

    async def due_streams(self, lease: Lease, now: datetime, known: Collection[UUID], limit: int) -> list[UUID]:
        """Returns the streams of deliveries that are due, without those that are known."""
        values = {**_key(lease), "now": now, "known": list(known), "limit": limit}
        async with self.client.turn() as connection:
            rows = await connection.execute(_DUE_STREAMS, values)
            return [stream_id for (stream_id,) in await rows.fetchall()]

    async def waiting(self, lease: Lease, streams: Collection[UUID]) -> list[Delivery]:
        """Returns the deliveries of these streams that have not ended, in their order."""
        if not streams:
            return []
        values = {
            **_key(lease),
            "streams": list(streams),
            "limit": _WAITING_AT_ONCE,
            "after": 0,
            "after_id": UUID(int=0),
        }
        found: list[Delivery] = []
        while True:  # all of them: a later event of a stream must not go before one that is left out
            async with self.client.turn() as connection:
                rows = await (await connection.execute(_WAITING, values)).fetchall()
            found += [_delivery(row) for row in rows]
            if len(rows) < _WAITING_AT_ONCE:
                return found
            values.update(after=found[-1].sequence, after_id=found[-1].id)

    async def versions(self, merchant_id: UUID) -> dict[UUID, int]:
        """Returns the present versions of a merchant's endpoints."""
        async with self.client.turn() as connection:
            rows = await connection.execute(_VERSIONS, (merchant_id,))
            return dict(await rows.fetchall())

    async def recorded_before(self, lease: Lease) -> tuple[int, bool]:
        """Returns the number of the last event that has a delivery, 0 if none has, and whether a delivery waits."""
        async with self.client.turn() as connection:
            row = await (await connection.execute(_RECORDED_BEFORE, _key(lease))).fetchone()
        assert row is not None, "an aggregate has one row"
        last, has_waiting = row
        return last, has_waiting

    async def recorded(self, lease: Lease, sequences: Collection[int]) -> set[int]:
        """Returns which of these numbers have a delivery already."""
        if not sequences:
            return set()
        values = (lease.merchant_id, lease.endpoint_id, ENCODE_ARRAY["int8"](list(sequences)))
        async with self.client.turn() as connection:
            rows = await connection.execute(_RECORDED, values)
            return {sequence for (sequence,) in await rows.fetchall()}

    async def bodies(self, lease: Lease, ids: Sequence[UUID]) -> dict[UUID, bytes]:
        """Returns the stored bytes of deliveries, as far as there are any, without those of an erased person."""
        if not ids:
            return {}
        async with self.client.turn() as connection:
            values = (lease.merchant_id, lease.endpoint_id, list(ids))
            rows = await (await connection.execute(_BODIES, values, binary=True)).fetchall()
            persons = {customer_id for _, customer_id, _ in rows if customer_id is not None}
            found = await connection.execute(_ERASED, (lease.merchant_id, list(persons))) if persons else None
            erased = set() if found is None else {customer_id for (customer_id,) in await found.fetchall()}
        return {delivery_id: bytes(body) for delivery_id, customer_id, body in rows if customer_id not in erased}

    async def skip(self, lease: Lease, deselected: Collection[str] | None = None) -> None:
        """Ends the deliveries to an endpoint that wait: those of these kinds, or all."""
        statement = _SKIP_ALL if deselected is None else _SKIP_KINDS
        values = {**_key(lease), "deselected": list(deselected or ())}
        skipped = 1
        while skipped:  # a turn for each: other leases are renewed meanwhile
            async with self.client.turn() as connection:
                skipped = (await connection.execute(statement.encode(), values)).rowcount
        async with self.client.turn() as connection:
            await connection.execute(_RECONSIDER, values)

    async def _endpoints(self, connection: Connection, merchants: Collection[UUID] | None) -> RowsOfAll:
        """Returns the endpoints of these merchants, or of all, on Citus."""
        of = "" if merchants is None else "where e.merchant_id = any(%(merchants)s)"
        values = {"merchants": list(merchants or ())}
        return await self.transactions.read_all(connection, _ENDPOINTS.format(of=of), values, merchants)


def _given(endpoints: RowsOfAll) -> dict[str, Any]:
    """Returns the columns of endpoints as the parameters of the statements that are given them."""
    names = ("merchant_ids", "endpoint_ids", "versions", "statuses", "sequences")
    columns = list(zip(*endpoints.rows, strict=True)) or [()] * len(names)
    return {name: list(column) for name, column in zip(names, columns, strict=True)}


def _key(lease: Lease) -> dict[str, Any]:
    return {"merchant_id": lease.merchant_id, "endpoint_id": lease.endpoint_id, "holder": lease.holder}


def _columns(leases: Sequence[Lease]) -> list[Array]:
    """Returns the merchants, endpoints and tokens of leases."""
    uuids = ENCODE_ARRAY["uuid"]
    return [
        uuids([lease.merchant_id.bytes for lease in leases]),
        uuids([lease.endpoint_id.bytes for lease in leases]),
        uuids([lease.holder.bytes for lease in leases]),
    ]


def _cursor(row: Sequence[Any]) -> Cursor:
    merchant_id, endpoint_id, holder, sequence, origin, version, failures, failing_since, success, paused = row
    health = Health(
        failures=failures,
        failing_since=_utc(failing_since),
        last_success_at=_utc(success),
        paused_until=_utc(paused),
    )
    return Cursor(Lease(merchant_id, endpoint_id, holder), sequence, origin, version, health)


def _delivery(row: Sequence[Any]) -> Delivery:
    delivery_id, event_id, sequence, kind, stream_id, is_repeat, next_at, first_failed_at, attempts = row
    tried = decode_attempts(attempts)
    return Delivery(
        id=delivery_id,
        event_id=event_id,
        sequence=sequence,
        kind=kind,
        stream_id=stream_id,
        is_repeat=is_repeat,
        is_recorded=True,
        status=DeliveryStatus.PENDING,
        # One that was never attempted waits for its order in the stream alone.
        due_at=_utc(next_at) if tried or first_failed_at is not None else None,
        first_failed_at=_utc(first_failed_at),
        noted_at=_utc(next_at),
        attempts=tried,
    )


def _utc(at: datetime | None) -> datetime | None:
    return None if at is None else at.astimezone(UTC)
