"""The concepts of an invoice: the lines of an order, each with its part of the subtotal divided into base and taxes.

The interface counts a line as quantity × unitPrice, and these add up to the order's amount. If a merchant states prices
before a discount or before taxes, the lines sum to another amount than the one that is paid. The lines are therefore
read in one of two ways:

1. As they are stated, if their sum is the subtotal: unitPrice is before `discount`, and before taxes unless
   `taxIncluded`.
2. Otherwise as the interface counts them: quantity × unitPrice is what is paid for the line, with its taxes and after
   its discount.

In both cases the sum of the document is exactly the subtotal.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction
from functools import lru_cache
from math import floor
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from ledger.domain.invoices.line_taxes import (
    ADDED_MAX,
    OFFSET_MAX,
    Division,
    TaxRule,
    divide,
    divisions_of,
    rules_of,
    with_taxes,
)
from ledger.domain.invoices.receivers import one_line
from ledger.domain.money import shortest
from ledger.domain.orders.invoices.terms import FEE, IVA, RATE, Concept, Issuer, TaxAmount
from ledger.domain.orders.terms import LineItem, Tax
from ledger.domain.rejections import AmountNotStampable

UNKNOWN_PRODUCT: Final = "01010101"
"""SAT c_ClaveProdServ: not in the catalogue."""
_PIECE: Final = "H87"
_ACTIVITY: Final = "ACT"
_SALE: Final = "Venta"
_UNIT_PRICE: Final = Decimal("0.0001")
"""The step of a unit price in minor units: six decimals of a peso."""
_PASSES: Final = 2
"""How often each line is divided again if rounding has added too much to a tax over all lines."""
_PAIRED_MAX: Final = 20
"""Up to how many lines pairs of lines are divided together.

With more lines, a single line compensates for the others.
"""
_TOLERANCE: Final = Fraction(1, 1000)
_HALF: Final = Fraction(1, 2)
_NOTHING: Final = Fraction(0)


def concepts_of(
    lines: Sequence[LineItem], subtotal: int, description: str | None, issuer: Issuer
) -> tuple[Concept, ...]:
    """Returns the invoice's concepts, whose sum is exactly `subtotal` minor units.

    An order without lines gives one concept; a line of amount zero gives none. Raises AmountNotStampable.
    """
    ruled = [(line, rules_of(line.taxes or _default_taxes(issuer), line.quantity)) for line in lines]
    if not any(line.unit_price for line in lines):
        whole = LineItem(
            description=description or _SALE,
            quantity=Decimal(1),
            unit_price=Decimal(subtotal),
            tax_included=True,
            unit_key=_ACTIVITY,
        )
        ruled = [(whole, rules_of(_default_taxes(issuer), whole.quantity))]
    paid = [
        _PaidLine(line, rules, total)
        for (line, rules), total in zip(ruled, _totals(ruled, subtotal), strict=True)
        if total
    ]
    return tuple(
        _concept(each.line, each.total, division.base, division.tax_amounts(each.rules))
        for each, division in zip(paid, _divided(paid), strict=True)
    )


class _PaidLine(Struct, frozen=True):
    """A line, the rules of its taxes, and the amount that is paid for it, in minor units."""

    line: LineItem
    rules: tuple[TaxRule, ...]
    total: int


def _default_taxes(issuer: Issuer) -> tuple[Tax, ...]:
    if issuer.iva_rate is None:
        return ()
    return (Tax(type=IVA, rate=issuer.iva_rate, factor=RATE, withholding=False),)


def _totals(ruled: Sequence[tuple[LineItem, tuple[TaxRule, ...]]], subtotal: int) -> list[int]:
    """Returns the amount that is paid for each line, in whole minor units; their sum is `subtotal`."""
    stated = [_stated(line, rules) for line, rules in ruled]
    on_top = sum(not line.tax_included for line, _ in ruled)
    difference = abs(sum(stated, _NOTHING) - subtotal)
    counted = [Fraction(line.quantity) * Fraction(line.unit_price) for line, _ in ruled]
    weights = stated if difference <= _TOLERANCE + on_top * _HALF and min(stated) >= 0 else counted
    whole, cumulative, given, totals = sum(weights, _NOTHING), _NOTHING, 0, []
    for weight in weights:
        cumulative += weight
        reached = floor(cumulative * subtotal / whole + _HALF)
        totals.append(reached - given)
        given = reached
    return totals


def _divided(lines: Sequence[_PaidLine]) -> list[Division]:
    """Returns a division of each line into base and taxes, chosen so that rounding adds little over all lines.

    Each line compensates for the rounding of the lines before it. If rounding still adds more than ADDED_MAX to a tax,
    each line is divided again, with all others fixed. If receipts could still not state a tax, two lines are divided
    together. Raises AmountNotStampable.
    """
    divisions = _Divisions(lines)
    for at in range(len(lines)):
        divisions.divide(at)
    for _ in range(_PASSES):
        for at in range(len(lines)):
            if divisions.worst <= ADDED_MAX:
                return divisions.chosen
            divisions.divide(at)
    for at in range(min(len(lines), _PAIRED_MAX)):
        if divisions.can_be_stated:
            break
        divisions.divide_two(at)
    return divisions.chosen


class _Divisions:
    """The divisions of an invoice's lines while they are chosen, and the total that rounding has added to each tax."""

    def __init__(self, lines: Sequence[_PaidLine]) -> None:
        self._lines = lines
        self._keys = [[replace(rule, quantity=_NOTHING) for rule in each.rules] for each in lines]
        self._added: dict[TaxRule, Fraction] = defaultdict(Fraction)
        self._chosen: dict[int, Division] = {}

    @property
    def chosen(self) -> list[Division]:
        return [self._chosen[at] for at in range(len(self._lines))]

    @property
    def worst(self) -> Fraction:
        """The largest amount that rounding has added to a tax or subtracted from it."""
        return max(map(abs, self._added.values()), default=_NOTHING)

    @property
    def can_be_stated(self) -> bool:
        """Whether receipts can state each tax exactly within SAT's limits, however the order is paid in parts
        (`parts`).
        """
        return all(abs(more) < _most_added(key) for key, more in self._added.items())

    def divide(self, at: int) -> None:
        """Divides a line so that it compensates best for the others. Raises AmountNotStampable."""
        self._take_out(at)
        line = self._lines[at]
        self._put(at, divide(line.total, line.rules, [self._added[key] for key in self._keys[at]]))

    def divide_two(self, at: int) -> None:
        """Tries the divisions of each pair of lines until receipts can state each tax."""
        kept = self._chosen[at]
        for candidate in _candidates(self._lines[at].total, self._lines[at].rules):
            self._put(at, candidate)
            for other in range(min(len(self._lines), _PAIRED_MAX)):
                if other != at and self._can_be_stated_by(other):
                    return
        self._put(at, kept)

    def _can_be_stated_by(self, other: int) -> bool:
        kept = self._chosen[other]
        for candidate in _candidates(self._lines[other].total, self._lines[other].rules):
            self._put(other, candidate)
            if self.can_be_stated:
                return True
        self._put(other, kept)
        return False

    def _put(self, at: int, division: Division) -> None:
        self._take_out(at)
        self._chosen[at] = division
        self._add(at, division, 1)

    def _take_out(self, at: int) -> None:
        division = self._chosen.pop(at, None)
        if division is not None:
            self._add(at, division, -1)

    def _add(self, at: int, division: Division, sign: int) -> None:
        for key, more in zip(self._keys[at], division.added(self._lines[at].rules), strict=True):
            self._added[key] += sign * more


