"""Divides the taxes of an invoice among its payments and refunds.

A part lies between two cumulative amounts: the amount paid before it and the amount paid after it. Its base and its tax
are the differences of whole centavos at its two ends. Consecutive parts therefore sum to exactly the invoice's taxes,
and a credit note takes back exactly the taxes that receipts of the same range stated. Compute both ends from the
invoice alone, never from earlier documents.

A part of a few centavos can be smaller than any of its bases in whole centavos. It is then stated with a finer base
(`_little`), because a document may not call it free of tax.

The tax at an end is computed from the rounded base at that end plus a fixed offset. It differs from base × rate plus
the offset by at most half a centavo, so that the tax of every part is within SAT's limits (`line_taxes`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from fractions import Fraction
from math import ceil, floor
from typing import Final

from msgspec.structs import replace

from ledger.domain.invoices.line_taxes import OFFSET_MAX, limits
from ledger.domain.money import ZERO, shortest
from ledger.domain.orders.invoices.terms import EXEMPT, FEE, Concept, InvoiceTerms, TaxAmount

_HALF: Final = Fraction(1, 2)
_MILLIONTHS: Final = 1_000_000
"""A quantity has six decimals."""
_CENTAVO: Final = Decimal(1)
_LEAST_QUANTITY: Final = Decimal("0.000001")
_FINEST: Final = 10_000
"""The parts of a minor unit that a base can state: it has six decimals (Pagos 2.0, BaseDR: from 0.000001)."""

TaxKey = tuple[str, str, Decimal, bool]
"""The key by which a document sums its taxes: type, factor, rate, and whether the tax is withheld."""


def taxes_between(invoice: InvoiceTerms, start: int, end: int) -> tuple[TaxAmount, ...]:
    """Returns the taxes of the part between two cumulative amounts, in minor units, one row for each tax.

    A tax whose base is below half a centavo is left out. The result is empty if all taxes are left out.
    """
    whole = int(invoice.total)
    parts = (_between(tax, Fraction(start, whole), Fraction(end, whole)) for tax in invoice.taxes)
    return tuple(part for part in parts if part.base)


def paid_taxes(invoice: InvoiceTerms, start: int, end: int) -> tuple[TaxAmount, ...]:
    """Returns the taxes that the receipt of a part states: none only for an invoice without taxes.

    A payment of an invoice with taxes is an object of tax (ObjetoImpDR 02), and its receipt has to state a tax
    (CRP20246) on a base above 0 (CRP20249, CRP20255). If `taxes_between` leaves all taxes out, each row has its share
    of the base, to a millionth of a peso, and no amount. The amounts of all receipts therefore still sum to the taxes
    of the invoice.
    """
    rows = taxes_between(invoice, start, end)
    if rows or not invoice.taxes:
        return rows
    share = Fraction(end - start, int(invoice.total))
    little = [_little(tax, Fraction(tax.base) * share) for tax in invoice.taxes]
    return tuple(row for row in little if row.base) or (
        _little(max(invoice.taxes, key=_base_of), Fraction(1, _FINEST)),
    )


def credited_taxes(taxes: Iterable[TaxAmount], amount: Decimal) -> tuple[TaxAmount, ...]:
    """Returns the taxes that a concept of a credit note states if `taxes_between` leaves all of them out.

    The base is the concept's amount, in minor units, or one minor unit where SAT would demand a tax on that.
    """
    found = []
    for tax in taxes:
        base = _LEAST_QUANTITY if tax.factor == FEE else amount
        is_free = limits(Fraction(base), tax)[0] == 0
        found.append(replace(tax, base=base if is_free else _CENTAVO, amount=ZERO))
    return tuple(found)


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


def _base_of(tax: TaxAmount) -> Decimal:
    return tax.base


def _little(tax: TaxAmount, base: Fraction) -> TaxAmount:
    """Returns a row without an amount for this base, in minor units.

    The base stays below the one on which SAT demands a centavo of tax: only a rate above 100 % lowers it.
    """
    parts = floor(base * _FINEST + _HALF)
    if tax.factor != FEE and tax.rate:
        parts = min(parts, ceil(_FINEST / Fraction(tax.rate)) - 1)
    return replace(tax, base=shortest(Decimal(parts) / _FINEST), amount=ZERO)


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
