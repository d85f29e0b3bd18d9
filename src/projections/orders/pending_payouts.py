"""The refunds that wait for their merchants: those that no processor pays out, for an operator.

Never call this for a merchant's request: the query crosses merchants.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from decimal import Decimal
from typing import Final
from uuid import UUID

from msgspec import Struct

from ledger.domain.orders.state import Order
from ledger.postgres.connection import Connection

# The orders with a refund under way, by the index of statuses, one merchant after the other. The refund of money that
# came in after the payment had ended does not show in its status, nor in the order's: of the orders with references
# (bits 2 and 4), those with such a payment are read too. A row with an open call has no payments.
_REFUNDING: Final = """
select m.merchant_id, o.order_id from merchant m
 cross join lateral (
   (select order_id from payment_order
     where merchant_id = m.merchant_id and status = any('{REFUND_PROCESSING,CANCELLATION_REQUESTED}')
     order by status, created_at, order_id)
   union all
   (select order_id from payment_order
     where merchant_id = m.merchant_id and status = any('{PARTIALLY_REFUNDED,PARTIALLY_PAID,COMPLETED}')
       and coalesce(method_types, 2) & 6 <> 0
       and (call_deadline_at is not null or position('"status":"REFUNDED"'::bytea in payments) > 0
            or position('"status":"FAILED"'::bytea in payments) > 0)
     order by status, created_at, order_id)) o
"""

LoadOrder = Callable[[UUID, UUID], Awaitable[Order | None]]
"""Returns a merchant's order, None for one that cannot be read."""


class PendingPayout(Struct, frozen=True, kw_only=True, rename="camel"):
    """One payment's part of a refund that its merchant has to pay out: `amount` in minor units.

    `requested_at` is by the merchant's clock.
    """

    merchant_id: UUID
    order_id: UUID
    refund_id: UUID
    payment_id: UUID
    amount: Decimal
    currency: str
    requested_at: datetime


async def pending_payouts(connection: Connection, load: LoadOrder) -> list[PendingPayout]:
    """Returns the payouts that wait for their merchants, the oldest first. Raises like `load` and the connection."""
    found = list[PendingPayout]()
    for merchant_id, order_id in await (await connection.execute(_REFUNDING)).fetchall():
        order = await load(merchant_id, order_id)
        if order is not None:
            found += _of_order(merchant_id, order)
    return sorted(found, key=lambda each: each.requested_at)


def _of_order(merchant_id: UUID, order: Order) -> list[PendingPayout]:
    return [
        PendingPayout(
            merchant_id=merchant_id,
            order_id=order.terms.order_id,
            refund_id=refund.refund_id,
            payment_id=part.payment_id,
            amount=part.amount,
            currency=order.terms.currency,
            requested_at=refund.at,
        )
        for refund in order.refunds
        for part in refund.parts
        if part.is_paid_out_by_hand and part.by_merchant
    ]
