"""Amounts as a CFDI writes them: in pesos or dollars, from minor units. Nothing else converts between the two."""

from __future__ import annotations

from decimal import Decimal
from typing import Final

from ledger.domain.money import shortest

_MINOR: Final = Decimal("0.01")
_RATE: Final = Decimal("0.000001")


def major(amount: Decimal) -> Decimal:
    """Returns an amount of whole minor units with two decimals: 10000 → 100.00."""
    written = amount * _MINOR
    exact = written.quantize(_MINOR)
    assert exact == written, "a document states whole minor units"
    return exact


def minor(text: str) -> Decimal:
    """Returns the minor units of an amount as a CFDI writes it: `100.00` → 10000."""
    return shortest(Decimal(text) / _MINOR)


def up_to_six_decimals(amount: Decimal) -> Decimal:
    """Returns a price or the base of a tax with two to six decimals, from minor units with up to four."""
    written = shortest(amount * _MINOR)
    exact = written.quantize(_MINOR)
    return exact if exact == written else written


def rate(value: Decimal) -> Decimal:
    """Returns a tax rate with six decimals: 0.16 → 0.160000."""
    return value.quantize(_RATE)
