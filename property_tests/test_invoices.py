"""Any basket's invoice adds up to what was paid, within SAT's limits, and so do its receipts and credit notes."""

from __future__ import annotations

from collections import Counter
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from itertools import pairwise
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.domain.invoices.baskets import basket, credit_note, invoice, line, receipt

from ledger.domain.orders.invoices.terms import Concept, TaxAmount

PROFILE = settings(max_examples=50, deadline=None)
BASKETS = st.randoms(use_true_random=False)
CENTAVO = Decimal(1)


def check_limits(tax: TaxAmount) -> None:
    """SAT's limits for a tax, in centavos (CFDI40180, CRP20261), computed with decimals."""
    assert tax.base > 0
    if tax.factor == "Exento":
        assert tax.amount == 0
        return
    rate = tax.rate * (100 if tax.factor == "Cuota" else 1)
    half = Decimal("0.0000005") if tax.factor == "Cuota" else Decimal("0.00005") if is_little(tax) else Decimal("0.5")
    low = ((tax.base - half) * rate).quantize(CENTAVO, rounding=ROUND_FLOOR)
    high = ((tax.base + half - Decimal("1E-10")) * rate).quantize(CENTAVO, rounding=ROUND_CEILING)
    assert low <= tax.amount <= high, tax


def is_little(tax: TaxAmount) -> bool:
    """Whether the row is of a payment that is smaller than each base in whole centavos."""
    return tax.factor != "Cuota" and tax.base != tax.base.to_integral_value()


def came_to(concepts: tuple[Concept, ...]) -> Decimal:
    net = sum(concept.amount - concept.discount for concept in concepts)
    return net + sum(-tax.amount if tax.withheld else tax.amount for concept in concepts for tax in concept.taxes)


def sums(rows: tuple[TaxAmount, ...]) -> Counter[tuple[str, ...]]:
    """The base and the amount of every tax, whose rows may be several."""
    found: Counter[tuple[str, ...]] = Counter()
    for row in rows:
        found[row.type, row.factor, str(row.rate), str(row.withheld), "base"] += row.base
        found[row.type, row.factor, str(row.rate), str(row.withheld), "amount"] += row.amount
    return found


@PROFILE
@given(BASKETS)
def test_an_invoice_comes_to_exactly_the_subtotal(random: Random):
    sold = basket(random)
    terms = invoice(sold.lines, sold.subtotal)
    assert terms.total == sold.subtotal == came_to(terms.concepts)
    assert terms.subtotal == sum(concept.amount for concept in terms.concepts)
    assert terms.discount == sum(concept.discount for concept in terms.concepts)
    assert sums(terms.taxes) == sums(tuple(tax for concept in terms.concepts for tax in concept.taxes))
    for concept in terms.concepts:
        assert concept.amount == concept.amount.to_integral_value()
        assert concept.amount > concept.discount >= 0
        assert abs(concept.quantity * concept.unit_price - concept.amount) <= concept.quantity * Decimal("0.00005")
        for tax in concept.taxes:
            check_limits(tax)


@PROFILE
@given(BASKETS, st.lists(st.tuples(st.floats(0.01, 0.99), st.integers(0, 3)), max_size=6))
def test_receipts_of_all_parts_add_up_to_the_taxes_of_the_invoice(random: Random, cuts: list[tuple[float, int]]):
    """A cut has as many payments of one centavo behind it as its number."""
    sold = basket(random)
    whole = invoice(sold.lines, sold.subtotal * 10)
    inner = {int(int(whole.total) * at) + n for at, centavos in cuts for n in range(centavos + 1)}
    ends = sorted({0, int(whole.total), *(end for end in inner if end < whole.total)})
    receipts = [receipt(whole, whole.total - start, end - start) for start, end in pairwise(ends)]
    for each in receipts:
        assert each.remaining_balance == each.previous_balance - each.applied_amount
        for tax in each.taxes:
            check_limits(tax)
        assert bool(each.taxes) == bool(whole.taxes), "what is an object of tax stays one"
    rows = [tax for each in receipts for tax in each.taxes]
    assert all(tax.amount == 0 and tax.base < 1 for tax in rows if is_little(tax))
    assert sums(tuple(tax for tax in rows if not is_little(tax))) == sums(whole.taxes)


@PROFILE
@given(BASKETS, st.integers(1, 5), st.floats(0.0, 1.0))
def test_a_credit_note_of_a_few_centavos_is_an_object_of_tax_like_its_invoice(random: Random, centavos: int, at: float):
    sold = basket(random)
    whole = invoice(sold.lines, sold.subtotal)
    amount = min(centavos, int(whole.total))
    note = credit_note(whole, int((int(whole.total) - amount) * at), amount)
    assert note.total == amount == came_to(note.concepts)
    assert {bool(concept.taxes) for concept in note.concepts} <= {bool(concept.taxes) for concept in whole.concepts}
    for concept in note.concepts:
        assert concept.amount >= 1
        for tax in concept.taxes:
            check_limits(tax)


@PROFILE
@given(BASKETS, st.floats(0.0, 1.0), st.floats(0.0, 1.0))
def test_a_credit_note_comes_to_exactly_the_refund_and_takes_back_what_the_receipt_stated(
    random: Random, one: float, other: float
):
    sold = basket(random)
    whole = invoice(sold.lines, sold.subtotal)
    start, end = sorted(int(int(whole.total) * cut) for cut in (one, other))
    if start == end:
        return
    note = credit_note(whole, whole.total - end, end - start)
    assert note.total == end - start == came_to(note.concepts)
    assert note.subtotal == sum(concept.amount for concept in note.concepts)
    for concept in note.concepts:
        for tax in concept.taxes:
            check_limits(tax)
    assert bool(note.taxes) == bool(whole.taxes) or any(not concept.taxes for concept in whole.concepts)
    if note.total > 5:  # the taxes of fewer centavos are rounded so that something is left for the concept
        assert sums(note.taxes) == sums(receipt(whole, whole.total - start, end - start).taxes)


@PROFILE
@given(st.integers(1, 10_000_000), st.lists(st.integers(1, 400), max_size=20))
def test_parts_of_one_rate_are_each_within_the_limits_and_add_up(total: int, parts: list[int]):
    whole = invoice((line(total),), total)
    paid, stated = 0, Counter[tuple[str, ...]]()
    for part in parts:
        if paid + part <= total:
            each = receipt(whole, total - paid, part)
            paid += part
            stated += sums(each.taxes)
            for tax in each.taxes:
                check_limits(tax)
            assert abs(sum(tax.base + tax.amount for tax in each.taxes) - part) <= 2  # each is rounded at both ends
