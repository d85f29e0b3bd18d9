"""The end of a cancellation: when its last call has an outcome, the order is closed or the cancellation is refused.

Pass the events of every recorded outcome through `with_cancellation_closed`. Otherwise an order stays in
CANCELLATION_REQUESTED for ever.
"""

from __future__ import annotations

from typing import Final

from ledger.domain.fold import fold
from ledger.domain.orders.events import CancellationRefused, OrderCancelled, OrderEvent
from ledger.domain.orders.evolve.order import evolve
from ledger.domain.orders.payment import Payment
from ledger.domain.orders.state import Order
from ledger.domain.orders.statuses import PaymentStatus

_IN_PROGRESS: Final = frozenset(
    {
        PaymentStatus.CREATED,
        PaymentStatus.PENDING_AUTHORIZATION,
        PaymentStatus.REQUIRES_ACTION,
        PaymentStatus.CAPTURING,
        PaymentStatus.PENDING_CANCELLATION,
    }
)


def with_cancellation_closed(order: Order, events: list[OrderEvent]) -> list[OrderEvent]:
    """Returns `events`, with the event that ends a pending cancellation if they complete it (contract 2.2).

    It is OrderCancelled if no money is held and nothing is authorised. It is CancellationRefused if a processor
    kept an authorisation, a refund failed, or money arrived first.
    """
    if not events or not order.cancel_requested:
        return events
    after = fold(evolve, order, events)
    if any(_is_in_progress(payment) for payment in after.payments):
        return events
    at = after.updated_at
    if after.net > 0 or any(payment.is_uncaptured for payment in after.payments):
        return [*events, CancellationRefused(at=at)]
    return [*events, OrderCancelled(at=at)]


def _is_in_progress(payment: Payment) -> bool:
    awaits_void = payment.is_uncaptured and not payment.void_refused
    return payment.status in _IN_PROGRESS or payment.refunding > 0 or awaits_void
