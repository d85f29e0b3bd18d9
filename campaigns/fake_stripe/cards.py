"""Stripe's test cards, by their numbers and by the names of their tokens, and what each does.

Sources: https://docs.stripe.com/testing and https://docs.stripe.com/declines/codes. Two kinds are this fake's own:
`pm_card_decline_CODE` is declined with any decline code, `pm_card_decline_CODE__ADVICE` with advice as well; and the number
4000004840000016, a Mexican credit card with instalments over 3 and 6 months alone.
"""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

Advice = Literal["confirm_card_data", "do_not_try_again", "try_again_later"]
Authentication = Literal["never", "required", "until_set_up"]
AFTERWARDS = Literal[
    "", "dispute_fraudulent", "dispute_product_not_received", "inquiry", "refund_pending", "refund_fails", "available"
]
ALL_PLANS: Final = (3, 6, 9, 12, 18, 24)
PLAN_MINIMUM: Final = {3: 30_000, 6: 60_000, 9: 90_000, 12: 120_000, 18: 180_000, 24: 240_000}
"""The least amount of a plan, in centavos: 100 pesos a month (https://docs.stripe.com/payments/mx-installments)."""


class TestCard(Struct, frozen=True, kw_only=True):
    """A card and its behaviour. `decline` is a decline code; `plans` are months."""

    number: str
    brand: str = "visa"
    country: str = "US"
    funding: str = "credit"
    decline: str | None = None
    advice: Advice | None = None
    blocked: bool = False
    authentication: Authentication = "never"
    afterwards: AFTERWARDS = ""
    cvc_check: str = "pass"
    plans: tuple[int, ...] = ()


def _declined(number: str, decline: str, advice: Advice | None = None, **facts: object) -> TestCard:
    return TestCard(number=number, decline=decline, advice=advice, **facts)  # type: ignore[arg-type]


BY_NAME: Final = {
    "visa": TestCard(number="4242424242424242"),
    "visa_debit": TestCard(number="4000056655665556", funding="debit"),
    "mastercard": TestCard(number="5555555555554444", brand="mastercard"),
    "mastercard_debit": TestCard(number="5200828282828210", brand="mastercard", funding="debit"),
    "mastercard_prepaid": TestCard(number="5105105105105100", brand="mastercard", funding="prepaid"),
    "amex": TestCard(number="378282246310005", brand="amex"),
    "discover": TestCard(number="6011111111111117", brand="discover"),
    "mx": TestCard(number="4000004840008001", country="MX", plans=ALL_PLANS),
    "us": TestCard(number="4242424242424242"),
    "br": TestCard(number="4000000760000002", country="BR"),
    "bypassPending": TestCard(number="4000000000000077", afterwards="available"),
    "visa_chargeDeclined": _declined("4000000000000002", "generic_decline", "try_again_later"),
    "visa_chargeDeclinedInsufficientFunds": _declined("4000000000009995", "insufficient_funds", "try_again_later"),
    "visa_chargeDeclinedLostCard": _declined("4000000000009987", "lost_card", "do_not_try_again"),
    "visa_chargeDeclinedStolenCard": _declined("4000000000009979", "stolen_card", "do_not_try_again"),
    "visa_chargeDeclinedFraudulent": _declined("4100000000000019", "fraudulent", "do_not_try_again", blocked=True),
    "chargeDeclined": _declined("4000000000000002", "generic_decline", "try_again_later"),
    "chargeDeclinedInsufficientFunds": _declined("4000000000009995", "insufficient_funds", "try_again_later"),
    "chargeDeclinedExpiredCard": _declined("4000000000000069", "expired_card", "confirm_card_data"),
    "chargeDeclinedIncorrectCvc": _declined("4000000000000127", "incorrect_cvc", "confirm_card_data", cvc_check="fail"),
    "chargeDeclinedProcessingError": _declined("4000000000000119", "processing_error", "try_again_later"),
    "chargeDeclinedFraudulent": _declined("4100000000000019", "fraudulent", "do_not_try_again", blocked=True),
    "chargeDeclinedVelocityLimitExceeded": _declined("4000000000006975", "card_velocity_exceeded", "try_again_later"),
    "chargeCustomerFail": _declined("4000000000000341", "generic_decline", "try_again_later"),
    "radarBlock": _declined("4100000000000019", "fraudulent", "do_not_try_again", blocked=True),
    "cvcCheckFail": TestCard(number="4000000000000101", cvc_check="fail"),
    "authenticationRequired": TestCard(number="4000002760003184", authentication="required", country="DE"),
    "authenticationRequiredOnSetup": TestCard(number="4000002500003155", authentication="until_set_up", country="FR"),
    "authenticationRequiredChargeDeclinedInsufficientFunds": _declined(
        "4000008260003178", "insufficient_funds", "try_again_later", authentication="required", country="GB"
    ),
    "threeDSecureRequired": TestCard(number="4000000000003220", authentication="required"),
    "threeDSecure2Required": TestCard(number="4000000000003220", authentication="required"),
    "threeDSecureRequiredChargeDeclined": _declined(
        "4000008400001629", "generic_decline", "try_again_later", authentication="required"
    ),
    "threeDSecureOptional": TestCard(number="4000000000003055"),
    "createDispute": TestCard(number="4000000000000259", afterwards="dispute_fraudulent"),
    "createDisputeProductNotReceived": TestCard(number="4000000000002685", afterwards="dispute_product_not_received"),
    "createDisputeInquiry": TestCard(number="4000000000001976", afterwards="inquiry"),
    "pendingRefund": TestCard(number="4000000000007726", afterwards="refund_pending"),
    "refundFail": TestCard(number="4000000000005126", afterwards="refund_fails"),
}
_OWN: Final = (TestCard(number="4000004840000016", country="MX", plans=(3, 6)),)
_MORE_NUMBERS: Final = (
    TestCard(number="4000000000000010"),
    TestCard(number="2223003122003222", brand="mastercard"),
    TestCard(number="371449635398431", brand="amex"),
)
BY_NUMBER: Final = {card.number: card for card in (*_MORE_NUMBERS, *_OWN, *reversed(BY_NAME.values()))}

