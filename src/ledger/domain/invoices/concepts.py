"""The concepts of an invoice: the lines of an order, each with its part of the subtotal divided into base and taxes.

The interface counts a line as quantity × unitPrice, and these add up to the order's amount. So where a merchant states
prices before a discount or before taxes on top, his lines come to another amount than the one that is paid. The lines
are therefore read in one of two ways:

1. As they are stated, where that comes to the subtotal: unitPrice is before `discount`, and before taxes unless
   `taxIncluded`.
2. Otherwise as the interface counts them: quantity × unitPrice is what is paid for the line, with its taxes and after
   its discount.

In both ways the document adds up to exactly the subtotal.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction
from math import floor
from typing import Final

from msgspec.structs import replace

from ledger.domain.invoices.line_taxes import TaxRule, divide, rules_of, with_taxes
from ledger.domain.invoices.receivers import one_line
from ledger.domain.invoices.terms import IVA, RATE, Concept, Issuer, TaxAmount
from ledger.domain.money import shortest
from ledger.domain.orders.terms import LineItem, Tax
from ledger.domain.rejections import AmountNotStampable

UNKNOWN_PRODUCT: Final = "01010101"
"""SAT c_ClaveProdServ: not in the catalogue."""
_PIECE: Final = "H87"
_ACTIVITY: Final = "ACT"
_SALE: Final = "Venta"
_UNIT_PRICE: Final = Decimal("0.0001")
"""The step of a unit price in minor units: six decimals of a peso."""
_TOLERANCE: Final = Fraction(1, 1000)
_HALF: Final = Fraction(1, 2)
_NOTHING: Final = Fraction(0)


def concepts_of(
    lines: Sequence[LineItem], subtotal: int, description: str | None, issuer: Issuer
) -> tuple[Concept, ...]:
    """Returns the concepts, which come to exactly `subtotal` minor units; one for the whole order without lines.

    A line that nothing is paid for has none. Raises AmountNotStampable.
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
    concepts = []
    added: dict[TaxRule, Fraction] = {}
    for (line, rules), total in zip(ruled, _totals(ruled, subtotal), strict=True):
        if total:
            keys = [replace(rule, quantity=_NOTHING) for rule in rules]
            division = divide(total, rules, [added.get(key, _NOTHING) for key in keys])
            for key, more in zip(keys, division.added(rules), strict=True):
                added[key] = added.get(key, _NOTHING) + more
            concepts.append(_concept(line, total, division.base, division.tax_amounts(rules)))
    return tuple(concepts)


def _default_taxes(issuer: Issuer) -> tuple[Tax, ...]:
    if issuer.iva_rate is None:
        return ()
    return (Tax(type=IVA, rate=issuer.iva_rate, factor=RATE, withholding=False),)


def _totals(ruled: Sequence[tuple[LineItem, tuple[TaxRule, ...]]], subtotal: int) -> list[int]:
    """Returns what is paid for each line in whole minor units, `subtotal` in all."""
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


def _stated(line: LineItem, rules: tuple[TaxRule, ...]) -> Fraction:
    """Returns what a line comes to as it is stated, in minor units."""
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
