"""The processor-neutral decline codes (contract 5.1), and what a merchant should do about each.

Translate a processor's codes into these before they reach the core. A code outside this table becomes GENERIC_DECLINE.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from ledger.domain.orders.events import RefusedBy
from ledger.domain.orders.statuses import Advice


class Decline(Struct, frozen=True):
    """A decline code. `retryable` is True if the same card, unchanged, can be approved at another time."""

    code: str
    retryable: bool
    advice: Advice
    message: str


GENERIC_DECLINE: Final = "GENERIC_DECLINE"
PROCESSOR_TIMEOUT: Final = "PROCESSOR_TIMEOUT"
INSTALLMENTS_NOT_AVAILABLE: Final = "INSTALLMENTS_NOT_AVAILABLE"
"""Beyond the contract's codes: the same card can be approved in one payment, or in another number of months."""
CARD_TOKEN_INVALID: Final = "CARD_TOKEN_INVALID"  # noqa: S105 - no secret
"""Beyond the contract's codes: the processor shows only at the charge that a token is used up. No bank was asked."""

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
    Decline(INSTALLMENTS_NOT_AVAILABLE, False, Advice.FIX_DATA, "The card's bank does not offer these instalments."),
    Decline(CARD_TOKEN_INVALID, False, Advice.FIX_DATA, "The card's token is used up: enter the card again."),
)

_SPANISH: Final = {
    "INSUFFICIENT_FUNDS": "La tarjeta no tiene fondos suficientes.",
    "DO_NOT_HONOR": "El banco de la tarjeta rechazó el pago.",
    "CARD_EXPIRED": "La tarjeta está vencida.",
    "INVALID_CARD_NUMBER": "El número de la tarjeta no es válido.",
    "INVALID_CVV": "El código de seguridad de la tarjeta no es válido.",
    "CARD_LOST_OR_STOLEN": "La tarjeta no se puede usar.",
    "CARD_RESTRICTED": "La tarjeta no permite este pago.",
    "CREDIT_LIMIT_EXCEEDED": "El pago excede el límite de la tarjeta.",
    "SUSPECTED_FRAUD": "El pago fue rechazado.",
    "AUTHENTICATION_REQUIRED": "Tu banco pide que confirmes el pago.",
    "AUTHENTICATION_FAILED": "No se pudo confirmar tu identidad.",
    "ISSUER_UNAVAILABLE": "El banco de la tarjeta no responde. Inténtalo más tarde.",
    "PROCESSOR_TIMEOUT": "El pago no se realizó. Inténtalo de nuevo.",
    "TRANSACTION_NOT_PERMITTED": "La tarjeta no permite este pago.",
    "DUPLICATE_TRANSACTION": "El mismo pago se hizo hace un momento.",
    "GENERIC_DECLINE": "El pago fue rechazado.",
    "CARD_TOKEN_INVALID": "Vuelve a escribir los datos de la tarjeta.",
    "INSTALLMENTS_NOT_AVAILABLE": "Tu banco no ofrece estos meses sin intereses. Elige otro plazo o un solo pago.",
}
_ENGLISH: Final = {
    "AUTHENTICATION_REQUIRED": "Your bank asks you to confirm the payment.",
    "AUTHENTICATION_FAILED": "Your identity could not be confirmed.",
    "PROCESSOR_TIMEOUT": "The payment was not made. Try again.",
    "ISSUER_UNAVAILABLE": "The card's bank cannot be reached. Try again later.",
    "CARD_TOKEN_INVALID": "Enter the card again.",
    "INSTALLMENTS_NOT_AVAILABLE": "Your bank does not offer these instalments. Choose others, or pay at once.",
}

_RETRYABLE: Final = {Advice.RETRY_LATER: True, Advice.FIX_DATA: False, Advice.DO_NOT_RETRY: False}
"""Whether the same card can be approved at another time, by what the network advises."""

_NOT_SAVED: Final = {
    "DO_NOT_HONOR": "The card's bank declined the card.",
    "CARD_RESTRICTED": "The card does not allow this.",
    "SUSPECTED_FRAUD": "The card was refused.",
    "PROCESSOR_TIMEOUT": "The processor did not confirm the card.",
    "TRANSACTION_NOT_PERMITTED": "The card does not permit this.",
    "DUPLICATE_TRANSACTION": "The same card was sent a moment ago.",
    "GENERIC_DECLINE": "The card's bank declined the card and gave no reason.",
}
"""What a decline means where a card was to be saved and no payment was made, if the table's text is about a payment."""

DECLINES: Final = {decline.code: decline for decline in _TABLE}


def decline(code: str, network_advice: Advice | None = None) -> Decline:
    """Returns the entry of a decline code; GENERIC_DECLINE for an unknown code.

    What the card network advises about this one payment replaces the entry's own advice.
    """
    entry = DECLINES.get(code) or DECLINES[GENERIC_DECLINE]
    if network_advice is None:
        return entry
    return replace(entry, advice=network_advice, retryable=_RETRYABLE.get(network_advice, entry.retryable))


def decline_of_card(code: str, network_advice: Advice | None = None) -> Decline:
    """Returns the same as `decline` of a card that was to be saved, in words of its own: no payment was made."""
    reason = decline(code, network_advice)
    return replace(reason, message=f"{_NOT_SAVED.get(reason.code, reason.message)} The card is not saved.")


def payer_message(code: str, language: str) -> str:
    """Returns what the payer may read about a decline: in English if the language is `en`, else in Spanish."""
    reason = decline(code)
    return _ENGLISH.get(reason.code, reason.message) if language == "en" else _SPANISH[reason.code]


def public_code(refused_by: RefusedBy | None, code: str | None = None) -> str:
    """Returns the error code of the answer: RISK_REJECTED if risk rules refused, before the issuer was asked, and a
    code of its own for instalments that the card's bank does not offer.
    """
    if code == INSTALLMENTS_NOT_AVAILABLE:
        return code
    return "RISK_REJECTED" if refused_by is RefusedBy.RISK else "PAYMENT_DECLINED"