DECLINE_CODES: Final = frozenset(
    {
        "authentication_required",
        "approve_with_id",
        "call_issuer",
        "card_not_supported",
        "card_velocity_exceeded",
        "currency_not_supported",
        "do_not_honor",
        "do_not_try_again",
        "duplicate_transaction",
        "expired_card",
        "fraudulent",
        "generic_decline",
        "incorrect_address",
        "incorrect_cvc",
        "incorrect_number",
        "incorrect_pin",
        "incorrect_zip",
        "insufficient_funds",
        "invalid_account",
        "invalid_amount",
        "invalid_cvc",
        "invalid_expiry_month",
        "invalid_expiry_year",
        "invalid_number",
        "invalid_pin",
        "issuer_not_available",
        "lost_card",
        "merchant_blacklist",
        "mobile_device_authentication_required",
        "new_account_information_available",
        "no_action_taken",
        "not_permitted",
        "offline_pin_required",
        "online_or_offline_pin_required",
        "pickup_card",
        "pin_try_exceeded",
        "processing_error",
        "reenter_transaction",
        "restricted_card",
        "revocation_of_all_authorizations",
        "revocation_of_authorization",
        "security_violation",
        "service_not_allowed",
        "stolen_card",
        "stop_payment_order",
        "testmode_decline",
        "transaction_not_allowed",
        "try_again_later",
        "withdrawal_count_limit_exceeded",
    }
)
OWN_CODES: Final = frozenset(
    {
        "expired_card",
        "incorrect_cvc",
        "invalid_cvc",
        "incorrect_number",
        "invalid_number",
        "invalid_expiry_month",
        "invalid_expiry_year",
        "incorrect_zip",
        "incorrect_address",
        "processing_error",
        "authentication_required",
    }
)
"""Decline codes that are error codes themselves. The others come with `card_declined`."""
_MESSAGES: Final = {
    "insufficient_funds": "Your card has insufficient funds.",
    "expired_card": "Your card has expired.",
    "incorrect_cvc": "Your card's security code is incorrect.",
    "processing_error": "An error occurred while processing your card. Try again in a little bit.",
    "incorrect_number": "Your card number is incorrect.",
    "authentication_required": "Your card was declined. This transaction requires authentication.",
    "card_velocity_exceeded": "Your card was declined for making repeated attempts too frequently or exceeding its amount limit.",
}
_DECLINE: Final = "decline_"


def named(name: str) -> TestCard | None:
    """Returns the card of a token's name without its prefix, None if there is none."""
    if not name.startswith(_DECLINE):
        return BY_NAME.get(name)
    code, _, advice = name.removeprefix(_DECLINE).partition("__")
    if code not in DECLINE_CODES:
        return None
    return replace(BY_NAME["visa_chargeDeclined"], decline=code, advice=advice or None)


def numbered(number: str) -> TestCard | None:
    """Returns the card of a number. Any other valid number is a card that works, None is a wrong one."""
    if not number.isdigit() or not 12 <= len(number) <= 19 or not _luhn(number):
        return None
    return BY_NUMBER.get(number) or TestCard(number=number)


def message(decline: str) -> str:
    return _MESSAGES.get(decline, "Your card was declined.")


def _luhn(number: str) -> bool:
    digits = [int(each) for each in reversed(number)]
    return (sum(digits[::2]) + sum(sum(divmod(2 * each, 10)) for each in digits[1::2])) % 10 == 0
