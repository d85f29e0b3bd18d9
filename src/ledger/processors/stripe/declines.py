"""What Stripe's decline codes and advice mean in the ledger's words (contract 5.1).

Sources: each decline code is a row of "Card decline codes" at docs.stripe.com/declines/codes (2026-09), in its order; a
comment repeats Stripe's description where it decided. Codes of errors are rows of
docs.stripe.com/error-codes. The advice codes are the values of `outcome.advice_code` of a charge in Stripe's OpenAPI
description (github.com/stripe/openapi); their meaning is in docs.stripe.com/declines/card, "Retrying issuer declines".
"""

from __future__ import annotations

import re
from typing import Final

import structlog

from ledger.domain.orders.declines import CARD_TOKEN_INVALID
from ledger.domain.orders.events import RefusedBy
from ledger.domain.orders.processor_outcomes import Declined
from ledger.domain.orders.statuses import Advice
from ledger.processors.card_data import masked, masked_text
from ledger.processors.contract import ProcessorUnavailable
from ledger.processors.stripe.objects import Error, Intent

_log = structlog.get_logger()

_GENERIC: Final = "GENERIC_DECLINE"
_NAMES: Final = re.compile(r"\b(?:pm|card|src|tok|ctoken|cus)_\w+", re.ASCII)
_MESSAGE_MAX: Final = 255

DECLINE_CODES: Final = {
    "authentication_required": "AUTHENTICATION_REQUIRED",
    "authentication_not_handled": "AUTHENTICATION_REQUIRED",
    "approve_with_id": "DO_NOT_HONOR",  # "The payment can't be authorized": the payer has to ask the bank
    "call_issuer": "DO_NOT_HONOR",
    "card_not_supported": "TRANSACTION_NOT_PERMITTED",
    "card_velocity_exceeded": "CREDIT_LIMIT_EXCEEDED",  # "the balance, credit limit, or transaction amount limit"
    "currency_not_supported": "TRANSACTION_NOT_PERMITTED",
    "do_not_honor": "DO_NOT_HONOR",
    "do_not_try_again": "DO_NOT_HONOR",
    "duplicate_transaction": "DUPLICATE_TRANSACTION",
    "expired_card": "CARD_EXPIRED",
    "fraudulent": "SUSPECTED_FRAUD",
    "generic_decline": _GENERIC,
    "incorrect_address": _GENERIC,
    "incorrect_cvc": "INVALID_CVV",
    "incorrect_number": "INVALID_CARD_NUMBER",
    "incorrect_pin": "AUTHENTICATION_FAILED",
    "incorrect_zip": _GENERIC,
    "insufficient_funds": "INSUFFICIENT_FUNDS",
    "invalid_account": "CARD_RESTRICTED",  # "The card, or account the card is connected to, is invalid"
    "invalid_amount": "TRANSACTION_NOT_PERMITTED",
    "invalid_cvc": "INVALID_CVV",
    "invalid_expiry_month": "CARD_EXPIRED",
    "invalid_expiry_year": "CARD_EXPIRED",
    "invalid_number": "INVALID_CARD_NUMBER",
    "invalid_pin": "AUTHENTICATION_FAILED",
    "issuer_not_available": "ISSUER_UNAVAILABLE",
    "lost_card": "CARD_LOST_OR_STOLEN",
    "merchant_blacklist": "SUSPECTED_FRAUD",  # "matches a value on the Stripe user's block list"
    "new_account_information_available": "CARD_RESTRICTED",
    "no_action_taken": "DO_NOT_HONOR",
    "not_permitted": "TRANSACTION_NOT_PERMITTED",
    "offline_pin_required": "AUTHENTICATION_REQUIRED",
    "online_or_offline_pin_required": "AUTHENTICATION_REQUIRED",
    "pickup_card": "CARD_LOST_OR_STOLEN",  # "it's possible it was reported lost or stolen"
    "pin_try_exceeded": "AUTHENTICATION_FAILED",
    "processing_error": "ISSUER_UNAVAILABLE",
    "reenter_transaction": "ISSUER_UNAVAILABLE",  # "couldn't be processed by the issuer for an unknown reason"
    "restricted_card": "CARD_RESTRICTED",
    "revocation_of_all_authorizations": "CARD_RESTRICTED",
    "revocation_of_authorization": "CARD_RESTRICTED",
    "security_violation": "DO_NOT_HONOR",
    "service_not_allowed": "TRANSACTION_NOT_PERMITTED",
    "stolen_card": "CARD_LOST_OR_STOLEN",
    "stop_payment_order": "DO_NOT_HONOR",
    "testmode_decline": _GENERIC,
    "transaction_not_allowed": "TRANSACTION_NOT_PERMITTED",
    "try_again_later": "ISSUER_UNAVAILABLE",
    "withdrawal_count_limit_exceeded": "CREDIT_LIMIT_EXCEEDED",
    "mobile_device_authentication_required": "AUTHENTICATION_REQUIRED",
}

