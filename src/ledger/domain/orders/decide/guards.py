"""Checks that several deciders share, each with the rejection that the contract names."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Final
from uuid import UUID

from ledger.domain.money import AMOUNT_MAX, CENTAVO, FINEST, ZERO, is_multiple, plain
from ledger.domain.orders.capabilities import USUAL, AccountRules, Rules
from ledger.domain.orders.payment import Payment
from ledger.domain.orders.state import Order
from ledger.domain.orders.statuses import OrderStatus
from ledger.domain.orders.terms import LineItem
from ledger.domain.rejections import (
    AmountNotChargeable,
    InvalidField,
    InvalidOrderState,
    PaymentNotFound,
)

_LINES_TOLERANCE: Final = Decimal("0.001")


def require_multiple(order: Order, amount: Decimal, field: str = "amount", most: Decimal = AMOUNT_MAX) -> None:
    """Raises InvalidField unless `amount` is positive, at most `most`, and a multiple of the order's quantum.

    The rule is section 8.6 of the contract. Amounts are in minor units. `field` is the field's name in the interface.
    """
    if not (amount.is_finite() and ZERO < amount <= most):
        raise InvalidField(field, f"must be greater than 0 and at most {most}")
    if not is_multiple(amount, order.quantum):
        raise InvalidField(field, f"must be a multiple of {order.quantum}, as the order's own amount is")


def require_amount(amount: Decimal) -> None:
    """Raises InvalidField for an amount that no order can have (contract N6)."""
    if not (amount.is_finite() and ZERO < amount <= AMOUNT_MAX):
        raise InvalidField("amount", f"must be greater than 0 and at most {AMOUNT_MAX}")
    if not is_multiple(amount, FINEST):
        raise InvalidField("amount", "must have at most four decimals")


def require_lines(lines: Sequence[LineItem], amount: Decimal) -> None:
    """Raises InvalidField for lines that do not add up to the amount of their order (contract N5)."""
    if not lines:
        return
    total = sum([line.quantity * line.unit_price for line in lines], ZERO)
    if abs(total - amount) > _LINES_TOLERANCE:
        sums = f"the sum of quantity × unitPrice is {plain(total)}, and amount is {plain(amount)}"
        raise InvalidField("lineItems", f"must add up to amount: {sums}", "LINE_ITEMS_SUM")


def require_chargeable(amount: Decimal, smallest: Decimal) -> None:
    """Raises AmountNotChargeable unless an amount in minor units is a multiple of the `smallest` that can be moved."""
    if not is_multiple(amount, smallest):
        raise AmountNotChargeable(
            f"No payment can be made of {plain(amount)} minor units: send a multiple of {plain(smallest)}. Amounts are in "
            "minor units, so that MXN 28.48 is 2848."
        )


def require_whole_centavos(amount: Decimal) -> None:
    """Raises AmountNotChargeable for an amount in minor units that no invoice can state."""
    if not is_multiple(amount, CENTAVO):
        raise AmountNotChargeable(
            f"The fiscal data ask for an invoice, and no invoice can state {plain(amount)} minor units, which have a "
            "fraction of a centavo: use a whole number. MXN 2,848.70 is 284870."
        )


def rules_of(rules: Rules, payment: Payment) -> AccountRules:
    """Returns the rules of the account at which a payment was made."""
    return rules.get(payment.account, USUAL)


def require_payment(order: Order, payment_id: UUID) -> Payment:
    """Returns the order's payment with this id. Raises PaymentNotFound."""
    if not order.has_payment(payment_id):
        raise PaymentNotFound("The order has no payment with this id.")
    return order.payment(payment_id)


def wrong_state(order: Order, message: str, *allowed: OrderStatus) -> InvalidOrderState:
    """Returns the rejection of a command that the order's status does not allow; `allowed` are the statuses that do."""
    return InvalidOrderState(message, currentStatus=order.status, allowedStatuses=allowed)
