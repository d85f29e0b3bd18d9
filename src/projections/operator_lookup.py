"""Orders found over all merchants, for operators who hold no more than a number.

The rule a stranger would break: no request of a merchant comes here. These questions cross merchants, and none has an
index of its own that an append would have to pay for.
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

from ledger.domain.ids import parse_uuid
from ledger.journal.append import ClaimKind
from ledger.postgres.connection import Connection
from projections.search.lines import FIELD_END, LineKind, fold

Place = tuple[UUID, UUID]
"""Merchant and order."""

# The order with this service id: one probe of the primary key for each merchant.
_BY_ID: Final = """
select m.merchant_id, o.order_id from merchant m
 cross join lateral (select order_id from payment_order
                      where merchant_id = m.merchant_id and order_id = %s limit 1) o
"""

# The order with this number: the lines that searches read hold it, about a hundred orders to a row.
_BY_NUMBER: Final = """
select b.merchant_id, u.id from search_block b
 cross join lateral unnest(b.ids, string_to_array(b.texts, chr(10))) as u(id, text)
 where b.kind = %(kind)s and strpos(b.texts, %(line)s) > 0 and starts_with(u.text, %(line)s)
"""

# A merchant's order by its own name for it.
_BY_EXTERNAL_ID: Final = "select merchant_id, stream_id from claim where merchant_id = %s and kind = %s and key = %s"


async def find_orders(connection: Connection, reference: str) -> list[Place]:
    """The orders that a service id, an order number or `MERCHANT_ID/EXTERNAL_ID` names: one, or none."""
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
