"""The fold of what is said about an order as a whole: its cancellation, and that its payer is forgotten.

The rule a stranger would break: the same as for `evolve`: nothing here says no.
"""

from __future__ import annotations

from msgspec.structs import replace

from ledger.domain.orders.events import (
    PERSONAL,
    CancellationRefused,
    CancellationRequested,
    OrderCancelled,
    OrderCreated,
    PayerForgotten,
    PaymentStarted,
)
from ledger.domain.orders.state import Cancellation, Order
from ledger.domain.personal_data import without

CancellationStep = CancellationRequested | CancellationRefused | OrderCancelled


def evolve_cancellation(order: Order, event: CancellationStep) -> Order:
    """The order after a word about its end. The last cancellation is kept, so that it is known when it is repeated."""
    match event:
        case CancellationRequested():
            asked = Cancellation(event.cancellation_id, event.reason, event.refund_captured)
            return replace(order, cancel_requested=True, cancellation=asked, updated_at=event.at)
        case CancellationRefused():
            return replace(order, cancel_requested=False, updated_at=event.at)
        case OrderCancelled():
            asked = _carried_out(order.cancellation, event)
            return replace(order, cancel_requested=False, closed=True, cancellation=asked, updated_at=event.at)


def _carried_out(asked: Cancellation | None, event: OrderCancelled) -> Cancellation:
    """The cancellation that closed the order: the one that the event names, or the one that was asked for."""
    if asked is None or event.cancellation_id not in {None, asked.cancellation_id}:
        return Cancellation(event.cancellation_id, event.reason)
    return asked


def evolve_payer_erasure(order: Order, event: PayerForgotten) -> Order:
    """The order without anything about the person who paid it."""
    payments = tuple(
        replace(payment, started=without(payment.started, PERSONAL[PaymentStarted])) for payment in order.payments
    )
    terms = without(order.terms, PERSONAL[OrderCreated])
    return replace(order, terms=terms, payments=payments, payer_forgotten=True, updated_at=event.at)
