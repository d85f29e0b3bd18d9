"""The processor-neutral decline codes (contract 5.1), and what a merchant should do about each.

Translate a processor's codes into these before they reach the core. A code outside this table becomes GENERIC_DECLINE.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from msgspec import Struct

from ledger.domain.orders.events import RefusedBy


class Advice(StrEnum):
    """What the merchant should do after a decline."""

    RETRY_LATER = "RETRY_LATER"
    RETRY_WITH_OTHER_METHOD = "RETRY_WITH_OTHER_METHOD"
    FIX_DATA = "FIX_DATA"
    DO_NOT_RETRY = "DO_NOT_RETRY"


class Decline(Struct, frozen=True):
    """A decline code. `retryable` is True where the same card, unchanged, can be approved at another time."""

    code: str
    retryable: bool
    advice: Advice
    message: str


GENERIC_DECLINE: Final = "GENERIC_DECLINE"
PROCESSOR_TIMEOUT: Final = "PROCESSOR_TIMEOUT"

_TABLE: Final = (
    Decline("INSUFFICIENT_FUNDS", True, Advice.RETRY_WITH_OTHER_METHOD, "The card has insufficient funds."),
    Decline("DO_NOT_HONOR", True, Advice.RETRY_WITH_OTHER_METHOD, "The card's bank declined the payment."),
    Decline("CARD_EXPIRED", False, Advice.FIX_DATA, "The card has expired."),
    Decline("INVALID_CARD_NUMBER", False, Advice.FIX_DATA, "The card number is not valid."),
    Decline("INVALID_CVV", False, Advice.FIX_DATA, "The card's security code is not valid."),
    Decline("CARD_LOST_OR_STOLEN", False, Advice.DO_NOT_RETRY, "The card cannot be used."),
    Decline("CARD_RESTRICTED", False, Advice.RETRY_WITH_OTHER_METHOD, "The card does not allow this payment."),
    Decline("CREDIT_LIMIT_EXCEEDED", True, Advice.RETRY_WITH_OTHER_METHOD, "The card's limit would be exceeded."),
    Decline("SUSPECTED_FRAUD", False, Advice.DO_NOT_RETRY, "The payment was refused."),
    Decline("AUTHENTICATION_REQUIRED", False, Advice.RETRY_WITH_OTHER_METHOD, "The payer has to be authenticated."),
    Decline("AUTHENTICATION_FAILED", True, Advice.RETRY_WITH_OTHER_METHOD, "The payer could not be authenticated."),
    Decline("ISSUER_UNAVAILABLE", True, Advice.RETRY_LATER, "The card's bank cannot be reached."),
    Decline(PROCESSOR_TIMEOUT, True, Advice.RETRY_LATER, "The payment processor did not carry out the payment."),
    Decline(
        "TRANSACTION_NOT_PERMITTED", False, Advice.RETRY_WITH_OTHER_METHOD, "The card does not permit this payment."
    ),
    Decline("DUPLICATE_TRANSACTION", False, Advice.DO_NOT_RETRY, "The same payment was made a moment ago."),
    Decline(GENERIC_DECLINE, True, Advice.RETRY_WITH_OTHER_METHOD, "The payment was declined."),
)

DECLINES: Final = {decline.code: decline for decline in _TABLE}


def decline(code: str) -> Decline:
    """Returns the entry of a decline code; GENERIC_DECLINE for an unknown code."""
    return DECLINES.get(code) or DECLINES[GENERIC_DECLINE]


def public_code(refused_by: RefusedBy | None) -> str:
    """Returns the error code of the answer: RISK_REJECTED where risk rules refused, before the issuer was asked."""
    return "RISK_REJECTED" if refused_by is RefusedBy.RISK else "PAYMENT_DECLINED"
