"""Divides an amount into a base and its taxes, in whole centavos, within the limits that SAT sets for each tax.

A tax of base × rate has a fraction of a centavo, so that base and taxes rarely add up to the amount that was paid. SAT
accepts any tax between (base − ½ centavo) × rate rounded down and (base + ½ centavo) × rate rounded up (validations
CFDI40180 and CFDI40186; CRP20254 and CRP20261 for receipts). The division uses this freedom to add up exactly.

IEPS is part of the base of IVA (LIVA, article 12). ISR is always withheld.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from math import ceil, floor
from typing import Final

from msgspec import Struct

from ledger.domain.orders.invoices.terms import EXEMPT, FEE, IEPS, ISR, IVA, TaxAmount
from ledger.domain.orders.terms import Tax
from ledger.domain.rejections import AmountNotStampable

_HALF: Final = Fraction(1, 2)
_NOTHING: Final = Fraction(0)
ADDED_MAX: Final = Fraction(9, 10)
"""The most that rounding may add to a tax over all lines, in minor units, if another division adds less."""
OFFSET_MAX: Final = Fraction(49, 100)
"""The largest fixed offset of the tax at the end of a part (`parts`), in minor units."""
_NEAR: Final = (0, 1, -1, 2, -2, 3, -3)


class TaxRule(Struct, frozen=True, kw_only=True):
    """A tax that applies to a line. `quantity` is the taxed quantity of a Cuota, 0 for other factors.

    `rate` is a fraction; for a Cuota it is in minor units for one unit of the quantity.
    """

    type: str
    factor: str
    rate: Fraction
    withheld: bool
    quantity: Fraction = Fraction(0)

    @property
    def feeds_iva(self) -> bool:
        """Whether the tax is part of the base of IVA."""
        return self.type == IEPS and not self.withheld

    def on(self, base: int, fed: int) -> Fraction:
        """Returns the amount on which the tax is calculated: the line's base, with IEPS (`fed`) for IVA, or the
        quantity.
        """
        if self.factor == FEE:
            return self.quantity
        return Fraction(base + fed if self.type == IVA else base)

    def limits(self, taxed: Fraction) -> tuple[int, int]:
        """Returns the least and the largest amount that SAT accepts for this tax on `taxed`."""
        return _limits(taxed, self.rate, self.factor)

    def nearest(self, taxed: Fraction) -> int:
        """Returns the tax on `taxed`, rounded half up."""
        return floor(taxed * self.rate + _HALF)


class Division(Struct, frozen=True):
    """A base in minor units, and the amount of each tax, in the order of the rules."""

    base: int
    amounts: tuple[int, ...]

    def fed(self, rules: Sequence[TaxRule]) -> int:
        """Returns the part of the base of IVA that is IEPS."""
        return sum(amount for rule, amount in zip(rules, self.amounts, strict=True) if rule.feeds_iva)

    def added(self, rules: Sequence[TaxRule]) -> Iterator[Fraction]:
        """Yields the amount that rounding has added to each tax."""
        fed = self.fed(rules)
        return (amount - rule.rate * rule.on(self.base, fed) for rule, amount in zip(rules, self.amounts, strict=True))

    def tax_amounts(self, rules: Sequence[TaxRule]) -> tuple[TaxAmount, ...]:
        """Returns the taxes as a document states them."""
        fed = self.fed(rules)
        return tuple(
            TaxAmount(
                type=rule.type,
                factor=rule.factor,
                rate=_decimal(rule.rate / 100 if rule.factor == FEE else rule.rate),
                base=_decimal(rule.on(self.base, fed)),
                amount=Decimal(amount),
                withheld=rule.withheld,
            )
            for rule, amount in zip(rules, self.amounts, strict=True)
        )


def limits(taxed: Fraction, tax: TaxAmount) -> tuple[int, int]:
    """Returns the least and the largest amount that SAT accepts for a tax on `taxed`, in minor units."""
    return _limits(taxed, Fraction(tax.rate) * (100 if tax.factor == FEE else 1), tax.factor)


def rules_of(taxes: Sequence[Tax], quantity: Decimal) -> tuple[TaxRule, ...]:
    """Returns the rules of a line's taxes. An exempt tax is never withheld (CFDI40184)."""
    return tuple(
        TaxRule(
            type=tax.type,
            factor=tax.factor,
            rate=Fraction(0) if tax.factor == EXEMPT else Fraction(tax.rate) * (100 if tax.factor == FEE else 1),
            withheld=tax.factor != EXEMPT and (tax.withholding or tax.type == ISR),
            quantity=Fraction(quantity) if tax.factor == FEE else Fraction(0),
        )
        for tax in taxes
    )


def with_taxes(base: Fraction, rules: tuple[TaxRule, ...]) -> Fraction:
    """Returns a base plus its taxes, before any rounding."""
    slope, fees = _line(rules)
    return base * slope + fees


