"""Card data in the interface's two places and two spellings, and what is stored of it."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from tests.api.bodies import (
    ABSENT,
    APPROVED,
    by_card,
    card,
    drafted,
    drafted_charge,
    encoded,
    field_of,
    paid_order,
    refusal_of,
)

from api.orders.create import parse_create
from ledger.operations.context.inputs import PaymentInput

NUMBER, MONTH, YEAR, CVC = (
    f"paymentMethod.cardDetails.{name}" for name in ("number", "expiryMonth", "expiryYear", "cvc")
)


def paid(method: dict[str, Any]) -> dict[str, Any]:
    return paid_order(paymentMethod=method)


def payment_of(method: dict[str, Any]) -> PaymentInput:
    payment = drafted(paid(method)).payment
    assert payment is not None
    return payment


def test_a_card_is_parsed_into_a_secret_and_a_summary():
    payment = payment_of(by_card(cardDetails=card(cardholderName="ANA LÓPEZ")))
    assert payment.card is not None
    assert (payment.card.number, payment.card.cvc) == (APPROVED, "123")
    assert repr(payment.card) == "Card(***)"
    summary = payment.card_summary
    assert summary is not None
    assert (summary.bin, summary.last4, summary.brand) == ("424242", "4242", "VISA")
    assert (summary.exp_month, summary.exp_year, summary.cardholder_name) == (12, 2034, "ANA LÓPEZ")


@pytest.mark.parametrize(
    "details",
    [
        card(expiryMonth="12", expiryYear="2034"),
        card(expiryMonth=12, expiryYear=34),
        card(expiryMonth=12, expiryYear=2034),
        card(expiryMonth=ABSENT, expiryYear=ABSENT, expMonth="12", expYear="34"),
        card(expiryMonth=ABSENT, expiryYear=ABSENT, expMonth=12, expYear=2034),
        card(expMonth=12, expYear="2034"),
        card(number="4242 4242 4242 4242"),
        card(number="4242-4242-4242-4242"),
    ],
)
def test_every_spelling_of_a_card_means_the_same(details: dict[str, Any]):
    assert drafted(paid(by_card(cardDetails=details))) == drafted(paid(by_card()))
    elsewhere = by_card(cardDetails=ABSENT, options={"card": details})
    assert drafted(paid(elsewhere)) == drafted(paid(by_card()))


def test_a_month_may_have_one_digit():
    for month in ("3", "03", 3):
        card_ = payment_of(by_card(cardDetails=card(expiryMonth=month))).card
        assert card_ is not None
        assert card_.exp_month == 3


@pytest.mark.parametrize(
    ("method", "names"),
    [
        (by_card(options={"card": card(number="5555555555554444")}), (NUMBER, "paymentMethod.options.card.number")),
        (by_card(options={"card": card(cvc="999")}), (CVC, "paymentMethod.options.card.cvc")),
        (by_card(cardDetails=card(expMonth=11)), (MONTH, "paymentMethod.cardDetails.expMonth")),
        (by_card(cardDetails=card(expYear=35)), (YEAR, "paymentMethod.cardDetails.expYear")),
        (
            by_card(persist=True, options={"persist": False}),
            ("paymentMethod.persist", "paymentMethod.options.persist"),
        ),
        (
            by_card(persist=True, cardDetails=card(persist=False)),
            ("paymentMethod.persist", "paymentMethod.cardDetails.persist"),
        ),
    ],
)
def test_two_different_cards_in_one_request_conflict(method: dict[str, Any], names: tuple[str, str]):
    refusal = refusal_of(paid(method))
    assert refusal.code == "CONFLICTING_FIELDS"
    assert tuple(error.field for error in refusal.errors) == names
    assert "4444" not in refusal.message


def test_the_same_card_in_both_places_is_one_card():
    assert drafted(paid(by_card(options={"card": card()}))) == drafted(paid(by_card()))


@pytest.mark.parametrize(
    "method",
    [
        by_card(persist=True),
        by_card(cardDetails=card(persist=True)),
        by_card(options={"persist": True}),
        by_card(cardDetails=ABSENT, options={"card": card(persist=True)}),
    ],
)
def test_persist_is_understood_in_every_place(method: dict[str, Any]):
    assert payment_of(method).persist
    assert not payment_of(by_card()).persist


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"number": ABSENT}, NUMBER),
        ({"number": "4242424242424241"}, NUMBER),
        ({"number": "424242424242"}, NUMBER),
        ({"number": "42424242424242424242"}, NUMBER),
        ({"number": "4242x4242x4242x4242"}, NUMBER),
        ({"number": "４２４２４２４２４２４２４２４２"}, NUMBER),
        ({"number": 4242424242424242}, NUMBER),
        ({"expiryMonth": ABSENT}, MONTH),
        ({"expiryMonth": "0"}, MONTH),
        ({"expiryMonth": "13"}, MONTH),
        ({"expiryMonth": "001"}, MONTH),
        ({"expiryMonth": -1}, MONTH),
        ({"expiryMonth": "²"}, MONTH),
        ({"expiryMonth": 1.0}, MONTH),
        ({"expiryMonth": True}, MONTH),
        ({"expiryYear": ABSENT}, YEAR),
        ({"expiryYear": "7"}, YEAR),
        ({"expiryYear": "127"}, YEAR),
        ({"expiryYear": "1999"}, YEAR),
        ({"expiryYear": "12027"}, YEAR),
        ({"cvc": ABSENT}, CVC),
        ({"cvc": "12"}, CVC),
        ({"cvc": "12345"}, CVC),
        ({"cvc": 123}, CVC),
        ({"cardholderName": "x" * 256}, "paymentMethod.cardDetails.cardholderName"),
    ],
)
def test_wrong_card_data_is_named_in_the_canonical_spelling(change: dict[str, Any], field: str):
    assert field_of(paid(by_card(cardDetails=card(**change)))) == field
    assert field_of(paid(by_card(cardDetails=ABSENT, options={"card": card(**change)}))) == field


@pytest.mark.parametrize("read", [drafted, drafted_charge])
def test_a_card_payment_needs_a_card(read: Any):
    assert field_of(paid({"type": "card"}), read) == "paymentMethod.cardTokens"


@pytest.mark.parametrize(
    ("month", "year", "field"),
    [("03", "26", None), ("02", "26", MONTH), ("12", "25", YEAR), ("01", "2027", None)],
)
def test_a_card_is_good_until_the_end_of_its_month(month: str, year: str, field: str | None):
    body = paid(by_card(cardDetails=card(expiryMonth=month, expiryYear=year)))
    if field is None:
        assert drafted(body)
    else:
        refusal = refusal_of(body)
        assert (refusal.errors[0].field, refusal.errors[0].code) == (field, "CARD_EXPIRED")


def test_the_merchants_calendar_decides_when_a_month_ends():
    body = encoded(paid(by_card(cardDetails=card(expiryMonth=3, expiryYear=26))))
    assert parse_create(body, datetime(2026, 3, 31, 23, 0, tzinfo=ZoneInfo("America/Mexico_City")))
    refusal = refusal_of(body, lambda sent: parse_create(sent, datetime(2026, 4, 1, 5, 0, tzinfo=ZoneInfo("UTC"))))
    assert refusal.errors[0].field == MONTH


@pytest.mark.parametrize(
    ("field", "method"),
    [
        (NUMBER, {"type": "spei", "cardDetails": {"number": "4242"}}),
        (CVC, {"type": "paycash", "options": {"card": {"cvc": "12345"}}}),
        (MONTH, {"type": "payment_method_id", "paymentMethodId": "saved", "cardDetails": {"expMonth": 13}}),
        (YEAR, {"type": "spei", "cardDetails": {"expiryYear": "199"}}),
        ("paymentMethod.cvc", by_card(cvc="x")),
        ("paymentMethod.cvc", {"type": "spei", "cvc": "12"}),
    ],
)
def test_unused_card_data_must_still_be_well_formed(field: str, method: dict[str, Any]):
    assert field_of(paid(method)) == field
