"""The fold of a payment order: its state after one more event.

Never refuse an event and never read a rule of the business in this package: a stream that was written under older rules
must load for ever.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from ledger.domain.orders.events import OrderCreated, OrderEvent, PaymentStarted
from ledger.domain.orders.evolve import (
    after_capture,
    card,
    disputes,
    pending,
    releases,
    unanswered_calls,
    whole_order,
)
from ledger.domain.orders.evolve.payments import Folds
from ledger.domain.orders.payment import EntryAction, EntryStatus, HistoryEntry, Payment
from ledger.domain.orders.state import Order
from ledger.domain.orders.statuses import PaymentStatus


def _payment_started(order: Order, event: PaymentStarted) -> Order:
    amount = event.subtotal + event.surcharge
    entry = HistoryEntry(EntryAction.CREATION, EntryStatus.SUCCESS, amount, event.at)
    payment = Payment(started=event, status=PaymentStatus.CREATED, updated_at=event.at, entries=(entry,))
    return replace(order, payments=(*order.payments, payment), updated_at=event.at)


EVOLVE: Final[Folds] = {
    PaymentStarted: _payment_started,
    **card.EVOLVE,
    **pending.EVOLVE,
    **releases.EVOLVE,
    **after_capture.EVOLVE,
    **disputes.EVOLVE,
    **unanswered_calls.EVOLVE,
    **whole_order.EVOLVE,
}
"""The fold of each event after the first."""


def evolve(order: Order | None, event: OrderEvent) -> Order:
    """Returns the order after `event`. `order` is None before `OrderCreated`."""
    if isinstance(event, OrderCreated):
        return Order(terms=event, updated_at=event.at)
    assert order is not None, "a stream begins with its creation"
    return EVOLVE[type(event)](order, event)
