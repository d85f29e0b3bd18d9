"""Scenarios for every move of a payment (the contract's table 2.1)."""

from __future__ import annotations

from tests.transitions.scenario import Scenario, scenario
from tests.transitions.steps import (
    CHALLENGE,
    DECLINED,
    DEVICE,
    DEVICE_FIRST,
    DOWN,
    GOOD,
    HALF,
    MANUAL,
    NO_CAPTURE,
    NO_REFUND,
    NO_VOID,
    REFUND_CAPTURED,
    SILENT,
    SLOW,
    SLOW_REFUND,
    SPEI,
    Step,
    add_payment,
    advance_clock,
    cancel,
    cancel_payment,
    capture,
    charge,
    create,
    deposit,
    device_data,
    dispute,
    giving_up,
    pending,
    recovery,
    refund,
    settle,
    split,
    validate,
)

WAITING = [
    scenario(
        "a sale by card",
        create(GOOD),
        payment="- CREATED PENDING_AUTHORIZATION AUTHORIZED CAPTURED",
    ),
    scenario(
        "a card is charged and grants half",
        pending(),
        charge(HALF),
        payment="PENDING_AUTHORIZATION PARTIALLY_AUTHORIZED PARTIALLY_CAPTURED",
    ),
    scenario("a card is declined", create(DECLINED), payment="PENDING_AUTHORIZATION FAILED"),
    scenario(
        "a reference is issued and expires",
        create(SPEI),
        advance_clock("PT73H"),
        payment="CREATED REQUIRES_ACTION EXPIRED",
    ),
    scenario("the processor is unavailable for a reference", DOWN, create(SPEI), payment="- CREATED FAILED"),
    scenario(
        "an order is cancelled before its reference came", SLOW, create(SPEI), cancel(), payment="CREATED CANCELLED"
    ),
    scenario(
        "device data, a challenge, and the capture that follows by itself",
        create(DEVICE_FIRST),
        device_data(),
        validate(),
        advance_clock("PT10S"),
        payment="PENDING_AUTHORIZATION REQUIRES_ACTION REQUIRES_ACTION AUTHORIZED PENDING_CAPTURE CAPTURING CAPTURED",
    ),
    scenario(
        "device data are enough",
        create(DEVICE),
        device_data(),
        payment="REQUIRES_ACTION PENDING_AUTHORIZATION AUTHORIZED",
    ),
    scenario("a payer fails the challenge", create(CHALLENGE), validate("fail"), payment="REQUIRES_ACTION FAILED"),
    scenario(
        "a payer does not come back", create(CHALLENGE), advance_clock("PT16M"), payment="REQUIRES_ACTION EXPIRED"
    ),
    scenario("a challenge is cancelled", create(CHALLENGE), cancel(), payment="REQUIRES_ACTION CANCELLED"),
    scenario("a transfer in full", create(SPEI), deposit(10_000), payment="REQUIRES_ACTION CAPTURED"),
    scenario(
        "a transfer of less, and of the rest",
        create(SPEI),
        deposit(6000),
        deposit(4000),
        payment="REQUIRES_ACTION PARTIALLY_CAPTURED CAPTURED",
    ),
    scenario(
        "a transfer to a reference that has expired",
        create(SPEI),
        advance_clock("PT73H"),
        deposit(10_000),
        payment="EXPIRED CAPTURED",
    ),
    scenario(
        "a transfer to a reference that was cancelled",
        create(SPEI),
        cancel(),
        deposit(10_000),
        payment="CANCELLED CAPTURED",
    ),
]

GRANTED = [
    scenario(
        "a capture by the merchant, in two parts",
        create(GOOD, **MANUAL),
        capture(4000),
        capture(6000),
        payment="AUTHORIZED PENDING_CAPTURE CAPTURING PARTIALLY_CAPTURED CAPTURING CAPTURED",
    ),
    scenario(
        "half is granted and captured by the merchant",
        create(HALF, **MANUAL),
        capture(),
        payment="PENDING_AUTHORIZATION PARTIALLY_AUTHORIZED PENDING_CAPTURE CAPTURING PARTIALLY_CAPTURED",
    ),
    scenario(
        "a capture was never sent",
        create(GOOD, **MANUAL),
        DOWN,
        capture(),
        giving_up(),
        payment="PENDING_CAPTURE CAPTURING AUTHORIZED",
    ),
    scenario(
        "a capture did not arrive and was sent again",
        create(GOOD, **MANUAL),
        DOWN,
        capture(),
        recovery(),
        payment="PENDING_CAPTURE CAPTURING CAPTURED",
    ),
    scenario(
        "a capture by the merchant is refused", create(NO_CAPTURE, **MANUAL), capture(), payment="CAPTURING AUTHORIZED"
    ),
    scenario(
        "an automatic capture is refused for good",
        create(NO_CAPTURE),
        advance_clock(),
        payment="AUTHORIZED PENDING_CAPTURE CAPTURING FAILED",
    ),
    scenario(
        "an automatic capture is refused after a charge",
        pending(),
        charge(NO_CAPTURE),
        advance_clock(),
        payment="AUTHORIZED PENDING_CAPTURE CAPTURING FAILED",
    ),
    scenario("an authorisation lapses", create(GOOD, **MANUAL), advance_clock("P8D"), payment="AUTHORIZED EXPIRED"),
    scenario(
        "half an authorisation lapses",
        create(HALF, **MANUAL),
        advance_clock("P8D"),
        payment="PARTIALLY_AUTHORIZED EXPIRED",
    ),
    scenario("a void", create(GOOD, **MANUAL), cancel(), payment="AUTHORIZED PENDING_CANCELLATION CANCELLED"),
    scenario(
        "a void of half",
        create(HALF, **MANUAL),
        cancel(),
        payment="PARTIALLY_AUTHORIZED PENDING_CANCELLATION CANCELLED",
    ),
    scenario(
        "a void is refused", create(NO_VOID, **MANUAL), cancel(), payment="AUTHORIZED PENDING_CANCELLATION AUTHORIZED"
    ),
    scenario(
        "a void of half was never sent",
        split(**MANUAL),
        add_payment(HALF),
        DOWN,
        cancel_payment(),
        giving_up(),
        payment="PARTIALLY_AUTHORIZED PENDING_CANCELLATION PARTIALLY_AUTHORIZED",
    ),
    scenario(
        "a void before the capture that follows by itself",
        create(CHALLENGE),
        validate(),
        cancel(),
        payment="PENDING_CAPTURE PENDING_CANCELLATION CANCELLED",
    ),
    scenario(
        "cancelled while the card company is silent, which had granted half",
        SLOW,
        create(HALF, **MANUAL),
        cancel(),
        recovery(),
        advance_clock(),
        payment="PENDING_AUTHORIZATION PENDING_CANCELLATION PARTIALLY_AUTHORIZED PENDING_CANCELLATION CANCELLED",
    ),
    scenario(
        "cancelled while the card company is silent, which had taken the money",
        create(SILENT),
        cancel(),
        recovery(),
        payment="PENDING_AUTHORIZATION PENDING_CANCELLATION AUTHORIZED CAPTURED",
    ),
]

