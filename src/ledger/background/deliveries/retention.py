"""Deletes deliveries after thirty days, and what the texts of deliveries have of an erased person.

Bodies and answers are looked for in the hour after an erasure: an attempt that was under way may write some. No body is
read meanwhile.
"""

from __future__ import annotations

from typing import Final

from ledger.postgres.connection import SharedClient

_BATCH: Final = 1_000

_FORGET: Final = """
update webhook_delivery d
   set body = null, has_texts = false,
       attempts = (select coalesce(jsonb_agg(a - 'responseBody' order by n), '[]')
                     from jsonb_array_elements(d.attempts) with ordinality as e(a, n))
  from data_key k
 where k.destroyed_at > now() - interval '1 hour'
   and d.merchant_id = k.merchant_id and d.customer_id = k.customer_id and d.has_texts
"""

# Deliveries that have waited for longer, for an endpoint that is disabled, are kept.
_DELETE: Final = """
delete from webhook_delivery d using (
  select merchant_id, endpoint_id, id from webhook_delivery
   where recorded_at < now() - interval '30 days' and status <> 'PENDING' order by recorded_at limit %s) old
 where d.merchant_id = old.merchant_id and d.endpoint_id = old.endpoint_id and d.id = old.id
"""


async def forget_erased(client: SharedClient) -> None:
    """Removes bodies and answers of persons who were erased lately. Raises a Fault."""
    async with client.turn() as connection:
        await connection.execute(_FORGET)


async def delete_old(client: SharedClient) -> None:
    """Deletes ended deliveries of more than thirty days ago. Raises a Fault."""
    deleted = _BATCH
    while deleted == _BATCH:
        async with client.turn() as connection:
            deleted = (await connection.execute(_DELETE, (_BATCH,))).rowcount
