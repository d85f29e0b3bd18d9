"""The arithmetic of an order as its answer shows it, without any model: I1 to I5 of section 4.5 of the contract.

The rule a stranger would break: nothing is read here but the answer, so that a merchant could do the same sums.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

_IN_ORDER = ("refundedAmount", "capturedAmount", "authorizedAmount")


def broken_sums(order: Mapping[str, Any]) -> Iterator[str]:
    """The invariants that an order's detail does not keep."""
    payments = order["payments"]
    money = {name: Decimal(str(value or 0)) for name, value in order.items() if "mount" in name and _is_number(value)}
    held = money["amountPaid"] - money["amountRefunded"]
    if money["amount"] != money["subtotalAmount"] + money.get("surchargeAmount", 0):
        yield "I1: the amount is not subtotal and surcharge"
    if money["amountPending"] != max(0, money["amount"] - held):
        yield "I2: what is pending is not what is left"
    if money["amountPaid"] != _total(payments, "capturedAmount"):
        yield "I3: what was paid is not what was captured"
    if not money["amountRefunded"] == money["refundedAmount"] == _total(payments, "refundedAmount"):
        yield "I3: what was refunded is not what its payments gave back"
    for payment in payments:
        amounts = [Decimal(0), *(Decimal(payment[name]) for name in _IN_ORDER)]
        if amounts != sorted(amounts):
            yield f"I4: payment {payment['id']} gave back more than it took, or took more than was granted"
    if order["allowPartials"] and money["amountPending"] > money["subtotalAmount"]:
        yield "I5: more is pending than was asked for"


def _is_number(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _total(payments: list[Mapping[str, Any]], name: str) -> Decimal:
    return sum((Decimal(payment[name]) for payment in payments), Decimal(0))