HELD: dict[str, tuple[tuple[Step, ...], int]] = {
    "CAPTURED": ((create(NO_REFUND), advance_clock()), 10_000),
    "PARTIALLY_CAPTURED": ((create(NO_REFUND, **MANUAL), capture(6000), advance_clock()), 6000),
    "PENDING_SETTLEMENT": ((create(NO_REFUND), advance_clock(), settle("LISTED")), 10_000),
    "SETTLED": ((create(NO_REFUND), advance_clock(), settle("LISTED"), settle("MATCHED")), 10_000),
    "PARTIALLY_REFUNDED": ((create(NO_REFUND), advance_clock(), dispute("LOST", 3000)), 7000),
}
"""By the status of a payment that holds money: the steps to it with a card that refuses refunds, and the held
amount."""


def _held_money_scenarios() -> list[Scenario]:
    """Returns the scenarios of held money, from each of the five statuses that hold it."""
    scenarios = []
    for status, (steps, rest) in HELD.items():
        scenarios += [
            scenario(
                f"{status}, a refund is refused", *steps, refund(1000), payment=f"{status} PENDING_REFUND {status}"
            ),
            scenario(
                f"{status}, a dispute is won",
                *steps,
                dispute("OPENED"),
                dispute("WON"),
                payment=f"{status} DISPUTED {status}",
            ),
            scenario(
                f"{status}, disputes are lost, of a part and of the rest",
                *steps,
                dispute("OPENED", 1000),
                dispute("LOST"),
                dispute("OPENED", rest - 1000),
                dispute("LOST"),
                payment=f"{status} DISPUTED PARTIALLY_REFUNDED DISPUTED REFUNDED",
            ),
        ]
    return scenarios


MONEY_BACK = [
    scenario("a refund in two parts", create(GOOD), refund(4000), refund(6000),
         payment="CAPTURED PENDING_REFUND PARTIALLY_REFUNDED PENDING_REFUND REFUNDED"),
    scenario("a refund that is confirmed later", create(SLOW_REFUND), refund(10_000), advance_clock("PT5S"),
         payment="CAPTURED PENDING_REFUND REFUNDED"),
    scenario("a payout that comes to nothing", create(SPEI), deposit(6000), refund(1000, holder="Ana Fail"),
         advance_clock("PT5S"),
         payment="PARTIALLY_CAPTURED PENDING_REFUND PARTIALLY_CAPTURED"),
    scenario("the money of a part is given back with a cancellation", split(), add_payment(GOOD, 4000),
         cancel(**REFUND_CAPTURED),
         payment="CAPTURED PENDING_REFUND REFUNDED"),
    scenario("a batch is refused, another is paid out", create(GOOD), advance_clock(), settle("LISTED"),
         settle("REFUSED"), settle("LISTED"),
         settle("MATCHED"), payment="CAPTURED PENDING_SETTLEMENT CAPTURED PENDING_SETTLEMENT SETTLED"),
    scenario("the bank sends back a batch that was paid out", create(GOOD), advance_clock(), settle("LISTED"),
         settle("MATCHED"), settle("REFUSED"),
         payment="CAPTURED PENDING_SETTLEMENT SETTLED CAPTURED"),
    scenario("less was captured, and settled", create(HALF), advance_clock(), settle("LISTED"), settle("MATCHED"),
         payment="PARTIALLY_CAPTURED PENDING_SETTLEMENT SETTLED"),
    *_held_money_scenarios(),
]  # fmt: skip

PAYMENT_SCENARIOS = [*WAITING, *GRANTED, *MONEY_BACK]
