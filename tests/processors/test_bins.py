"""Brand, type, country and issuer by the first digits of a card number."""

from __future__ import annotations

import itertools

import pytest

from ledger.processors import bins


@pytest.mark.parametrize(
    ("number", "brand"),
    [
        ("4000123412341234", "VISA"),
        ("4999999999999999", "VISA"),
        ("5100000000000000", "MASTERCARD"),
        ("5599990000000000", "MASTERCARD"),
        ("2221000000000009", "MASTERCARD"),
        ("2720990000000000", "MASTERCARD"),
        ("340000000000009", "AMEX"),
        ("378282246310005", "AMEX"),
        ("5062210000000009", "CARNET"),
        ("5064990000000000", "CARNET"),
        ("6363180000000000", "CARNET"),
        ("6011000990139424", "DISCOVER"),
        ("6445640000000000", "DISCOVER"),
        ("30569309025904", "DINERS"),
        ("36700102000000", "DINERS"),
        ("3530111333300000", "JCB"),
        ("6200000000000005", "UNIONPAY"),
        ("6759649826438453", "MAESTRO"),
    ],
)
def test_the_brand_follows_from_the_range(number, brand):
    assert bins.bin_info(number).brand == brand


@pytest.mark.parametrize(
    "number", ["2220990000000000", "2721000000000000", "5000000000000000", "9999999999999999", "123", "", "٤٢٤٢٤٢٤٢"]
)
def test_a_number_outside_every_range_has_no_brand(number):
    assert bins.bin_info(number) == (bins.UNKNOWN_BRAND, None, None, None)


@pytest.mark.parametrize("number", ["4242424242424242", "4111111111111111", "5555555555554444", "4000000000000002"])
def test_the_sandbox_cards_come_from_mexican_banks(number):
    brand, type_, country, bank = bins.bin_info(number)
    assert brand in {"VISA", "MASTERCARD"}
    assert type_ in {"CREDIT", "DEBIT"}
    assert country == "MX"
    assert bank


def test_no_range_overlaps_another():
    spans = [(first, last) for first, last, _ in bins._RANGES]
    assert all(first <= last for first, last in spans)
    assert all(last < following for (_, last), (following, _) in itertools.pairwise(spans))


def test_the_narrow_ranges_are_in_order_and_lie_within_the_wide_ones():
    rows = bins._ISSUED_RANGES
    assert all(last < following for (_, last, _), (following, _, _) in itertools.pairwise(rows))
    for first, last, lengths in rows:
        for length in lengths:
            ends = [f"{eight}{filling * (length - 8)}" for eight in (first, last) for filling in "09"]
            assert all(bins.is_issued(number) for number in ends), (first, length)


@pytest.mark.parametrize(
    ("number", "is_payers"),
    [
        ("4000000000000000", True),
        ("4000000000000", False),
        ("4000000000000000000", False),
        ("2221000000000000", True),
        ("2220999999999999", False),
        ("2720999999999999", True),
        ("2721000000000000", False),
        ("5064990000000000", True),
        ("36000000000000", True),
        ("30300000000000", False),
        ("3030000000000000", True),
        ("340000000000000", True),
        ("3400000000000000", False),
        ("6200000000000000000", True),
        ("2611251843140017", False),
        ("2611250000000042", False),
        ("2613251843140017", True),
        ("2511202618431400", False),
        ("1000000000000000", False),
        ("9999999999999999", False),
    ],
)
def test_a_number_is_a_payers_card_by_its_first_eight_digits_and_its_length(number, is_payers):
    assert bins.is_in_issued_range(number) == is_payers


@pytest.mark.parametrize(
    ("brand", "succeeded", "failed"),
    [("VISA", "05", "07"), ("AMEX", "05", "07"), ("MASTERCARD", "02", "00"), ("CARNET", None, None)],
)
def test_each_network_has_its_own_indicator_of_an_authentication(brand, succeeded, failed):
    assert bins.eci_of(brand, authenticated=True) == succeeded
    assert bins.eci_of(brand, authenticated=False) == failed
