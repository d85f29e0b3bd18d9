"""A payment of the merchant's by its id, with its order: what disputes and settlements are about.

The rule a stranger would break: the payment's name is noted behind the log. A payment of a moment ago is waited for.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final
from uuid import UUID

from api.dependencies import Dependencies
from ledger.domain.orders.payment import Payment
from ledger.domain.orders.state import Order
from ledger.domain.rejections import PaymentNotFound
from ledger.operations.pipeline.unit_of_work import load_order

_PATIENCE_S: Final = 1.0
_PAUSE_S: Final = 0.1
_OURS: Final = 7  # the version of the ids that we give: no other can be a payment's


async def find_payment(rooms: Dependencies, merchant_id: UUID, payment_id: UUID) -> tuple[Order, Payment]:
    """The payment and its order as they stand. Raises PaymentNotFound, a Fault."""
    assert rooms.names is not None, "only the sandbox has these routes"
    until = time.monotonic() + _PATIENCE_S
    while not (places := await rooms.names.find(merchant_id, str(payment_id))):
        if payment_id.version != _OURS or time.monotonic() > until:
            raise PaymentNotFound("The payment was not found.")
        await asyncio.sleep(_PAUSE_S)
    order = await load_order(rooms.ledger, merchant_id, places[0][0])
    return order, order.payment(payment_id)
