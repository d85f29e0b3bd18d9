"""Finds a merchant's payment by its id alone, with its order: the subject of disputes and settlements.

The payment's id is recorded behind the log, so wait for a payment that was made a moment ago.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final
from uuid import UUID

from api.http.dependencies import Dependencies
from ledger.domain.orders.payment import Payment
from ledger.domain.orders.state import Order
from ledger.domain.rejections import PaymentNotFound
from ledger.operations.pipeline.unit_of_work import load_order

_WAIT_S: Final = 1.0
_PAUSE_S: Final = 0.1
_OUR_VERSION: Final = 7  # the UUID version of the service's own ids: an id of another version is never a payment's


async def find_payment(deps: Dependencies, merchant_id: UUID, payment_id: UUID, account: str) -> tuple[Order, Payment]:
    """Returns the order and its payment at this account as they are now. Raises PaymentNotFound, a Fault."""
    assert deps.payment_lookup is not None, "only the sandbox has these routes"
    until = time.monotonic() + _WAIT_S
    while not (found := await deps.payment_lookup.find(merchant_id, str(payment_id))):
        if payment_id.version != _OUR_VERSION or time.monotonic() > until:
            raise PaymentNotFound("The merchant has no payment with this id.")
        await asyncio.sleep(_PAUSE_S)
    order = await load_order(deps.ledger, merchant_id, found[0][0])
    payment = order.payment(payment_id)
    if payment.account != account:
        raise PaymentNotFound(f"The account {account} has no payment with this id: it is at {payment.account}.")
    return order, payment
