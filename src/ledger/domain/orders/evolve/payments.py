"""The payments of an order as they are folded: one payment changes, and its order keeps the others."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import wraps
from typing import Any, Protocol, TypeVar
from uuid import UUID

from msgspec.structs import replace

from ledger.domain.orders.payment import Payment
from ledger.domain.orders.state import Order

Folds = dict[type, Callable[[Order, Any], Order]]
"""A table of folds: for each type of event, the function that returns the order after such an event."""


class PaymentEvent(Protocol):
    """An event about one payment."""

    @property
    def payment_id(self) -> UUID: ...
    @property
    def at(self) -> datetime: ...


E = TypeVar("E", bound=PaymentEvent)


def on_payment(fold: Callable[[Payment, E], Payment]) -> Callable[[Order, E], Order]:
    """Returns the fold of an order from that of the event's payment, which depends on nothing else in the order."""

    @wraps(fold)
    def fold_order(order: Order, event: E) -> Order:
        before = order.payment(event.payment_id)
        return with_payment(order, event, before, fold(before, event))

    return fold_order


def with_payment(order: Order, event: PaymentEvent, before: Payment, after: Payment) -> Order:
    """Returns the order after `event`, with the payment `after` in the place of `before`."""
    if len(order.payments) > 1:
        payments = tuple(after if payment is before else payment for payment in order.payments)
    else:
        payments = (after,)
    # Money that arrives after an order was closed reopens it (section 8.1).
    closed = order.closed and after.captured == before.captured
    return replace(order, payments=payments, updated_at=event.at, closed=closed)
