"""The surcharge on top of an order's amount, and the division of captured and refunded money into both (contract 4).

Compute a part from the cumulative sum, never by adding up instalments: then every series of partial captures and
refunds ends at exactly the subtotal and the surcharge.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Final

from msgspec import Struct

from ledger.domain.money import ZERO, rounded, share
from ledger.domain.orders.terms import MethodType, SurchargePolicy


class SurchargeSplit(Struct, frozen=True):
    """A gross amount in minor units, divided into the part that counts towards the order and the surcharge on top."""

    subtotal: Decimal
    surcharge: Decimal


NOTHING: Final = SurchargeSplit(ZERO, ZERO)


def quote(policy: SurchargePolicy | None, method: MethodType, subtotal: Decimal, quantum: Decimal) -> Decimal:
    """Returns the surcharge on `subtotal` by this method: minor units, rounded half up to the order's quantum."""
    if policy is None or method not in policy.methods:
        return ZERO
    return rounded(subtotal * policy.rate / 100, quantum)


def split_capture(captured: Decimal, requested: SurchargeSplit, quantum: Decimal) -> SurchargeSplit:
    """Returns the split of the captured total of a payment that requested these parts (section 8.5).

    Money beyond the requested amount carries no surcharge.
    """
    if not captured:
        return NOTHING
    if captured >= requested.subtotal + requested.surcharge or not requested.surcharge:
        return SurchargeSplit(captured - requested.surcharge, requested.surcharge)
    subtotal = min(captured, share(captured, requested.subtotal, requested.subtotal + requested.surcharge, quantum))
    return SurchargeSplit(subtotal, captured - subtotal)


def split_refund(refunded: Decimal, captured: SurchargeSplit, quantum: Decimal) -> SurchargeSplit:
    """Returns the split of the refunded total of a payment that captured these parts (section 4.4)."""
    if not refunded:
        return NOTHING
    subtotal = share(refunded, captured.subtotal, captured.subtotal + captured.surcharge, quantum)
    return SurchargeSplit(subtotal, refunded - subtotal)
