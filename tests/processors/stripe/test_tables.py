"""Stripe's unit, its decline codes, the signature of its messages, and its names for methods and their bounds."""

from __future__ import annotations

import hmac
import string
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.domain.orders.declines import DECLINES
from ledger.domain.orders.events import RefusedBy
from ledger.domain.orders.statuses import Advice
from ledger.processors.messages import InvalidSignature
from ledger.processors.stripe.declines import DECLINE_CODES, ERROR_CODES, declined
from ledger.processors.stripe.objects import Charge, Error, Intent, Outcome
from ledger.processors.stripe.signatures import verify
from ledger.processors.stripe.units import UNITS_MAX, NotChargeable, from_units, to_units

NOW = datetime(2026, 11, 26, 6, 0, tzinfo=UTC)
BODY = b'{"id": "evt_1"}'


@given(st.integers(1, UNITS_MAX), st.sampled_from(["MXN", "USD"]))
def test_every_amount_goes_to_stripe_and_back(units: int, currency: str) -> None:
    assert to_units(from_units(units), currency) == units


@given(st.decimals("0.0001", "200000000", places=4), st.sampled_from(["MXN", "USD"]))
def test_an_amount_is_sent_exactly_or_refused(amount: Decimal, currency: str) -> None:
    try:
        assert from_units(to_units(amount, currency)) == amount
    except NotChargeable:
        assert amount % 1 or amount > UNITS_MAX


@pytest.mark.parametrize(("amount", "currency"), [("0", "MXN"), ("-1", "MXN"), ("0.5", "USD"), ("100", "JPY")])
def test_what_stripe_does_not_take_is_not_sent(amount: str, currency: str) -> None:
    with pytest.raises(NotChargeable):
        to_units(Decimal(amount), currency)


def test_every_code_means_one_of_the_ledgers() -> None:
    assert len(DECLINE_CODES) == 50  # the rows of docs.stripe.com/declines/codes
    assert {*DECLINE_CODES.values(), *ERROR_CODES.values()} <= set(DECLINES)
    for code, meaning in DECLINE_CODES.items():
        answer = declined(Error(type="card_error", code="card_declined", decline_code=code))
        assert (answer.code, answer.network_advice) == (meaning, None)
    assert declined(Error(type="card_error", code="card_declined", decline_code="new_one")).code == "GENERIC_DECLINE"
    assert declined(Error(type="card_error", code="expired_card")).code == "CARD_EXPIRED"
    failed = Error(type="card_error", code="payment_intent_authentication_failure", decline_code="generic_decline")
    assert declined(failed).code == "AUTHENTICATION_FAILED"


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        ("confirm_card_data", Advice.FIX_DATA),
        ("do_not_try_again", Advice.DO_NOT_RETRY),
        ("try_again_later", Advice.RETRY_LATER),
        ("another", None),
    ],
)
def test_advice_is_passed_on(code: str, advice: Advice | None) -> None:
    assert declined(Error(decline_code="do_not_honor", advice_code=code)).network_advice is advice


def test_risk_rules_are_not_the_bank_and_card_numbers_are_masked() -> None:
    blocked = Intent(
        id="pi_1", status="requires_payment_method", latest_charge=Charge(id="ch_1", outcome=Outcome(type="blocked"))
    )
    error = Error(decline_code="generic_decline", message="Declined: 4242 4242 4242 4242")
    answer = declined(error, blocked)
    assert (answer.refused_by, answer.message) == (RefusedBy.RISK, "Declined: **** **** **** ****")
    assert declined(error).refused_by is RefusedBy.ISSUER


def header(*secrets: str, at: datetime = NOW, body: bytes = BODY, extra: str = "") -> str:
    timestamp = str(int(at.timestamp()))
    signed = [hmac.new(secret.encode(), timestamp.encode() + b"." + body, sha256).hexdigest() for secret in secrets]
    return f"t={timestamp}," + ",".join(f"v1={signature}" for signature in signed) + extra


def test_either_secret_of_an_endpoint_signs_its_messages() -> None:
    verify(header("whsec_new"), BODY, ["whsec_old", "whsec_new"], NOW)
    verify(header("whsec_old", "whsec_new", extra=",v0=00"), BODY, ["whsec_new"], NOW)
    for minutes in (-5, 5):
        verify(header("whsec_1", at=NOW + timedelta(minutes=minutes)), BODY, ["whsec_1"], NOW)


@pytest.mark.parametrize(
    "wrong",
    [
        header("whsec_other"),
        header("whsec_1", at=NOW - timedelta(seconds=301)),
        header("whsec_1", at=NOW + timedelta(seconds=301)),
        header("whsec_1", body=BODY + b" "),
        header("whsec_1").replace("v1=", "v0="),
        header("whsec_1").replace("t=", "t=+"),
        header("whsec_1").replace("t=", "t= "),
        header("whsec_1") + ",t=1",
        header("whsec_1").upper(),
        header(*["whsec_2"] * 21, "whsec_1"),
        "",
        "t=1",
        "v1=,t=",
        f"t={'9' * 30},v1=00",
        f"t=١٢٣,v1={'0' * 64}",
        "t=1,v1=é",
    ],
)
def test_a_wrong_old_or_altered_signature_is_invalid(wrong: str) -> None:
    with pytest.raises(InvalidSignature):
        verify(wrong, BODY, ["whsec_1"], NOW)


@given(st.text(string.printable, max_size=80))
def test_no_other_header_is_valid(text: str) -> None:
    with pytest.raises(InvalidSignature):
        verify(text, BODY, ["whsec_1"], NOW)


def test_no_secret_means_no_message() -> None:
    with pytest.raises(InvalidSignature):
        verify(header("whsec_1"), BODY, [], NOW)
