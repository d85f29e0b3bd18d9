"""Amounts: parsing, writing and rounding."""

from __future__ import annotations

from decimal import Decimal

import pytest

from ledger.domain.money import is_multiple, parse_amount, plain, quantum_of, rounded, scaled, share, shortest

NO_NUMBERS = ["", " 1", "1 ", "1\n", "+1", "1,5", "1_000", "0x10", "١٢", "1٢", ".5", "5.", "01", "00"]
NOT_OURS = ["-1", "-0", "1e2", "1E+4", "1e3000000", "NaN", "sNaN", "Infinity", "-Infinity"]
TOO_LONG = ["1.23456", "1234567890123", "1" * 40, "0." + "0" * 40]


@pytest.mark.parametrize("text", [*NO_NUMBERS, *NOT_OURS, *TOO_LONG])
def test_a_text_that_is_not_an_amount_is_refused(text):
    assert parse_amount(text) is None


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("0", "0"),
        ("10000", "10000"),
        ("150.75", "150.75"),
        ("150.50", "150.5"),
        ("1.00000", "1"),
        ("1.2345000", "1.2345"),
        ("999999999999.9999", "999999999999.9999"),
        ("0.0001", "0.0001"),
    ],
)
def test_an_amount_is_parsed_exactly_and_written_in_its_shortest_form(text, written):
    amount = parse_amount(text)
    assert amount == Decimal(text)
    assert plain(amount) == str(amount) == written


def test_an_amount_is_written_without_an_exponent():
    assert plain(Decimal("1E+4")) == "10000"
    assert plain(Decimal("1E-4")) == "0.0001"
    assert str(shortest(Decimal("0E-4"))) == "0"


@pytest.mark.parametrize(
    ("amount", "quantum"),
    [
        ("10000", "1"),
        ("1E+4", "1"),
        ("10.00", "1"),
        ("150.5", "0.01"),
        ("150.75", "0.01"),
        ("0.001", "0.0001"),
        ("1.2345", "0.0001"),
    ],
)
def test_the_rounding_step_follows_the_requested_amount(amount, quantum):
    assert quantum_of(Decimal(amount)) == Decimal(quantum)


def test_halves_are_rounded_up():
    assert rounded(Decimal("10.5"), Decimal(1)) == 11
    assert rounded(Decimal("11.5"), Decimal(1)) == 12
    assert rounded(Decimal("10.4999"), Decimal(1)) == 10


def test_sql_keeps_four_decimals():
    assert scaled(Decimal("999999999999.9999")) == 9_999_999_999_999_999


def test_an_amount_on_an_order_is_a_multiple_of_its_quantum():
    assert is_multiple(Decimal(5), Decimal(1))
    assert is_multiple(Decimal("5.00"), Decimal(1))
    assert not is_multiple(Decimal("0.5"), Decimal(1))
    assert not is_multiple(Decimal("0.001"), Decimal("0.01"))


def test_a_share_of_a_whole_of_zero_is_zero():
    assert share(Decimal(5), Decimal(0), Decimal(0), Decimal(1)) == 0


def test_a_share_of_large_amounts_is_exact():
    # The remainder is exactly half a quantum; a product that is cut to 28 digits loses it.
    cumulative, part, whole = map(Decimal, ("433968771382.5527", "332722488498.8367", "554910476872.7894"))
    assert share(cumulative, part, whole, Decimal("0.0001")) == Decimal("260206241480.4374")
