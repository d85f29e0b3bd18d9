"""The rates that SAT accepts, and what the refusal of another one says."""

from __future__ import annotations

import pytest
from tests.domain.invoices.baskets import COMBINATIONS, tax

from ledger.domain.invoices.rates import wrong_tax
from ledger.domain.orders.terms import Tax


@pytest.mark.parametrize("known", sorted({each for taxes in COMBINATIONS for each in taxes}, key=str))
def test_the_rates_of_honest_baskets_are_accepted(known: Tax):
    assert wrong_tax(known) is None


@pytest.mark.parametrize(
    "known",
    [
        tax("IVA", "0.160000"),
        tax("IVA", "0.04", withheld=True),
        tax("ISR", "0.35"),
        tax("IEPS", "0.265", withheld=True),
        tax("IEPS", "66.5062", "Cuota"),
    ],
)
def test_bounds_belong_to_the_rates(known: Tax):
    assert wrong_tax(known) is None


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        (tax("IVA", "16"), "must be 0, 0.08 or 0.16 for IVA (SAT c_TasaOCuota); did you mean 0.16?"),
        (tax("IVA", "0.15"), "must be 0, 0.08 or 0.16 for IVA (SAT c_TasaOCuota)"),
        (tax("IVA", "0.160001", withheld=True), "must be from 0 to 0.16 for IVA that is withheld (SAT c_TasaOCuota)"),
        (tax("ISR", "10"), "must be from 0 to 0.35 for ISR (SAT c_TasaOCuota); did you mean 0.1?"),
        (tax("IEPS", "160", withheld=True), "did you mean 1.6?"),
        (tax("IEPS", "67", "Cuota"), "must be from 0 to 66.5062 for IEPS by quota (SAT c_TasaOCuota)"),
    ],
)
def test_another_rate_is_refused_with_the_rates_that_there_are(wrong: Tax, problem: str):
    found = wrong_tax(wrong)
    assert found is not None
    assert found[0] == "rate"
    assert found[1].endswith(problem)


def test_only_ieps_has_a_quota():
    wrong = tax("IVA", "0.16", "Cuota")
    assert wrong_tax(wrong) == ("factor", "must be Tasa for IVA: SAT has no Cuota for it")
    assert wrong_tax(tax("IVA", "0", "Exento")) is None
