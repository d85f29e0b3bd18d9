"""Divides the base and the taxes of an invoice among its payments and refunds.

A part lies between two balances of the invoice: what is paid before it and after it. The amounts of a part are the
differences of whole centavos at its two ends, so that consecutive parts add up to exactly the invoice's amounts, and a
credit note takes back exactly what receipts of the same range stated. Compute both ends from the invoice alone, never
from earlier documents.

Where rounding leaves a tax of a part outside SAT's limits (`line_taxes`), the part states it in several rows, each of
which is within them. Only where a part has up to six centavos of lines with the same taxes, its base may round to
nothing: these centavos are divided by themselves, and the sum of their tax over all parts can differ by a centavo.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from math import floor
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from ledger.domain.invoices.line_taxes import Division, TaxRule, divide, shifted
from ledger.domain.invoices.terms import FEE, InvoiceTerms, TaxAmount

_HALF: Final = Fraction(1, 2)
_ROWS_MAX: Final = 6
_MILLIONTHS: Final = 1_000_000
"""A quantity has six decimals."""

TaxKey = tuple[str, str, Decimal, bool]
"""Type, factor, rate and whether it is withheld: a document sums its taxes by these."""


class Piece(Struct, frozen=True):
    """A row of a part: amounts of concepts with the same taxes that SAT accepts together."""

    rules: tuple[TaxRule, ...]
    division: Division

    @property
    def total(self) -> int:
        return self.division.total(self.rules)

    @property
    def taxes(self) -> tuple[TaxAmount, ...]:
        return self.division.tax_amounts(self.rules)


def part_of(invoice: InvoiceTerms, start: int, end: int) -> tuple[Piece, ...]:
    """Returns the part of the invoice that is paid between two cumulative amounts, in minor units."""
    groups = _groups(invoice)
    totals = [group.total for group in groups]
    pieces: list[Piece] = []
    for group, first, last in zip(groups, _nested(start, totals), _nested(end, totals), strict=True):
        pieces += _pieces(group, first, last)
    return tuple(pieces)


def summed(rows: Sequence[TaxAmount]) -> tuple[TaxAmount, ...]:
    """Returns each tax once, with the sums of its bases and amounts, in the order of its first row."""
    sums: dict[TaxKey, TaxAmount] = {}
    for row in rows:
        key = key_of(row)
        sums[key] = _add(sums[key], row) if key in sums else row
    return tuple(sums.values())


def key_of(tax: TaxAmount) -> TaxKey:
    """Returns what a document sums its taxes by."""
    return tax.type, tax.factor, tax.rate, tax.withheld


def _add(one: TaxAmount, other: TaxAmount) -> TaxAmount:
    return TaxAmount(
        type=one.type,
        factor=one.factor,
        rate=one.rate,
        base=one.base + other.base,
        amount=one.amount + other.amount,
        withheld=one.withheld,
    )


def _groups(invoice: InvoiceTerms) -> list[Piece]:
    """Returns the invoice's concepts, added up where their taxes are the same."""
    sums: dict[tuple[TaxKey, ...], tuple[int, list[int], list[Fraction]]] = {}
    for concept in invoice.concepts:
        keys = tuple(key_of(tax) for tax in concept.taxes)
        base, amounts, quantities = sums.get(keys, (0, [0] * len(keys), [Fraction(0)] * len(keys)))
        sums[keys] = (
            base + int(concept.amount - concept.discount),
            [amount + int(tax.amount) for amount, tax in zip(amounts, concept.taxes, strict=True)],
            [sum_ + Fraction(tax.base) for sum_, tax in zip(quantities, concept.taxes, strict=True)],
        )
    return [
        Piece(
            tuple(_rule(key, quantity) for key, quantity in zip(keys, quantities, strict=True)),
            Division(base, tuple(amounts)),
        )
        for keys, (base, amounts, quantities) in sums.items()
    ]


def _rule(key: TaxKey, quantity: Fraction) -> TaxRule:
    type_, factor, rate, withheld = key
    is_fee = factor == FEE
    return TaxRule(
        type=type_,
        factor=factor,
        rate=Fraction(rate) * (100 if is_fee else 1),
        withheld=withheld,
        quantity=quantity if is_fee else Fraction(0),
    )


