"""Events that a merchant asks for again: their deliveries are inserted, and the worker makes them as any others.

They are attempted after the new events, with the bytes of the first delivery if those are stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from ledger.domain.rejections import ReplayInProgress
from ledger.operations.context.repeats import Replay, Replayed
from ledger.postgres.connection import Connection, SharedClient

_REPLAY_MAX: Final = 10_000
"""How many events one replay has."""

# Two requests about one endpoint at once would insert the same deliveries. The cursor's row is not locked: a replay
# takes a while, and the outcomes of all endpoints are written together.
_LOCK: Final = "select pg_advisory_xact_lock(hashtextextended('replay/' || %(endpoint_id)s::uuid, 0))"
# One that waits for its next attempt may do so for days: it is no reason to refuse a replay of others.
_IN_PROGRESS: Final = """
select exists (select from webhook_delivery where merchant_id = %(merchant_id)s and endpoint_id = %(endpoint_id)s
                  and status = 'PENDING' and is_repeat and attempts = '[]')
"""

# Inserts deliveries of the chosen events, with ids of the present time (UUIDv7) in the order of the numbers. One whose
# first attempt had failed is repeated with its bytes.
_INSERT: Final = """
insert into webhook_delivery (merchant_id, endpoint_id, id, event_id, sequence, kind, stream_id, status, is_repeat,
                              next_attempt_at, attempts, body, customer_id, has_texts)
select %(merchant_id)s, %(endpoint_id)s,
       (lpad(to_hex(floor(extract(epoch from clock_timestamp()) * 1000)::int8), 12, '0') || '7'
        || substr(replace(gen_random_uuid()::text, '-', ''), 14))::uuid,
       p.id, p.sequence, p.kind, p.stream_id, 'PENDING', true, now(), '[]', d.body, d.customer_id, d.body is not null
  from chosen p
  left join webhook_delivery d on d.merchant_id = %(merchant_id)s and d.endpoint_id = %(endpoint_id)s
                              and d.sequence = p.sequence and not d.is_repeat
 order by p.sequence
"""

# Whether an event waits to be repeated already.
_WAITS: Final = """
exists (select from webhook_delivery d
         where d.merchant_id = %(merchant_id)s and d.endpoint_id = %(endpoint_id)s and d.stream_id = p.stream_id
           and d.sequence = p.sequence and d.is_repeat and d.status = 'PENDING')
"""

# Public events that were read before: on Citus, deliveries are on the coordinator, and events are not.
_GIVEN: Final = """
(select %(merchant_id)s::uuid as merchant_id, e.*
   from unnest(%(ids)s::uuid[], %(sequences)s::int8[], %(kinds_of)s::text[], %(streams)s::uuid[])
        as e(id, sequence, kind, stream_id)) p"""
_EVENTS: Final = """
select id, sequence, kind, stream_id from public_event
 where merchant_id = %(merchant_id)s and sequence between %(first)s and %(last)s
   and (%(kinds)s::text[] is null or kind = any(%(kinds)s::text[]))
 order by sequence limit %(limit)s
"""
_EVENT: Final = """
select id, sequence, kind, stream_id from public_event where merchant_id = %(merchant_id)s and id = %(event_id)s
"""

# The events of a replay: those of the endpoint's kinds; with failed_only, those whose last delivery has FAILED.
_REPLAY_OF: Final = f"""
with chosen as (
  select p.* from {{events}}
   where p.merchant_id = %(merchant_id)s and p.sequence between %(first)s and %(last)s
     and (%(kinds)s::text[] is null or p.kind = any(%(kinds)s::text[]))
     and (not %(failed_only)s or 'FAILED' = (
       select d.status from webhook_delivery d
        where d.merchant_id = %(merchant_id)s and d.endpoint_id = %(endpoint_id)s and d.stream_id = p.stream_id
          and d.sequence = p.sequence order by d.id desc limit 1))
     and not {_WAITS}
   order by p.sequence limit %(limit)s),
