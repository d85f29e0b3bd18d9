"""Every move of a payment (the contract's table 2.1), told over HTTP."""

from __future__ import annotations

from tests.transitions.steps import (
    CHALLENGE,
    DECLINED,
    DEVICE,
    DEVICE_FIRST,
    DOWN,
    GIVING_BACK,
    GOOD,
    HALF,
    MANUAL,
    NO_CAPTURE,
    NO_REFUND,
    NO_VOID,
    SILENT,
    SLOW,
    SLOW_REFUND,
    SPEI,
    Step,
    cancel,
    cancel_part,
    capture,
    charge,
    create,
    deposit,
    device_data,
    dispute,
    later,
    part,
    pending,
    recovery,
    refund,
    settle,
    split,
    validate,
)
from tests.transitions.told import Story, told

WAITING = [
    told(
        "a sale by card",
        create(GOOD),
        payment="- CREATED PENDING_AUTHORIZATION AUTHORIZED PENDING_CAPTURE CAPTURING CAPTURED",
    ),
    told(
        "a card is charged and grants half",
        pending(),
        charge(HALF),
        payment="PENDING_AUTHORIZATION PARTIALLY_AUTHORIZED PENDING_CAPTURE CAPTURING PARTIALLY_CAPTURED",
    ),
    told("a card is declined", create(DECLINED), payment="PENDING_AUTHORIZATION FAILED"),
    told("a reference is issued and expires", create(SPEI), later("PT73H"), payment="CREATED REQUIRES_ACTION EXPIRED"),
    told("nobody could be asked for a reference", DOWN, create(SPEI), payment="- CREATED FAILED"),
    told("an order is cancelled before its reference came", SLOW, create(SPEI), cancel(), payment="CREATED CANCELLED"),
    told(
        "device data, a challenge, and the capture that follows by itself",
        create(DEVICE_FIRST),
        device_data(),
        validate(),
        later("PT10S"),
        payment="PENDING_AUTHORIZATION REQUIRES_ACTION REQUIRES_ACTION AUTHORIZED PENDING_CAPTURE CAPTURING CAPTURED",
    ),
    told(
        "device data are enough",
        create(DEVICE),
        device_data(),
        payment="REQUIRES_ACTION PENDING_AUTHORIZATION AUTHORIZED",
    ),
    told("a payer is not let through", create(CHALLENGE), validate("fail"), payment="REQUIRES_ACTION FAILED"),
    told("a payer does not come back", create(CHALLENGE), later("PT16M"), payment="REQUIRES_ACTION EXPIRED"),
    told("a challenge is cancelled", create(CHALLENGE), cancel(), payment="REQUIRES_ACTION CANCELLED"),
    told("a transfer in full", create(SPEI), deposit(10_000), payment="REQUIRES_ACTION CAPTURED"),
    told(
        "a transfer of less, and of the rest",
        create(SPEI),
        deposit(6000),
        deposit(4000),
        payment="REQUIRES_ACTION PARTIALLY_CAPTURED CAPTURED",
    ),
    told(
        "a transfer to a reference that has expired",
        create(SPEI),
        later("PT73H"),
        deposit(10_000),
        payment="EXPIRED CAPTURED",
    ),
    told(
        "a transfer to a reference that was cancelled",
        create(SPEI),
        cancel(),
        deposit(10_000),
        payment="CANCELLED CAPTURED",
    ),
]

