"""Finds orders and subscriptions over all merchants, for an operator who has only one of their ids.

Never call this for a merchant's request: these queries cross merchants. None has an index of its own, which every
append would have to maintain.
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

from ledger.domain.ids import parse_uuid
from ledger.domain.streams import ClaimKind
from ledger.postgres.connection import Connection
from projections.search.lines import FIELD_END, LineKind, fold

Place = tuple[UUID, UUID]
"""Merchant, and order or subscription."""

# The order with this service id: one lookup by the primary key for each merchant.
_BY_ID: Final = """
select m.merchant_id, o.order_id from merchant m
 cross join lateral (select order_id from payment_order
                      where merchant_id = m.merchant_id and order_id = %s limit 1) o
"""

# The order with this number, from the lines that searches read: about a hundred orders to a row.
_BY_NUMBER: Final = """
select b.merchant_id, u.id from search_block b
 cross join lateral unnest(b.ids, string_to_array(b.texts, chr(10))) as u(id, text)
 where b.kind = %(kind)s and strpos(b.texts, %(line)s) > 0 and starts_with(u.text, %(line)s)
"""

# The stream of one kind that a merchant's external id names.
_BY_EXTERNAL_ID: Final = "select merchant_id, stream_id from claim where merchant_id = %s and kind = %s and key = %s"


# The subscription with this service id, whether it has started or not.
_SUBSCRIPTION_BY_ID: Final = """
select h.merchant_id, e.stream_id from merchant_head h
 cross join lateral (select stream_id, topic from event
                      where merchant_id = h.merchant_id and stream_id = %s and version = 1 limit 1) e
 where e.topic = 'subscription-requested.v1'
"""


async def find_subscriptions(connection: Connection, reference: str) -> list[Place]:
    """Returns the subscription with this service id or this `MERCHANT_ID/EXTERNAL_ID`, or an empty list."""
    merchant, slash, external_id = reference.partition("/")
    merchant_id, subscription_id = parse_uuid(merchant), parse_uuid(reference)
    if slash and merchant_id is not None:
        key = (merchant_id, ClaimKind.SUBSCRIPTION_EXTERNAL_ID.value, external_id)
        rows = await connection.execute(_BY_EXTERNAL_ID, key)
    elif subscription_id is not None:
        rows = await connection.execute(_SUBSCRIPTION_BY_ID, (subscription_id,))
    else:
        return []
    return [(found[0], found[1]) for found in await rows.fetchall()]


async def find_orders(connection: Connection, reference: str) -> list[Place]:
    """Returns the order with this service id, this order number or this `MERCHANT_ID/EXTERNAL_ID`, or an empty list."""
    merchant, slash, external_id = reference.partition("/")
    merchant_id, order_id = parse_uuid(merchant), parse_uuid(reference)
    if slash and merchant_id is not None:
        key = (merchant_id, ClaimKind.ORDER_EXTERNAL_ID.value, external_id)
        rows = await connection.execute(_BY_EXTERNAL_ID, key)
    elif order_id is not None:
        rows = await connection.execute(_BY_ID, (order_id,))
    else:
        line = fold(reference) + FIELD_END
        rows = await connection.execute(_BY_NUMBER, {"kind": LineKind.ORDER.value, "line": line})
    return [(found[0], found[1]) for found in await rows.fetchall()]
