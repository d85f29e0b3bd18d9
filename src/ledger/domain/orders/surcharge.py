"""The surcharge on top of an order's amount, and how captured and refunded money divides into the two (contract 4).

The rule a stranger would break: a part is always computed from the whole sum so far, never added up from instalments,
so that any series of partial captures and refunds ends at exactly the subtotal and the surcharge.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Final

from msgspec import Struct

from ledger.domain.money import ZERO, rounded, share
from ledger.domain.orders.terms import MethodType, SurchargePolicy


class SurchargeSplit(Struct, frozen=True):
    """A gross amount in minor units, divided: what counts towards the order, and what was put on top of it."""

    subtotal: Decimal
    surcharge: Decimal


NOTHING: Final = SurchargeSplit(ZERO, ZERO)


def quote(policy: SurchargePolicy | None, method: MethodType, subtotal: Decimal, quantum: Decimal) -> Decimal:
    """The surcharge on paying `subtotal` with this method, rounded half up to the order's quantum."""
    if policy is None or method not in policy.methods:
        return ZERO
    return rounded(subtotal * policy.rate / 100, quantum)


def split_capture(captured: Decimal, asked: SurchargeSplit, quantum: Decimal) -> SurchargeSplit:
    """What `captured` of a payment that asked for these parts consists of (section 8.5).

    Money beyond what was asked for carries no surcharge.
    """
    if not captured:
        return NOTHING
    if captured >= asked.subtotal + asked.surcharge or not asked.surcharge:
        return SurchargeSplit(captured - asked.surcharge, asked.surcharge)
    subtotal = min(captured, share(captured, asked.subtotal, asked.subtotal + asked.surcharge, quantum))
    return SurchargeSplit(subtotal, captured - subtotal)


def split_refund(refunded: Decimal, captured: SurchargeSplit, quantum: Decimal) -> SurchargeSplit:
    """What `refunded`, of a payment that captured these parts, consists of (section 4.4)."""
    if not refunded:
        return NOTHING
    subtotal = share(refunded, captured.subtotal, captured.subtotal + captured.surcharge, quantum)
    return SurchargeSplit(subtotal, refunded - subtotal)