def exact_base(total: Fraction, rules: tuple[TaxRule, ...]) -> Fraction:
    """Returns the base that gives `total` with its taxes, before any rounding. Raises AmountNotStampable."""
    slope, fees = _line(rules)
    if slope <= 0 or total <= fees:
        raise AmountNotStampable("The taxes of a line take all of its price: no invoice can state it.")
    return (total - fees) / slope


def divisions_of(total: int, rules: tuple[TaxRule, ...]) -> Iterator[Division]:
    """Yields divisions whose sum is exactly `total`, the nearest bases first. Raises AmountNotStampable."""
    near = floor(exact_base(Fraction(total), rules) + _HALF)
    for base in (near + shift for shift in _NEAR if near + shift > 0):
        yield from _of_base(total, base, rules)


def divide(total: int, rules: tuple[TaxRule, ...], added: Sequence[Fraction]) -> Division:
    """Returns a base and taxes that SAT accepts and whose sum is exactly `total` minor units.

    `added` is the amount that rounding has added to each tax on other lines; the division compensates for it. Raises
    AmountNotStampable.
    """
    best: tuple[Fraction, Division] | None = None
    for division in divisions_of(total, rules):
        sums = (abs(sum_ + more) for sum_, more in zip(added, division.added(rules), strict=True))
        worst = max(sums, default=_NOTHING)
        if worst <= ADDED_MAX:
            return division
        if best is None or worst < best[0]:
            best = worst, division
    if best is None:
        raise AmountNotStampable(f"An amount of {total} minor units cannot be divided into a base and its taxes.")
    return best[1]


def _of_base(total: int, base: int, rules: Sequence[TaxRule]) -> Iterator[Division]:
    """Yields divisions with this base whose taxes sum to the rest of the total, each within its limits.

    Transferred taxes take the rounding remainder before withheld ones, which are summed over several rates.
    """
    first = {at: rule.nearest(rule.on(base, 0)) for at, rule in enumerate(rules) if rule.feeds_iva}
    for shift in _NEAR if first else (0,):
        fed = shifted(first, shift, {at: rules[at].limits(rules[at].on(base, 0)) for at in first})
        if fed is None:
            continue
        iva_base = sum(fed.values())
        places = sorted((at for at in range(len(rules)) if at not in fed), key=lambda at: rules[at].withheld)
        taxed = {at: rules[at].on(base, iva_base) for at in places}
        signs = {at: -1 if rules[at].withheld else 1 for at in places}
        amounts = {at: signs[at] * rules[at].nearest(taxed[at]) for at in places}
        bounds = {at: rules[at].limits(taxed[at]) for at in places}
        signed = {at: bounds[at] if signs[at] > 0 else (-bounds[at][1], -bounds[at][0]) for at in places}
        rest = shifted(amounts, total - base - iva_base - sum(amounts.values()), signed)
        if rest is not None:
            chosen = fed | {at: abs(amount) for at, amount in rest.items()}
            yield Division(base, tuple(chosen[at] for at in range(len(rules))))


def shifted(amounts: dict[int, int], shift: int, bounds: dict[int, tuple[int, int]]) -> dict[int, int] | None:
    """Returns the amounts changed by `shift` in sum, each within its bounds, or None if the bounds do not allow it."""
    moved = dict(amounts)
    for at, (low, high) in bounds.items():
        target = min(max(moved[at] + shift, low), high)
        shift -= target - moved[at]
        moved[at] = target
    return None if shift else moved


def _limits(taxed: Fraction, rate: Fraction, factor: str) -> tuple[int, int]:
    if factor == EXEMPT:
        return 0, 0
    step = _HALF / 1_000_000 if factor == FEE else _HALF
    return max(0, floor((taxed - step) * rate)), ceil((taxed + step) * rate)


@lru_cache(maxsize=256)
def _line(rules: tuple[TaxRule, ...]) -> tuple[Fraction, Fraction]:
    """Returns the total of one minor unit of base with its taxes, and the amount that taxes of a Cuota add to it."""
    fed = 1 + sum(rule.rate for rule in rules if rule.feeds_iva and rule.factor != FEE)
    fees = sum(rule.rate * rule.quantity for rule in rules if rule.feeds_iva and rule.factor == FEE)
    on_fed, on_base, on_quantity = Fraction(1), Fraction(0), Fraction(0)
    for rule in rules:
        rate = -rule.rate if rule.withheld else rule.rate
        if rule.feeds_iva:
            continue
        if rule.factor == FEE:
            on_quantity += rate * rule.quantity
        elif rule.type == IVA:
            on_fed += rate
        else:
            on_base += rate
    return fed * on_fed + on_base, fees * on_fed + on_quantity


def _decimal(value: Fraction) -> Decimal:
    return Decimal(value.numerator) / Decimal(value.denominator)
