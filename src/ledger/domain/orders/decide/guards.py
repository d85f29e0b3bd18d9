"""What several decisions insist on, each with the refusal that the contract names."""

from __future__ import annotations

from decimal import Decimal
from uuid import UUID

from ledger.domain.money import AMOUNT_MAX, ZERO, is_multiple
from ledger.domain.orders.commands import NewPayment
from ledger.domain.orders.payment import Payment
from ledger.domain.orders.state import Order
from ledger.domain.orders.statuses import OrderStatus
from ledger.domain.rejections import InvalidField, InvalidOrderState, MethodNotEnabled, PaymentNotFound


def require_multiple(order: Order, amount: Decimal, field: str = "amount", most: Decimal = AMOUNT_MAX) -> None:
    """A later amount on an order is positive and a multiple of its quantum (section 8.6). Raises InvalidField."""
    if not (amount.is_finite() and ZERO < amount <= most):
        raise InvalidField(field, f"must be greater than 0 and at most {most}")
    if not is_multiple(amount, order.quantum):
        raise InvalidField(field, f"must be a multiple of {order.quantum}, as the order's own amount is")


def require_currency(currency: str, payment: NewPayment) -> None:
    """The processor takes the payment's method in the order's currency. Raises MethodNotEnabled."""
    if payment.currencies is not None and currency not in payment.currencies:
        method = payment.method.type.lower()
        raise MethodNotEnabled(
            f"Payments by {method} are not taken in {currency}, only in {_listed(payment.currencies)}."
        )


def require_payment(order: Order, payment_id: UUID) -> Payment:
    """The order's payment that a request names. Raises PaymentNotFound."""
    if not order.has_payment(payment_id):
        raise PaymentNotFound("The payment was not found on this order.")
    return order.payment(payment_id)


def wrong_state(order: Order, message: str, *allowed: OrderStatus) -> InvalidOrderState:
    """A command that has no edge from where the order stands."""
    return InvalidOrderState(message, currentStatus=order.status, allowedStatuses=allowed)


def _listed(names: frozenset[str]) -> str:
    return ", ".join(sorted(names))