def _most_added(rule: TaxRule) -> Fraction:
    """Returns how much rounding may add to a tax: what `parts` can divide exactly, plus SAT's tolerance for a base."""
    return 2 * OFFSET_MAX + (rule.rate / 2 if rule.factor != FEE else 0)


@lru_cache(maxsize=128)
def _candidates(total: int, rules: tuple[TaxRule, ...]) -> tuple[Division, ...]:
    return tuple(divisions_of(total, rules))


def _stated(line: LineItem, rules: tuple[TaxRule, ...]) -> Fraction:
    """Returns the amount of a line as it is stated, in minor units."""
    price = Fraction(line.quantity) * Fraction(line.unit_price) - Fraction(line.discount or 0)
    return price if line.tax_included else with_taxes(price, rules)


def _concept(line: LineItem, total: int, base: int, taxes: tuple[TaxAmount, ...]) -> Concept:
    stated = Fraction(line.discount or 0)
    discount = floor((stated * base / total if line.tax_included else stated) + _HALF)
    amount = Decimal(base + discount)
    unit_price = (amount / line.quantity).quantize(_UNIT_PRICE, rounding=ROUND_HALF_UP)
    if not unit_price:
        raise AmountNotStampable("The price of one unit of a line is below a millionth: no invoice can state it.")
    return Concept(
        description=one_line(line.description, 1000) or _SALE,
        quantity=line.quantity,
        unit_price=shortest(unit_price),
        amount=amount,
        product_key=line.product_key or UNKNOWN_PRODUCT,
        unit_key=line.unit_key or _PIECE,
        unit_name=one_line(line.unit_name, 20) or None,
        sku=one_line(line.sku, 100) or None,
        discount=Decimal(discount),
        taxes=taxes,
    )
