"""Renders stored orders again from their log, as this release shows them: after an upgrade, or after a restore by a
newer release.

It runs beside the service, in pages, and may be ended and run again. An order that changes meanwhile is rendered by its
own commit: never overwrite a row of another version.
"""

from __future__ import annotations

import asyncio
from typing import Final
from uuid import UUID

from msgspec import Struct

from ledger.domain.streams import ORDERS
from ledger.operations.context.ledger import Ledger
from ledger.postgres.connection import Connection
from projections.orders.table import rendered

_PAGE: Final = 200

# The orders of all merchants behind one of them.
_ORDERS: Final = """
select merchant_id, order_id from payment_order where (merchant_id, order_id) > (%s, %s)
 order by merchant_id, order_id limit %s
"""
_WRITE: Final = """
update payment_order set head = %(head)s, payments = %(payments)s
 where merchant_id = %(merchant_id)s and order_id = %(order_id)s and version = %(version)s
   and (head, payments) is distinct from (%(head)s, %(payments)s)
"""


class Rebuilt(Struct, frozen=True, kw_only=True):
    """How many orders were rendered, and how many of their rows had other bytes."""

    orders: int
    changed: int


async def rebuild_orders(ledger: Ledger, connection: Connection) -> Rebuilt:
    """Renders every order of every merchant. Raises KeyUnavailable, SealBroken if a key is missing; a Fault."""
    merchant_id = order_id = UUID(int=0)
    orders = changed = 0
    while True:
        page = await (await connection.execute(_ORDERS, (merchant_id, order_id, _PAGE))).fetchall()
        if not page:
            return Rebuilt(orders=orders, changed=changed)
        changed += sum(await asyncio.gather(*(_rebuild(ledger, connection, *key) for key in page)))
        orders += len(page)
        merchant_id, order_id = page[-1]


async def _rebuild(ledger: Ledger, connection: Connection, merchant_id: UUID, order_id: UUID) -> int:
    """Renders one order; returns 1 if its row had other bytes, else 0."""
    order, version = await ledger.journal.load(merchant_id, ORDERS, order_id)
    assert order is not None, "an order's row follows from its log"
    head, payments = rendered(order)
    row = {"merchant_id": merchant_id, "order_id": order_id, "version": version, "head": head, "payments": payments}
    written = await connection.execute(_WRITE, row)
    return written.rowcount
