"""Events that a merchant asks for again: their deliveries are inserted, and the worker makes them as any others.

They are attempted after the new events, with the bytes of the first delivery if those are stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from ledger.domain.rejections import ReplayInProgress
from ledger.operations.context.repeats import Replay, Replayed
from ledger.postgres.connection import SharedClient

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

# The events of a replay: those of the endpoint's kinds; with failed_only, those whose last delivery has FAILED.
_REPLAY: Final = f"""
with chosen as (
  select p.* from public_event p
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
_REDELIVER: Final = f"""
with chosen as (
  select p.* from public_event p
   where p.merchant_id = %(merchant_id)s and p.id = %(event_id)s and not {_WAITS})
{_INSERT}
"""  # noqa: S608 - constants

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
            inserted = await (await connection.execute(_REPLAY.encode(), values)).fetchone()
            assert inserted is not None, "a count has one row"
            await connection.execute(_WAKE, key)
        count, reached = inserted
        return Replayed(first, reached if count == _REPLAY_MAX else max(last, first - 1), count)

    async def redeliver(self, merchant_id: UUID, event_id: UUID, endpoints: Sequence[UUID]) -> None:
        """Inserts a delivery of an event to each of these endpoints, in a transaction each: none holds two cursors."""
        for endpoint_id in endpoints:
            values = {"merchant_id": merchant_id, "endpoint_id": endpoint_id, "event_id": event_id}
            async with self._client.turn() as connection, connection.transaction():
                await connection.execute(_LOCK, values)
                await connection.execute(_REDELIVER.encode(), values)
                await connection.execute(_WAKE, values)