ERROR_CODES: Final = {
    "authentication_required": "AUTHENTICATION_REQUIRED",
    "expired_card": "CARD_EXPIRED",
    "incorrect_cvc": "INVALID_CVV",
    "incorrect_number": "INVALID_CARD_NUMBER",
    "invalid_cvc": "INVALID_CVV",
    "invalid_expiry_month": "CARD_EXPIRED",
    "invalid_expiry_year": "CARD_EXPIRED",
    "invalid_number": "INVALID_CARD_NUMBER",
    "payment_intent_authentication_failure": "AUTHENTICATION_FAILED",
    "processing_error": "ISSUER_UNAVAILABLE",
    "setup_intent_authentication_failure": "AUTHENTICATION_FAILED",
}
"""Codes of errors that come without a decline code, or are more exact than it."""

ADVICE_CODES: Final = {
    "confirm_card_data": Advice.FIX_DATA,
    "do_not_try_again": Advice.DO_NOT_RETRY,
    "try_again_later": Advice.RETRY_LATER,
}

BY_RISK_RULES: Final = frozenset({"fraudulent", "merchant_blacklist"})
"""The declines that are Stripe's or the merchant's own rules, not the bank's, by the descriptions of their rows."""

_BLOCKED: Final = "blocked"
_CARD_ERROR: Final = "card_error"
"""The type of the error of a card that is declined (docs.stripe.com/api/errors)."""
_TOKEN_PARAMETERS: Final = frozenset({"confirmation_token", "payment_method", "source"})
"""The parameters that an error names for a card's token: of the ledger's requests, they have nothing else."""
_USED_UP: Final = "may not be used again"
"""What Stripe writes, in two sentences so far, about a payment method that was charged without a customer or detached;
the error may have no code and no parameter.
"""


def without_names(text: str) -> str:
    """Returns a text of Stripe's without the names of cards and their customers: it is stored in an event."""
    return _NAMES.sub("***", text)


def declined(error: Error, intent: Intent | None = None) -> Declined:
    """Returns the decline that an error of a card means."""
    own = ERROR_CODES.get(error.code or "")
    code = own or DECLINE_CODES.get(error.decline_code or error.code or "", _GENERIC)
    charge = None if intent is None else intent.charge
    is_blocked = charge is not None and charge.outcome is not None and charge.outcome.type == _BLOCKED
    by_risk = is_blocked or error.decline_code in BY_RISK_RULES
    answer = Declined(
        code=code,
        message=None if error.message is None else without_names(error.message)[:_MESSAGE_MAX],
        refused_by=RefusedBy.RISK if by_risk else RefusedBy.ISSUER,
        network_advice=ADVICE_CODES.get(error.advice_code or ""),
    )
    return masked(answer)


def refused(error: Error, intent: Intent | None = None) -> Declined:
    """Returns the decline that a refusal means: the card's, or that of a token which cannot be charged.

    Stripe shows only then that a payment method is used up. Whatever else it refuses is a fault of the request or of
    the account, and no bank was asked. Raises ProcessorUnavailable for that.
    """
    if error.type == _CARD_ERROR or error.decline_code is not None or error.code in ERROR_CODES:
        return declined(error, intent)
    message = without_names(error.message or "")[:_MESSAGE_MAX]
    if error.param in _TOKEN_PARAMETERS or _USED_UP in (error.message or ""):
        return masked(Declined(code=CARD_TOKEN_INVALID, message=message or None))
    _log.error("stripe_refused_request", code=error.code, param=error.param, message=masked_text(message))
    raise ProcessorUnavailable(f"Stripe refuses the request: {error.code or error.type}")