GRANTED = [
    told(
        "a capture by hand, in two parts",
        create(GOOD, **MANUAL),
        capture(4000),
        capture(6000),
        payment="AUTHORIZED PENDING_CAPTURE CAPTURING PARTIALLY_CAPTURED CAPTURING CAPTURED",
    ),
    told(
        "half is granted and captured by hand",
        create(HALF, **MANUAL),
        capture(),
        payment="PENDING_AUTHORIZATION PARTIALLY_AUTHORIZED PENDING_CAPTURE CAPTURING PARTIALLY_CAPTURED",
    ),
    told(
        "a capture was never sent",
        create(GOOD, **MANUAL),
        DOWN,
        capture(),
        payment="PENDING_CAPTURE CAPTURING AUTHORIZED",
    ),
    told("a capture is refused for good", create(NO_CAPTURE, **MANUAL), capture(), payment="CAPTURING FAILED"),
    told("an authorisation lapses", create(GOOD, **MANUAL), later("P8D"), payment="AUTHORIZED EXPIRED"),
    told("half an authorisation lapses", create(HALF, **MANUAL), later("P8D"), payment="PARTIALLY_AUTHORIZED EXPIRED"),
    told("a void", create(GOOD, **MANUAL), cancel(), payment="AUTHORIZED PENDING_CANCELLATION CANCELLED"),
    told(
        "a void of half",
        create(HALF, **MANUAL),
        cancel(),
        payment="PARTIALLY_AUTHORIZED PENDING_CANCELLATION CANCELLED",
    ),
    told(
        "a void is refused", create(NO_VOID, **MANUAL), cancel(), payment="AUTHORIZED PENDING_CANCELLATION AUTHORIZED"
    ),
    told(
        "a void of half was never sent",
        split(**MANUAL),
        part(HALF),
        DOWN,
        cancel_part(),
        payment="PARTIALLY_AUTHORIZED PENDING_CANCELLATION PARTIALLY_AUTHORIZED",
    ),
    told(
        "a void before the capture that follows by itself",
        create(CHALLENGE),
        validate(),
        cancel(),
        payment="PENDING_CAPTURE PENDING_CANCELLATION CANCELLED",
    ),
    told(
        "cancelled while the card company is silent, which had granted half",
        SLOW,
        create(HALF, **MANUAL),
        cancel(),
        recovery(),
        later(),
        payment="PENDING_AUTHORIZATION PENDING_CANCELLATION PARTIALLY_AUTHORIZED PENDING_CANCELLATION CANCELLED",
    ),
    told(
        "cancelled while the card company is silent, which had taken the money",
        create(SILENT),
        cancel(),
        recovery(),
        payment="PENDING_AUTHORIZATION PENDING_CANCELLATION AUTHORIZED PENDING_CAPTURE CAPTURING CAPTURED",
    ),
]

HELD: dict[str, tuple[tuple[Step, ...], int]] = {
    "CAPTURED": ((create(NO_REFUND), later()), 10_000),
    "PARTIALLY_CAPTURED": ((create(NO_REFUND, **MANUAL), capture(6000), later()), 6000),
    "PENDING_SETTLEMENT": ((create(NO_REFUND), later(), settle("LISTED")), 10_000),
    "SETTLED": ((create(NO_REFUND), later(), settle("LISTED"), settle("MATCHED")), 10_000),
    "PARTIALLY_REFUNDED": ((create(NO_REFUND), later(), dispute("LOST", 3000)), 7000),
}
"""Where money is held by a card that refuses every refund, and how much of it."""


def _of_held_money() -> list[Story]:
    """What becomes of held money, from each of the five statuses in which it is."""
    stories = []
    for status, (steps, rest) in HELD.items():
        stories += [
            told(f"{status}, a refund is refused", *steps, refund(1000), payment=f"{status} PENDING_REFUND {status}"),
            told(
                f"{status}, a dispute is won",
                *steps,
                dispute("OPENED"),
                dispute("WON"),
                payment=f"{status} DISPUTED {status}",
            ),
            told(
                f"{status}, disputes are lost, of a part and of the rest",
                *steps,
                dispute("OPENED", 1000),
                dispute("LOST"),
                dispute("OPENED", rest - 1000),
                dispute("LOST"),
                payment=f"{status} DISPUTED PARTIALLY_REFUNDED DISPUTED REFUNDED",
            ),
        ]
    return stories


MONEY_BACK = [
    told("a refund in two parts", create(GOOD), refund(4000), refund(6000),
         payment="CAPTURED PENDING_REFUND PARTIALLY_REFUNDED PENDING_REFUND REFUNDED"),
    told("a refund that is confirmed later", create(SLOW_REFUND), refund(10_000), later("PT5S"),
         payment="CAPTURED PENDING_REFUND REFUNDED"),
    told("a payout that comes to nothing", create(SPEI), deposit(6000), refund(1000, holder="Ana Fail"), later("PT5S"),
         payment="PARTIALLY_CAPTURED PENDING_REFUND PARTIALLY_CAPTURED"),
    told("the money of a part is given back with a cancellation", split(), part(GOOD, 4000), cancel(**GIVING_BACK),
         payment="CAPTURED PENDING_REFUND REFUNDED"),
    told("a batch is refused, another is paid out", create(GOOD), later(), settle("LISTED"), settle("REFUSED"), settle("LISTED"),
         settle("MATCHED"), payment="CAPTURED PENDING_SETTLEMENT CAPTURED PENDING_SETTLEMENT SETTLED"),
    told("less was captured, and settled", create(HALF), later(), settle("LISTED"), settle("MATCHED"),
         payment="PARTIALLY_CAPTURED PENDING_SETTLEMENT SETTLED"),
    *_of_held_money(),
]  # fmt: skip

PAYMENT_STORIES = [*WAITING, *GRANTED, *MONEY_BACK]
