"""Returns an order as a deposit or another message left it, to answer a client that sends the same message again."""

from __future__ import annotations

from uuid import UUID

from ledger.domain.fold import fold
from ledger.domain.orders.events import DepositReceived
from ledger.domain.orders.evolve.order import evolve
from ledger.operations.context.ledger import Ledger
from ledger.operations.context.results import OrderResult


async def version_after(ledger: Ledger, merchant_id: UUID, order_id: UUID, deposit_id: str | None) -> int:
    """Returns the version of an order after this deposit, or its present version. Raises a Fault."""
    events = await ledger.journal.reader.stream(merchant_id, order_id)
    for version, event in enumerate(events, 1):
        if isinstance(event, DepositReceived) and event.deposit_id == deposit_id:
            return version
    return len(events)


async def order_at_version(ledger: Ledger, merchant_id: UUID, order_id: UUID, version: int) -> OrderResult:
    """Returns an order as its first `version` events left it. Raises a Fault."""
    events = await ledger.journal.reader.stream(merchant_id, order_id)
    order = fold(evolve, None, events[:version])
    assert order is not None, "a version has events"
    customer = await ledger.customers.by_id(merchant_id, order.terms.customer_id)
    assert customer is not None, "an order's customer is never deleted"
    return OrderResult(order=order, customer=customer.customer, payment_id=None, created=False)
