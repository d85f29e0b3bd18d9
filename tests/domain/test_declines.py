"""The decline codes and the advice about each."""

from __future__ import annotations

from ledger.domain.orders.declines import DECLINES, decline, decline_of_card, public_code
from ledger.domain.orders.events import RefusedBy
from ledger.domain.orders.statuses import Advice

CONTRACT = [
    "INSUFFICIENT_FUNDS",
    "DO_NOT_HONOR",
    "CARD_EXPIRED",
    "INVALID_CARD_NUMBER",
    "INVALID_CVV",
    "CARD_LOST_OR_STOLEN",
    "CARD_RESTRICTED",
    "CREDIT_LIMIT_EXCEEDED",
    "SUSPECTED_FRAUD",
    "AUTHENTICATION_REQUIRED",
    "AUTHENTICATION_FAILED",
    "ISSUER_UNAVAILABLE",
    "PROCESSOR_TIMEOUT",
    "TRANSACTION_NOT_PERMITTED",
    "DUPLICATE_TRANSACTION",
    "GENERIC_DECLINE",
]


def test_the_decline_codes_are_those_of_the_contract():
    assert list(DECLINES) == [*CONTRACT, "INSTALLMENTS_NOT_AVAILABLE", "CARD_TOKEN_INVALID"]


def test_an_unknown_code_is_a_generic_decline():
    assert decline("51") is DECLINES["GENERIC_DECLINE"]


def test_a_decline_with_the_advice_do_not_retry_is_not_retryable():
    assert all(not each.retryable for each in DECLINES.values() if each.advice is Advice.DO_NOT_RETRY)
    assert all(each.retryable for each in DECLINES.values() if each.advice is Advice.RETRY_LATER)
    assert decline("ISSUER_UNAVAILABLE").retryable
    assert not decline("CARD_LOST_OR_STOLEN").retryable


def test_a_card_that_is_not_saved_is_declined_in_words_of_its_own():
    for code, known in DECLINES.items():
        declined = decline_of_card(code)
        assert (declined.code, declined.retryable, declined.advice) == (code, known.retryable, known.advice)
        assert ("payment" in declined.message, declined.message.endswith(" The card is not saved.")) == (False, True)
    assert decline_of_card("51").code == "GENERIC_DECLINE"
    advised = decline_of_card("51", Advice.DO_NOT_RETRY)
    assert (advised.advice, advised.retryable) == (Advice.DO_NOT_RETRY, False)


def test_a_refusal_by_risk_rules_has_its_own_error_code():
    assert public_code(RefusedBy.RISK) == "RISK_REJECTED"
    assert public_code(RefusedBy.ISSUER) == public_code(None) == public_code(None, "CARD_EXPIRED") == "PAYMENT_DECLINED"
    assert public_code(None, "INSTALLMENTS_NOT_AVAILABLE") == "INSTALLMENTS_NOT_AVAILABLE"


def test_the_networks_advice_about_one_payment_counts_more_than_its_code():
    assert decline("CARD_EXPIRED", None) is DECLINES["CARD_EXPIRED"]
    for code, advice, retryable in (
        ("GENERIC_DECLINE", Advice.DO_NOT_RETRY, False),
        ("GENERIC_DECLINE", Advice.FIX_DATA, False),
        ("GENERIC_DECLINE", Advice.RETRY_WITH_OTHER_METHOD, True),
        ("CARD_RESTRICTED", Advice.RETRY_WITH_OTHER_METHOD, False),
        ("CARD_RESTRICTED", Advice.RETRY_LATER, True),
    ):
        assert (decline(code, advice).advice, decline(code, advice).retryable) == (advice, retryable)
