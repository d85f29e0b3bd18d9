"""The sandbox's test cards: how each behaves in an authorisation, and in captures, voids and refunds.

Add a new behaviour as a row of `TEST_CARDS`. A number that is missing there is approved, captured, voided and refunded.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from ledger.domain.orders.capabilities import METHODS, MONTHS
from ledger.domain.orders.declines import INSTALLMENTS_NOT_AVAILABLE
from ledger.domain.orders.events import RefusedBy
from ledger.domain.orders.processor_outcomes import Declined
from ledger.domain.orders.terms import CardSummary, MethodType
from ledger.processors.bins import bin_info
from ledger.processors.contract import Card, CardToken, PayingCard, TokenCard

OFFERED: Final = tuple(replace(each, installments=MONTHS) if each.type is MethodType.CARD else each for each in METHODS)
"""What the sandbox takes: every method, in any amount, and cards in months without interest."""


class Authentication(StrEnum):
    """The authentication that a card's issuer demands of its payer, if the request allows it."""

    CHALLENGE = "CHALLENGE"
    DEVICE_DATA = "DEVICE_DATA"
    DEVICE_DATA_THEN_CHALLENGE = "DEVICE_DATA_THEN_CHALLENGE"
    REDIRECT = "REDIRECT"


class Refunds(StrEnum):
    """The possible ends of a refund to a card."""

    AT_ONCE = "AT_ONCE"
    LATER = "LATER"
    REFUSED = "REFUSED"


class TestCard(Struct, frozen=True, kw_only=True):
    """The behaviour of a test card.

    `declined` answers every authorisation, `declined_when_saved` those with a stored card number. `installments` are
    the plans that it offers if it is a Mexican credit card.
    """

    declined: Declined | None = None
    declined_when_saved: Declined | None = None
    authentication: Authentication | None = None
    grants_half: bool = False
    captures: bool = True
    voids: bool = True
    refunds: Refunds = Refunds.AT_ONCE
    disputed: bool = False
    answers: bool = True
    installments: tuple[int, ...] = MONTHS


def _decline(code: str, message: str, refused_by: RefusedBy = RefusedBy.ISSUER) -> Declined:
    return Declined(code=code, message=message, refused_by=refused_by)


_GENERIC: Final = _decline("GENERIC_DECLINE", "The issuer declined the payment and gave no reason.")
_LOST_OR_STOLEN: Final = _decline("CARD_LOST_OR_STOLEN", "The card was reported lost or stolen.")
_RISK: Final = _decline("SUSPECTED_FRAUD", "The payment was blocked by risk rules.", RefusedBy.RISK)

APPROVED: Final = TestCard()

# Section 5.3 of the contract and its "more cards".
TEST_CARDS: Final = {
    "4000000000000002": TestCard(declined=_GENERIC),
    "4000000000009995": TestCard(declined=_decline("INSUFFICIENT_FUNDS", "The card has insufficient funds.")),
    "4000000000009987": TestCard(declined=_LOST_OR_STOLEN),
    "4000000000009979": TestCard(declined=_LOST_OR_STOLEN),
    "4000000000000069": TestCard(declined=_decline("CARD_EXPIRED", "The card has expired.")),
    "4000000000000127": TestCard(declined=_decline("INVALID_CVV", "The card's security code is wrong.")),
    "4000000000009235": TestCard(declined=_decline("ISSUER_UNAVAILABLE", "The issuer could not be reached.")),
    "4100000000000019": TestCard(declined=_RISK),
    "4000000000000341": TestCard(declined_when_saved=_GENERIC),
    "4000000000000358": TestCard(declined_when_saved=_LOST_OR_STOLEN),
    "4000000000003220": TestCard(authentication=Authentication.CHALLENGE),
    "4000000000003055": TestCard(authentication=Authentication.DEVICE_DATA),
    "4000000000003063": TestCard(authentication=Authentication.DEVICE_DATA_THEN_CHALLENGE),
    "4000000000007007": TestCard(authentication=Authentication.REDIRECT),
    "4000000000005126": TestCard(refunds=Refunds.LATER),
    "4000000000007726": TestCard(refunds=Refunds.REFUSED),
    "4000000000000259": TestCard(disputed=True),
    "4000000000000119": TestCard(answers=False),
    "4000000000000010": TestCard(grants_half=True),
    "4000000000007015": TestCard(captures=False),
    "4000000000007023": TestCard(voids=False),
    "4000000000000366": TestCard(installments=(3, 6)),
}


TEST_TOKENS: Final = {
    "tok_visa": "4242424242424242",
    "tok_mastercard": "5555555555554444",
    "tok_amex": "378282246310005",
    "tok_declined": "4000000000000002",
    "tok_insufficient_funds": "4000000000009995",
    "tok_lost_or_stolen": "4000000000009987",
    "tok_expired_card": "4000000000000069",
    "tok_invalid_cvv": "4000000000000127",
    "tok_issuer_unavailable": "4000000000009235",
    "tok_suspected_fraud": "4100000000000019",
    "tok_challenge": "4000000000003220",
    "tok_device_data": "4000000000003055",
    "tok_redirect": "4000000000007007",
    "tok_refund_later": "4000000000005126",
    "tok_refund_refused": "4000000000007726",
    "tok_disputed": "4000000000000259",
    "tok_no_answer": "4000000000000119",
    "tok_few_installments": "4000000000000366",
}
"""The tokens of the sandbox, each for a test card that any number of payments may use."""


def card_of(token: CardToken) -> TokenCard | None:
    """Returns the card of a test token, which expires in December 2040; None if there is no such token."""
    number = TEST_TOKENS.get(token.token)
    if number is None:
        return None
    brand, kind, country, issuer_bank = bin_info(number)
    summary = CardSummary(
        bin=number[:6],
        last4=number[-4:],
        brand=brand,
        type=kind,
        country=country,
        issuer_bank=issuer_bank,
        exp_month=12,
        exp_year=2040,
    )
    return TokenCard(summary=summary, fingerprint=token.token)


def number_of(card: PayingCard) -> str:
    """Returns the number of a card or of a test token's card. The ledger reads a token before it pays by it."""
    return card.number if isinstance(card, Card) else TEST_TOKENS[card.token]


def without_plan(card: PayingCard, months: int | None) -> Declined | None:
    """Returns the decline of a card that does not offer these months without interest: those that are credit cards of
    Mexican banks do, in the numbers of their test card.
    """
    issuer = bin_info(number_of(card))
    is_mexican_credit = (issuer.country, issuer.type) == ("MX", "CREDIT")
    offered = behaviour_of(card).installments if is_mexican_credit else ()
    if months is None or months in offered:
        return None
    return Declined(
        code=INSTALLMENTS_NOT_AVAILABLE,
        message=f"The card's bank does not offer {months} months.",
        available_installments=offered,
    )


def behaviour_of(card: PayingCard) -> TestCard:
    """Returns the behaviour of a card: approved, unless its number is a test card's."""
    return TEST_CARDS.get(number_of(card), APPROVED)