inserted as ({_INSERT} returning sequence)
select count(*), max(sequence) from inserted
"""  # noqa: S608 - constants

# One event.
_REDELIVER_OF: Final = f"""
with chosen as (
  select p.* from {{events}}
   where p.merchant_id = %(merchant_id)s and p.id = %(event_id)s and not {_WAITS})
{_INSERT}
"""  # noqa: S608 - constants
_REPLAY, _REPLAY_GIVEN = (_REPLAY_OF.format(events=events) for events in ("public_event p", _GIVEN))
_REDELIVER, _REDELIVER_GIVEN = (_REDELIVER_OF.format(events=events) for events in ("public_event p", _GIVEN))

# Lets the worker find what is due now, by any clock that is not behind real time.
_WAKE: Final = """
update webhook_cursor set due_at = least(due_at, now())
 where merchant_id = %(merchant_id)s and endpoint_id = %(endpoint_id)s
"""


class Repeats:
    """Inserts deliveries, at one connection, at which requests take turns (see `operations.context.repeats`)."""

    def __init__(self, url: str) -> None:
        self._client = SharedClient(url, "ledger-deliveries")

    async def stop(self) -> None:
        """Disconnects."""
        await self._client.stop()

    async def replay(self, merchant_id: UUID, endpoint_id: UUID, replay: Replay) -> Replayed:
        """Inserts the deliveries of a range."""
        key: dict[str, Any] = {"merchant_id": merchant_id, "endpoint_id": endpoint_id}
        first, last = replay.from_sequence, replay.to_sequence
        async with self._client.turn() as connection, connection.transaction():
            await connection.execute(_LOCK, key)
            in_progress = await (await connection.execute(_IN_PROGRESS, key)).fetchone()
            if in_progress is not None and in_progress[0]:
                raise ReplayInProgress("Events are being delivered to this endpoint again: wait until they were.")
            values = {
                **key,
                "first": first,
                "last": last,
                "kinds": None if replay.kinds is None else sorted(replay.kinds),
                "failed_only": replay.failed_only,
                "limit": _REPLAY_MAX,
            }
            count, reached = await (_replay_given if connection.has_citus else _replay)(connection, values)
            await connection.execute(_WAKE, key)
        return Replayed(first, reached if count == _REPLAY_MAX else max(last, first - 1), count)

    async def redeliver(self, merchant_id: UUID, event_id: UUID, endpoints: Sequence[UUID]) -> None:
        """Inserts a delivery of an event to each of these endpoints, in a transaction each: none holds two cursors."""
        for endpoint_id in endpoints:
            values: dict[str, Any] = {"merchant_id": merchant_id, "endpoint_id": endpoint_id, "event_id": event_id}
            async with self._client.turn() as connection, connection.transaction():
                await connection.execute(_LOCK, values)
                redeliver = _REDELIVER
                if connection.has_citus:
                    redeliver = _REDELIVER_GIVEN
                    values |= _given(await (await connection.execute(_EVENT, values)).fetchall())
                await connection.execute(redeliver.encode(), values)
                await connection.execute(_WAKE, values)


async def _replay(connection: Connection, values: Mapping[str, Any], statement: str = _REPLAY) -> tuple[int, int]:
    """Inserts the deliveries of a replay. Returns how many, and the number of the last event among them."""
    inserted = await (await connection.execute(statement.encode(), values)).fetchone()
    assert inserted is not None, "a count has one row"
    count, reached = inserted
    return count, reached


async def _replay_given(connection: Connection, values: Mapping[str, Any]) -> tuple[int, int]:
    """Does what `_replay` does, with events that are read before, some at a time."""
    count, reached, first, read = 0, 0, values["first"], _REPLAY_MAX
    while read == _REPLAY_MAX and count < _REPLAY_MAX:
        found = await connection.execute(_EVENTS, {**values, "first": first, "limit": _REPLAY_MAX})
        events = await found.fetchall()
        given = {**values, **_given(events), "limit": _REPLAY_MAX - count}
        inserted, last = await _replay(connection, given, _REPLAY_GIVEN)
        count, reached, read = count + inserted, last or reached, len(events)
        first = events[-1][1] + 1 if events else first
    return count, reached


def _given(events: Sequence[tuple[Any, ...]]) -> dict[str, Any]:
    """Returns the columns of events as the parameters of the statements that are given them."""
    names = ("ids", "sequences", "kinds_of", "streams")
    columns = list(zip(*events, strict=True)) or [()] * len(names)
    return {name: list(column) for name, column in zip(names, columns, strict=True)}
