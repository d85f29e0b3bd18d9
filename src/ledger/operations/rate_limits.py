"""How often keys have asked lately, counted for several processes at once: one upsert for all requests that wait together.

The rule a stranger would break: the database's clock counts, never a process's own. Two clocks apart by a second would
give a key two limits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any, Final
from uuid import UUID

from msgspec import Struct

from ledger.postgres.arrays import ENCODE_ARRAY
from ledger.postgres.connection import Connection
from ledger.postgres.dataloader import DataLoader


class RateRequest(Struct, frozen=True):
    """One request of a key. Limits of 0 are none."""

    merchant_id: UUID
    key_id: UUID
    per_minute: int
    per_second: int


class RateDecision(Struct, frozen=True):
    """Whether a request was let through, and in how many seconds the key's two buckets are full again."""

    admitted: bool
    minute_full_in_s: float
    second_full_in_s: float


# How many of a row's requests fit into both buckets (the generic cell rate algorithm, ITU-T I.371): `r` is how full they
# were, `excluded` what is asked now. Sums of tenths do not come out even, hence the hair.
_FITS: Final = """greatest(0, least(excluded.asked,
      case when excluded.per_minute = 0 then excluded.asked
           else floor((60 - greatest(r.minute_full_at - excluded.asked_at, 0)) * excluded.per_minute / 60 + 1e-6) end,
      case when excluded.per_second = 0 then excluded.asked
           else floor((1 - greatest(r.second_full_at - excluded.asked_at, 0)) * excluded.per_second + 1e-6) end))"""

# Count the requests of some keys; a key that never asked has full buckets. What is refused takes nothing out of them.
_TAKE: Final = f"""
with wanted as (
  select *, extract(epoch from clock_timestamp())::float8 as now,
         least(asked, coalesce(nullif(per_minute, 0), asked), coalesce(nullif(per_second, 0), asked)) as fit
    from unnest(%s::uuid[], %s::uuid[], %s::int4[], %s::int4[], %s::int4[])
      as w(merchant_id, key_id, asked, per_minute, per_second))
insert into request_rate as r
  (merchant_id, key_id, asked, per_minute, per_second, asked_at, admitted, minute_full_at, second_full_at)
select merchant_id, key_id, asked, per_minute, per_second, now, fit,
       now + coalesce(fit * 60::float8 / nullif(per_minute, 0), 0), now + coalesce(fit::float8 / nullif(per_second, 0), 0)
  from wanted order by merchant_id, key_id
on conflict (merchant_id, key_id) do update set
  asked = excluded.asked, per_minute = excluded.per_minute, per_second = excluded.per_second,
  asked_at = excluded.asked_at, admitted = {_FITS},
  minute_full_at = greatest(r.minute_full_at, excluded.asked_at)
    + coalesce({_FITS} * 60::float8 / nullif(excluded.per_minute, 0), 0),
  second_full_at = greatest(r.second_full_at, excluded.asked_at)
    + coalesce({_FITS}::float8 / nullif(excluded.per_second, 0), 0)
returning merchant_id, key_id, admitted, minute_full_at - asked_at, second_full_at - asked_at
"""  # noqa: S608 - put together from constants

_Request = tuple[RateRequest, int]  # each counts, however alike they are


class SharedRateLimits:
    """Takes requests out of the buckets of their keys, on a connection of its own."""

    def __init__(self, url: str) -> None:
        self._taking = DataLoader[_Request, RateDecision](url, "ledger-rates", _take)
        self._numbers = count()

    async def start(self) -> None:
        """Connect. Raises psycopg.OperationalError."""
        await self._taking.start()

    async def stop(self) -> None:
        await self._taking.stop()

    async def take(self, asked: RateRequest) -> RateDecision:
        """Count one request. Raises DatabaseUnavailable, QueueFull."""
        taken = await self._taking.get((asked, next(self._numbers)))
        assert taken is not None, "every request has its row"
        return taken


async def _take(connection: Connection, requests: Sequence[_Request]) -> Mapping[_Request, RateDecision]:
    """Those of one key share a row: the first of them are let through, as many as fit."""
    together: dict[tuple[UUID, UUID], list[_Request]] = {}
    for request in requests:
        together.setdefault((request[0].merchant_id, request[0].key_id), []).append(request)
    last = [some[-1][0] for some in together.values()]
    columns = (
        ENCODE_ARRAY["uuid"]([asked.merchant_id.bytes for asked in last]),
        ENCODE_ARRAY["uuid"]([asked.key_id.bytes for asked in last]),
        ENCODE_ARRAY["int4"]([len(some) for some in together.values()]),
        ENCODE_ARRAY["int4"]([asked.per_minute for asked in last]),
        ENCODE_ARRAY["int4"]([asked.per_second for asked in last]),
    )
    cursor = connection.cursor(binary=True)
    await cursor.execute(_TAKE, columns)
    taken: dict[_Request, RateDecision] = {}
    rows: list[tuple[Any, ...]] = await cursor.fetchall()
    for merchant_id, key_id, admitted, minute_full_in_s, second_full_in_s in rows:
        for n, request in enumerate(together[merchant_id, key_id]):
            taken[request] = RateDecision(n < admitted, minute_full_in_s, second_full_in_s)
    return taken
