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


@pytest.mark.parametrize(
    ("brand", "succeeded", "failed"),
    [("VISA", "05", "07"), ("AMEX", "05", "07"), ("MASTERCARD", "02", "00"), ("CARNET", None, None)],
)
def test_each_network_has_its_own_indicator_of_an_authentication(brand, succeeded, failed):
    assert bins.eci_of(brand, authenticated=True) == succeeded
    assert bins.eci_of(brand, authenticated=False) == failed
