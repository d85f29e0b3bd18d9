"""Stripe's unit of an amount: whole numbers of the currency's smallest unit, with at most eight digits.

Only this package converts amounts. Both currencies of the ledger have two decimals at Stripe too
(docs.stripe.com/currencies lists those that differ), so a minor unit of the ledger is a unit of Stripe's.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Final

from ledger.processors.contract import ProcessorUnavailable

UNIT: Final = Decimal(1)
"""One unit of Stripe's, in minor units of the ledger."""
UNITS_MAX: Final = 99_999_999
"""Source: `amount` of a payment intent in Stripe's OpenAPI description ("supports up to eight digits")."""
SMALLEST_CHARGE: Final = {"MXN": 1_000, "USD": 50}
"""The smallest charge of a currency, in its units. Source: docs.stripe.com/currencies, "Minimum … charge amounts"."""


class NotChargeable(ProcessorUnavailable):
    """The amount has a fraction of Stripe's unit, is not positive, or has another currency: nothing is sent."""


def to_units(amount: Decimal, currency: str) -> int:
    """Returns an amount in minor units of `currency` as Stripe writes it. Raises NotChargeable, never rounds."""
    if currency not in SMALLEST_CHARGE:
        raise NotChargeable(f"{currency} is no currency of the ledger: use MXN or USD")
    if amount % UNIT:
        raise NotChargeable(f"{amount} has a fraction of a minor unit, which Stripe does not take")
    if not 0 < amount <= UNITS_MAX:
        raise NotChargeable(f"{amount} is outside 1 to {UNITS_MAX} minor units")
    return int(amount)


def from_units(units: int) -> Decimal:
    """Returns an amount of Stripe's in minor units."""
    return Decimal(units)
