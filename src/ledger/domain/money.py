"""Money: exact decimals in the minor unit of a currency (centavos, cents), never a float.

Write an amount as text with `plain` only. `str(Decimal("1E+4"))` and a trailing zero are different bytes for the same
amount, and stored events must not depend on how an amount was computed.
"""

from __future__ import annotations

import re
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Final

ZERO: Final = Decimal(0)
AMOUNT_MAX: Final = Decimal(999_999_999_999)
GROSS_MAX: Final = AMOUNT_MAX * 3 / 2
"""The largest amount with its surcharge, whose rate is below 50 %: the bound of one deposit and of one chargeback."""
SCALE: Final = 10_000
"""SQL keeps an amount as int8, multiplied by ten thousand: four decimals of a minor unit."""

_AMOUNT: Final = re.compile(r"(?:0|[1-9]\d{0,11})(?:\.\d{1,4}0*)?", re.ASCII)
_EXACT: Final = Context(prec=60)
"""Wide enough that a product of two amounts is not rounded before the division that follows it."""
_WHOLE, _CENT = Decimal(1), Decimal("0.01")
CENTAVO: Final = Decimal(1)
"""The smallest amount that an invoice states: one minor unit."""
FINEST: Final = Decimal("0.0001")
"""The finest rounding step: an amount of an order is a multiple of it."""


def parse_amount(text: str) -> Decimal | None:
    """Returns the amount in minor units that a JSON number spells, or None if it is not an amount of the ledger.

    An amount has at most twelve digits before the point and four significant ones behind it. Exponents, signs, NaN and
    Infinity are refused: the pattern does so before `Decimal` could spend minutes on `1e3000000`.
    """
    return shortest(Decimal(text)) if len(text) <= 32 and _AMOUNT.fullmatch(text) else None


def shortest(amount: Decimal) -> Decimal:
    """Returns the same amount without trailing zeros and without an exponent: `1.50` → `1.5`, `1E+4` → `10000`."""
    if str(amount).isdigit():  # most amounts have this form already, and the check costs less than the conversion
        return amount
    if amount == amount.to_integral_value():
        return amount.quantize(_WHOLE)
    return amount.normalize()


def plain(amount: Decimal) -> str:
    """Returns the shortest decimal string of an amount in minor units: `"10000"`, `"150.75"` (contract N2)."""
    text = str(amount)
    return text if text.isdigit() else format(shortest(amount), "f")  # mostly digits; the check is a third of the work


def scaled(amount: Decimal) -> int:
    """Returns the amount as SQL stores it: minor units times ten thousand."""
    return int(amount * SCALE)


def quantum_of(amount: Decimal) -> Decimal:
    """Returns the rounding step of an order with this requested amount, in minor units (contract N4).

    The step is 1 for an amount without decimals, 0.01 for one or two decimals, and 0.0001 for more.
    """
    if is_multiple(amount, _WHOLE):
        return _WHOLE
    return _CENT if is_multiple(amount, _CENT) else FINEST


def rounded(amount: Decimal, quantum: Decimal) -> Decimal:
    """Returns the amount rounded half up to a multiple of the order's quantum."""
    return amount.quantize(quantum, rounding=ROUND_HALF_UP)


def is_multiple(amount: Decimal, quantum: Decimal) -> bool:
    """Returns whether an order with this quantum can take the amount (section 8.6)."""
    return amount % quantum == 0


def share(cumulative: Decimal, part: Decimal, whole: Decimal, quantum: Decimal) -> Decimal:
    """Returns how much of `cumulative`, which is a part of `whole`, belongs to `part`: rounded half up to the quantum.

    Pass the cumulative sum, never a single instalment: the differences of cumulative roundings end at exactly `part`,
    sums of single roundings do not (section 4.4). Returns zero if `whole` is zero.
    """
    return rounded(_EXACT.divide(_EXACT.multiply(cumulative, part), whole), quantum) if whole else ZERO


def share_moved(
    cumulative: Decimal, part: Decimal, whole: Decimal, moved: tuple[Decimal, Decimal], quantum: Decimal
) -> Decimal:
    """Returns the `share` on a line that is moved by an amount at one place and that ends at `part` all the same.

    `moved` is the place, a cumulative sum below `whole`, and the amount.
    """
    start, by = moved
    rest = whole - start
    line = _EXACT.multiply(_EXACT.multiply(cumulative, part), rest)
    shift = _EXACT.multiply(_EXACT.multiply(by, whole - cumulative), whole)
    return rounded(_EXACT.divide(_EXACT.add(line, shift), _EXACT.multiply(whole, rest)), quantum)
