"""The sandbox's cards, as the contract's tables (5.3, section 8) describe them to a developer.

Never derive a card's behaviour from the service: the stateful test finds cards that behave otherwise than described
here.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Card:
    """The behaviour of a card. `asks` is the first step of its payer; `refunds` are AT_ONCE, LATER or NEVER."""

    number: str
    refuses: str | None = None
    asks: str | None = None
    then_challenges: bool = False
    half: bool = False
    captures: bool = True
    voids: bool = True
    refunds: str = "AT_ONCE"
    disputed: bool = False
    answers: bool = True


CARDS = {
    "good": Card("4242424242424242"),
    "declined": Card("4000000000000002", refuses="PAYMENT_DECLINED"),
    "risky": Card("4100000000000019", refuses="RISK_REJECTED"),
    "half": Card("4000000000000010", half=True),
    "challenge": Card("4000000000003220", asks="CHALLENGE"),
    "device": Card("4000000000003055", asks="DEVICE_DATA"),
    "device, challenge": Card("4000000000003063", asks="DEVICE_DATA", then_challenges=True),
    "redirect": Card("4000000000007007", asks="REDIRECT"),
    "slow refund": Card("4000000000005126", refunds="LATER"),
    "no refund": Card("4000000000007726", refunds="NEVER"),
    "no capture": Card("4000000000007015", captures=False),
    "no void": Card("4000000000007023", voids=False),
    "disputed": Card("4000000000000259", disputed=True),
    "silent": Card("4000000000000119", answers=False),
}
