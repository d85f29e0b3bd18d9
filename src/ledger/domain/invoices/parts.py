"""Divides the taxes of an invoice among its payments and refunds.

A part lies between two cumulative amounts: the amount paid before it and the amount paid after it. Its base and its tax
are the differences of whole centavos at its two ends. Consecutive parts therefore sum to exactly the invoice's taxes,
and a credit note takes back exactly the taxes that receipts of the same range stated. Compute both ends from the
invoice alone, never from earlier documents.

The tax at an end is computed from the rounded base at that end plus a fixed offset. It differs from base × rate plus
the offset by at most half a centavo, so that the tax of every part is within SAT's limits (`line_taxes`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from fractions import Fraction
from math import floor
from typing import Final

from msgspec.structs import replace

from ledger.domain.invoices.line_taxes import OFFSET_MAX, limits
from ledger.domain.money import ZERO, shortest
from ledger.domain.orders.invoices.terms import EXEMPT, FEE, Concept, InvoiceTerms, TaxAmount

_HALF: Final = Fraction(1, 2)
_MILLIONTHS: Final = 1_000_000
"""A quantity has six decimals."""

TaxKey = tuple[str, str, Decimal, bool]
"""The key by which a document sums its taxes: type, factor, rate, and whether the tax is withheld."""


def taxes_between(invoice: InvoiceTerms, start: int, end: int) -> tuple[TaxAmount, ...]:
    """Returns the taxes of the part between two cumulative amounts, in minor units, one row for each tax.

    A tax whose base is below half a centavo is left out.
    """
    whole = int(invoice.total)
    parts = (_between(tax, Fraction(start, whole), Fraction(end, whole)) for tax in invoice.taxes)
    return tuple(part for part in parts if part.base)


def signed_sum(taxes: Iterable[TaxAmount]) -> Decimal:
    """Returns the amount that the taxes add to a price: transferred less withheld."""
    return sum((-tax.amount if tax.withheld else tax.amount for tax in taxes), ZERO)


def summed(rows: Iterable[TaxAmount]) -> tuple[TaxAmount, ...]:
    """Returns one row for each tax, with the sums of its bases and amounts, in the order of its first row."""
    sums: dict[TaxKey, TaxAmount] = {}
    for row in rows:
        key = key_of(row)
        other = sums.get(key)
        sums[key] = row if other is None else replace(row, base=other.base + row.base, amount=other.amount + row.amount)
    return tuple(sums.values())


def key_of(tax: TaxAmount) -> TaxKey:
    """Returns the key by which a document sums a tax."""
    return tax.type, tax.factor, tax.rate, tax.withheld


def groups_of(concepts: Sequence[Concept]) -> dict[tuple[TaxKey, ...], Decimal]:
    """Returns the net amount of the concepts by their taxes, or one group if two groups share a tax."""
    groups: dict[tuple[TaxKey, ...], Decimal] = {}
    for concept in concepts:
        keys = tuple(key_of(tax) for tax in concept.taxes)
        groups[keys] = groups.get(keys, ZERO) + concept.amount - concept.discount
    every = [key for keys in groups for key in keys]
    if len(set(every)) < len(every):
        return {tuple(dict.fromkeys(every)): sum(groups.values(), ZERO)}
    return groups


def part_between(amount: Decimal, start: Fraction, end: Fraction) -> Decimal:
    """Returns the part of an amount between two fractions of the whole, in whole minor units."""
    return Decimal(floor(Fraction(amount) * end + _HALF) - floor(Fraction(amount) * start + _HALF))


def _between(tax: TaxAmount, start: Fraction, end: Fraction) -> TaxAmount:
    scale = _MILLIONTHS if tax.factor == FEE else 1
    first, last = (Fraction(floor(Fraction(tax.base) * scale * at + _HALF), scale) for at in (start, end))
    base = last - first
    amount = 0
    if tax.factor != EXEMPT:
        low, high = limits(base, tax)
        amount = min(max(_at(tax, last) - _at(tax, first), low), high)
    return replace(tax, base=shortest(Decimal(base.numerator) / base.denominator), amount=Decimal(amount))


def _at(tax: TaxAmount, base: Fraction) -> int:
    """Returns the tax when this much of its base is paid: 0 for nothing, the whole tax for the whole base.

    The offset is half of the amount that rounding has added to the invoice's tax. The part above twice OFFSET_MAX is
    distributed in proportion: at most half the rate (`concepts`), by which SAT's limits are wider than a centavo.
    """
    rate = Fraction(tax.rate) * (100 if tax.factor == FEE else 1)
    added = Fraction(tax.amount) - rate * Fraction(tax.base)
    offset = min(max(added / 2, -OFFSET_MAX), OFFSET_MAX)
    in_proportion = (added - 2 * offset) * base / Fraction(tax.base)
    return floor(rate * base + in_proportion + offset + _HALF)
