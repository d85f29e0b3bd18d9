"""Deletes deliveries after thirty days, and what the texts of deliveries have of an erased person.

Bodies and answers are looked for in the hour after an erasure: an attempt that was under way may write some. No body is
read meanwhile. A worker begins with the erasures of two months, because none may have run when they happened, and
deliveries are kept for one.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Final

from ledger.background.deliveries.store import DeliveryStore
from ledger.postgres.connection import SharedClient

_BATCH: Final = 1_000
_PERSONS: Final = 10_000
_HOUR_S: Final = 3600.0
_MONTHS_S: Final = 60 * 24 * _HOUR_S

# The persons who were erased in the last so many seconds.
_ERASED: Final = """
select merchant_id, customer_id from data_key where destroyed_at > now() - %s * interval '1 second'
"""

# Removes the texts of persons from up to so many deliveries.
_FORGET: Final = """
with erased as (
  select d.merchant_id, d.endpoint_id, d.id
    from unnest(%(merchants)s::uuid[], %(customers)s::uuid[]) as k(merchant_id, customer_id)
    join webhook_delivery d on d.merchant_id = k.merchant_id and d.customer_id = k.customer_id
   where d.has_texts
   limit %(limit)s for update of d)
update webhook_delivery d
   set body = null, has_texts = false,
       attempts = (select coalesce(jsonb_agg(a - 'responseBody' order by n), '[]')
                     from jsonb_array_elements(d.attempts) with ordinality as e(a, n))
  from erased e
 where d.merchant_id = e.merchant_id and d.endpoint_id = e.endpoint_id and d.id = e.id
"""

# Deliveries that have waited for longer, for an endpoint that is disabled, are kept.
_DELETE: Final = """
delete from webhook_delivery d using (
  select merchant_id, endpoint_id, id from webhook_delivery
   where recorded_at < now() - interval '30 days' and status <> 'PENDING' order by recorded_at limit %s) old
 where d.merchant_id = old.merchant_id and d.endpoint_id = old.endpoint_id and d.id = old.id
"""


class Erasures:
    """What the texts of deliveries have of erased persons, as one worker removes it."""

    def __init__(self, store: DeliveryStore) -> None:
        self._store = store
        self._done_s: float | None = None  # when it was removed last, in monotonic time

    async def forget(self) -> None:
        """Removes bodies and answers of persons who were erased since an hour before the last time, or in two months.

        Raises a Fault, after which it is to be done again, and so it is after a node of Citus did not answer.
        """
        began_s = time.monotonic()
        seconds = _MONTHS_S if self._done_s is None else _HOUR_S + began_s - self._done_s
        async with self._store.client.turn() as connection:
            found = await self._store.transactions.read_all(connection, _ERASED, (seconds,))
        erased = list(found.rows)
        for first in range(0, len(erased), _PERSONS):
            await self._forget(erased[first : first + _PERSONS])
        if found.is_whole:
            self._done_s = began_s

    async def _forget(self, persons: Sequence[tuple[Any, ...]]) -> None:
        merchants, customers = zip(*persons, strict=True)
        values = {"merchants": list(merchants), "customers": list(customers), "limit": _BATCH}
        forgotten = _BATCH
        while forgotten == _BATCH:
            async with self._store.client.turn() as connection:
                forgotten = (await connection.execute(_FORGET, values)).rowcount


async def delete_old(client: SharedClient) -> None:
    """Deletes ended deliveries of more than thirty days ago. Raises a Fault."""
    deleted = _BATCH
    while deleted == _BATCH:
        async with client.turn() as connection:
            deleted = (await connection.execute(_DELETE, (_BATCH,))).rowcount
