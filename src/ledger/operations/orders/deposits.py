"""Returns an order as a deposit left it, to answer a client that sends the same deposit again."""

from __future__ import annotations

from uuid import UUID

from ledger.domain.orders.events import DepositReceived
from ledger.domain.orders.evolve.order import evolve
from ledger.domain.orders.state import Order
from ledger.operations.ledger import Ledger
from ledger.operations.results import OrderResult


async def order_after_deposit(ledger: Ledger, merchant_id: UUID, order_id: UUID, deposit_id: str) -> OrderResult | None:
    """Returns the order after this deposit, or None where the order has not recorded it. Raises a Fault."""
    order: Order | None = None
    for event in await ledger.journal.reader.stream(merchant_id, order_id):
        order = evolve(order, event)
        if isinstance(event, DepositReceived) and event.deposit_id == deposit_id:
            customer = await ledger.customers.by_id(merchant_id, order.terms.customer_id)
            assert customer is not None, "an order's customer is never deleted"
            return OrderResult(order=order, customer=customer.customer, payment_id=None, created=False)
    return None
