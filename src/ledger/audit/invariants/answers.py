"""The arithmetic of an order as its answer shows it: I1 to I5 of section 4.5 of the contract.

Read the answer only, and no model: a merchant can compute the same sums.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

_NEVER_DECREASING = ("refundedAmount", "capturedAmount", "authorizedAmount")


def broken_amounts(order: Mapping[str, Any]) -> Iterator[str]:
    """Yields the invariants that a served order violates."""
    payments = order["payments"]
    money = {name: Decimal(str(value or 0)) for name, value in order.items() if "mount" in name and _is_number(value)}
    held = money["amountPaid"] - money["amountRefunded"]
    if money["amount"] != money["subtotalAmount"] + money.get("surchargeAmount", 0):
        yield "I1: amount differs from subtotal plus surcharge"
    if money["amountPending"] != max(0, money["amount"] - held):
        yield "I2: amountPending differs from what is left to pay"
    if money["amountPaid"] != _total(payments, "capturedAmount"):
        yield "I3: amountPaid differs from the captured total"
    if not money["amountRefunded"] == money["refundedAmount"] == _total(payments, "refundedAmount"):
        yield "I3: amountRefunded differs from the refunded total of the payments"
    for payment in payments:
        amounts = [Decimal(0), *(Decimal(payment[name]) for name in _NEVER_DECREASING)]
        if amounts != sorted(amounts):
            yield f"I4: payment {payment['id']} refunded more than it captured, or captured more than was authorised"
    if order["allowPartials"] and money["amountPending"] > money["subtotalAmount"]:
        yield "I5: amountPending exceeds the requested amount"


def _is_number(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _total(payments: list[Mapping[str, Any]], name: str) -> Decimal:
    return sum((Decimal(payment[name]) for payment in payments), Decimal(0))