def _pieces(group: Piece, start: int, end: int) -> Sequence[Piece]:
    """Returns the rows of the group's part between two cumulative amounts of it; none for an empty part."""
    if start == end:
        return ()
    part = _between(group, start, end)
    for count in range(1, _ROWS_MAX + 1):
        rows = _rows(part, count)
        if rows and all(row.division.is_valid(row.rules) for row in rows):
            return rows
    return (Piece(part.rules, divide(end - start, part.rules)),)


def _rows(part: Piece, count: int) -> Sequence[Piece]:
    """Returns the part in rows of nearly the same base, the rest of each tax moved where SAT's limits leave room.

    Returns none where they leave too little.
    """
    bases = [int(base) for base in _evenly(Fraction(part.division.base), count, 1)]
    rules = list(zip(*(_rules_of_rows(rule, count) for rule in part.rules), strict=True)) or [()] * count
    fed = [0] * count
    amounts: dict[int, dict[int, int]] = {}
    for at in sorted(range(len(part.rules)), key=lambda at: not part.rules[at].feeds_iva):
        taxed = [rules[row][at].on(bases[row], fed[row]) for row in range(count)]
        nearest = {row: rules[row][at].nearest(taxed[row]) for row in range(count)}
        limits = {row: rules[row][at].limits(taxed[row]) for row in range(count)}
        moved = shifted(nearest, part.division.amounts[at] - sum(nearest.values()), limits)
        if moved is None:
            return ()
        amounts[at] = moved
        if part.rules[at].feeds_iva:
            fed = [sum_ + moved[row] for row, sum_ in enumerate(fed)]
    return [
        Piece(rules[row], Division(bases[row], tuple(amounts[at][row] for at in range(len(part.rules)))))
        for row in range(count)
    ]


def _rules_of_rows(rule: TaxRule, count: int) -> list[TaxRule]:
    """Returns the rule for each of the rows: of a Cuota, with its part of the quantity."""
    return [replace(rule, quantity=quantity) for quantity in _evenly(rule.quantity, count, _MILLIONTHS)]


def _evenly(whole: Fraction, count: int, scale: int) -> list[Fraction]:
    """Returns nearly equal parts, each a multiple of 1 / `scale` as the whole is."""
    ends = [Fraction(floor(whole * scale * at / count), scale) for at in range(count + 1)]
    return [last - first for first, last in pairwise(ends)]


def _between(group: Piece, start: int, end: int) -> Piece:
    total = group.total
    first, last = _at(group, start), _at(group, end)
    division = Division(last.base - first.base, tuple(b - a for a, b in zip(first.amounts, last.amounts, strict=True)))
    rules = tuple(_rule_between(rule, Fraction(start, total), Fraction(end, total)) for rule in group.rules)
    return Piece(rules, division)


def _rule_between(rule: TaxRule, start: Fraction, end: Fraction) -> TaxRule:
    """Returns the rule with its part of the quantity that a Cuota taxes, in millionths of the unit."""
    if rule.factor != FEE:
        return rule
    first, last = (Fraction(_rounded(rule.quantity * at * _MILLIONTHS), _MILLIONTHS) for at in (start, end))
    return replace(rule, quantity=last - first)


def _at(group: Piece, paid: int) -> Division:
    """Returns the group's base and taxes when `paid` of its total is paid. Each grows with `paid`, or stays."""
    total, amounts = group.total, group.division.amounts
    withheld = {
        at: _rounded(Fraction(amounts[at] * paid, total)) for at, rule in enumerate(group.rules) if rule.withheld
    }
    transferred = [at for at in range(len(amounts)) if at not in withheld]
    shares = _nested(paid + sum(withheld.values()), [*(amounts[at] for at in transferred), group.division.base])
    by_rule = withheld | dict(zip(transferred, shares, strict=False))
    return Division(shares[-1], tuple(by_rule[at] for at in range(len(amounts))))


def _nested(whole: int, parts: Sequence[int]) -> list[int]:
    """Returns `whole`, a part of the sum of `parts`, divided like them: the first from all others, and so on.

    No share is ever less for a larger `whole`. Shares that are rounded each by itself would not add up, and the
    differences of shares that are rounded together can be negative.
    """
    shares, rest, left = [], whole, sum(parts)
    for part in parts[:-1]:
        shares.append(_rounded(Fraction(rest * part, left)) if left else 0)
        rest -= shares[-1]
        left -= part
    return [*shares, rest]


def _rounded(value: Fraction) -> int:
    return floor(value + _HALF)
