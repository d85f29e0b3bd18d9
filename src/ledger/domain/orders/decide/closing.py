"""The end of a cancellation: once nothing is under way any more, the order is closed or it stands.

The rule a stranger would break: whoever records an outcome lets its events pass through here, or an order waits for ever
in CANCELLATION_REQUESTED.
"""

from __future__ import annotations

from typing import Final

from ledger.domain.fold import fold
from ledger.domain.orders.events import CancellationRefused, OrderCancelled, OrderEvent
from ledger.domain.orders.evolve.order import evolve
from ledger.domain.orders.payment import Payment
from ledger.domain.orders.state import Order
from ledger.domain.orders.statuses import PaymentStatus

_UNDER_WAY: Final = frozenset(
    {
        PaymentStatus.CREATED,
        PaymentStatus.PENDING_AUTHORIZATION,
        PaymentStatus.REQUIRES_ACTION,
        PaymentStatus.CAPTURING,
        PaymentStatus.PENDING_CANCELLATION,
    }
)


def with_cancellation_closed(order: Order, events: list[OrderEvent]) -> list[OrderEvent]:
    """These events, and the order's last word where they end a cancellation (contract 2.2).

    Closed where no money is held and nothing is authorised; standing where a processor kept an authorisation, a refund
    failed, or money arrived first.
    """
    if not events or not order.cancel_requested:
        return events
    after = fold(evolve, order, events)
    if any(_is_under_way(payment) for payment in after.payments):
        return events
    at = after.updated_at
    if after.net > 0 or any(payment.is_uncaptured for payment in after.payments):
        return [*events, CancellationRefused(at=at)]
    return [*events, OrderCancelled(at=at)]


def _is_under_way(payment: Payment) -> bool:
    waits_for_its_void = payment.is_uncaptured and not payment.void_refused
    return payment.status in _UNDER_WAY or payment.refunding > 0 or waits_for_its_void
