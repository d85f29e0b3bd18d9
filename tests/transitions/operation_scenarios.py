"""Scenarios for the same moves by other operations: another request, a processor's message, time, the recovery.

The other scenarios state the paths. These only add the operations that take them.
"""

from __future__ import annotations

from tests.transitions.order_scenarios import NO_CAPTURE_DELAY
from tests.transitions.scenario import Scenario, scenario
from tests.transitions.steps import (
    CASH,
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
    REDIRECT,
    REFUND_CAPTURED,
    SLOW,
    SPEI,
    Step,
    Tender,
    add_payment,
    advance_clock,
    cancel,
    cancel_payment,
    capture,
    charge,
    confirm_refund,
    create,
    deposit,
    device_data,
    dispute,
    giving_up,
    pending,
    recovery,
    refund,
    release,
    settle,
    split,
    validate,
)

TENDERS: dict[str, Tender] = {
    "a good card": GOOD,
    "a card that is declined": DECLINED,
    "half a card": HALF,
    "a challenge": CHALLENGE,
    "device data": DEVICE,
    "a redirect": REDIRECT,
    "a transfer": SPEI,
}


def recovered(name: str, *steps: Step, **settings: object) -> Scenario:
    """Returns a scenario whose last call is carried out without an answer, and then looked up by the recovery."""
    return scenario(f"{name}, recovered", *steps[:-1], SLOW, steps[-1], recovery(), **settings)


PAYMENTS = [
    *(scenario(f"charged with {name}", pending(), charge(tender)) for name, tender in TENDERS.items()),
    *(scenario(f"a part with {name}", split(), add_payment(tender, 4000)) for name, tender in TENDERS.items()),
    *(recovered(f"created with {name}", create(tender)) for name, tender in TENDERS.items()),
    *(scenario(f"{name}, manual capture", *steps) for name, steps in {
        "charged": (pending(**MANUAL), charge(GOOD)),
        "charged with half a card": (pending(**MANUAL), charge(HALF)),
        "a part": (split(**MANUAL), add_payment(GOOD)),
        "a part with half a card": (split(**MANUAL), add_payment(HALF)),
    }.items()),
    recovered("created, manual capture", create(GOOD, **MANUAL)),
    recovered("created with half a card, manual capture", create(HALF, **MANUAL)),
    recovered("a part that is declined", split(), add_payment(DECLINED, 4000)),
    scenario("the rest is charged", create(HALF), charge(GOOD)),
    recovered("the rest is paid", split(), add_payment(GOOD, 4000), add_payment(GOOD)),
    scenario("the rest is captured later", split(), add_payment(GOOD, 4000), add_payment(CHALLENGE), validate(),
         advance_clock("PT10S")),
    scenario("a charge while the processor is unavailable", pending(), DOWN, charge(SPEI)),
    scenario("a part while the processor is unavailable", split(), DOWN, add_payment(CASH)),
    scenario("a charge that is declined on a split order", split(), charge(DECLINED, 4000)),
]  # fmt: skip

_PAYER_STEPS = {
    "device data": (DEVICE, device_data()),
    "a challenge": (CHALLENGE, validate()),
    "a redirect": (REDIRECT, validate()),
}

AUTHENTICATIONS = [
    *(recovered(name, create(tender), done) for name, (tender, done) in _PAYER_STEPS.items()),
    *(recovered(f"{name}, captured now", create(tender), done, **NO_CAPTURE_DELAY)
      for name, (tender, done) in _PAYER_STEPS.items()),
    *(recovered(f"a part by {name}, captured now", split(), add_payment(tender, 4000), done, **NO_CAPTURE_DELAY)
      for name, (tender, done) in _PAYER_STEPS.items()),
    recovered("device data, then a challenge", create(DEVICE_FIRST), device_data()),
    scenario("a redirect is refused", create(REDIRECT), validate("fail")),
    scenario("the redirect of a part is refused", split(), add_payment(REDIRECT, 4000), validate("fail")),
    *(recovered(f"a payer fails, {name}", create(tender), validate("fail"))
      for name, tender in (("challenge", CHALLENGE), ("redirect", REDIRECT))),
    *(recovered(f"the payer of a part fails, {name}", split(), add_payment(tender, 4000), validate("fail"))
      for name, tender in (("challenge", CHALLENGE), ("redirect", REDIRECT))),
    scenario("a part by device data that was paid otherwise", split(), add_payment(DEVICE, 8000),
         add_payment(GOOD, 8000), device_data()),
    scenario("a part whose capture is put off", split(), add_payment(CHALLENGE, 4000), validate(),
         advance_clock("PT10S")),
    scenario("a capture that is put off and was never sent", create(CHALLENGE), validate(), DOWN,
         advance_clock("PT10S"), giving_up(), advance_clock("PT2M")),
]  # fmt: skip

ACTIONS = [
    recovered("a capture", create(GOOD, **MANUAL), capture()),
    recovered("a capture of a part", create(GOOD, **MANUAL), capture(4000)),
    recovered("the release of what a capture has left", create(GOOD, **MANUAL), capture(4000), release()),
    scenario("what a capture has left lapses", create(GOOD, **MANUAL), capture(4000), advance_clock("P8D")),
    recovered("a capture of half", create(HALF, **MANUAL), capture()),
    recovered("a capture that is refused", create(NO_CAPTURE), capture()),
    recovered("the capture of a part that is refused", split(), add_payment(NO_CAPTURE, 4000), capture()),
    recovered("a void", create(GOOD, **MANUAL), cancel()),
    recovered("a void that is refused", create(NO_VOID, **MANUAL), cancel()),
    recovered("the void of a part", split(**MANUAL), add_payment(GOOD), cancel_payment()),
    scenario(
        "a void that was put off is refused",
        split(**MANUAL),
        add_payment(NO_VOID),
        DOWN,
        cancel_payment(),
        giving_up(),
        advance_clock(),
    ),
    scenario(
        "a void of half that was put off",
        split(**MANUAL),
        add_payment(HALF),
        DOWN,
        cancel_payment(),
        giving_up(),
        advance_clock(),
    ),
    recovered("a cancellation with its money", split(), add_payment(GOOD, 4000), cancel(**REFUND_CAPTURED)),
    recovered(
        "a cancellation whose money is not given back", split(), add_payment(NO_REFUND, 4000), cancel(**REFUND_CAPTURED)
    ),
    scenario("a refund of all at once", create(GOOD), refund(10_000)),
    scenario("refunds of a part, one by one", create(GOOD), refund(1000), refund(1000)),
    scenario("a refund of a part of half", create(HALF), refund(1000)),
    scenario("a refund of half", create(HALF), refund(5000)),
    recovered("a refund of a part", create(GOOD), refund(4000)),
    recovered("a refund of all", create(GOOD), refund(10_000)),
    recovered("a refund that is refused", create(NO_REFUND), refund(4000)),
    recovered("a refund of a split order", split(), add_payment(GOOD), refund(4000)),
]
MESSAGES = [
    scenario("a payout fails", create(SPEI), deposit(10_000), refund(4000, holder="Fail"), advance_clock("PT5S")),
    scenario(
        "a payout of a split order arrives",
        split(),
        add_payment(SPEI),
        deposit(10_000),
        refund(4000),
        advance_clock("PT5S"),
    ),
    scenario("a payout by hand is confirmed", create(SPEI), deposit(10_000), refund(4000), confirm_refund()),
    scenario("a payout of a part arrives", create(SPEI), deposit(10_000), refund(4000), advance_clock("PT5S")),
    scenario(
        "the payout of a cancellation arrives",
        split(),
        add_payment(SPEI),
        deposit(4000),
        cancel(**REFUND_CAPTURED),
        advance_clock("PT5S"),
    ),
    *(
        scenario(
            f"the payout of a cancellation arrives after {more} more",
            split(),
            add_payment(SPEI),
            deposit(4000),
            cancel(**REFUND_CAPTURED),
            deposit(more),
            advance_clock("PT5S"),
        )
        for more in (1000, 10_000)
    ),
]


def _held_money_scenarios() -> list[Scenario]:
    """Returns refunds that are refused or fail, from the other statuses that hold money.

    Each outcome comes by the recovery, by a message, and within a cancellation.
    """
    held: dict[str, tuple[Step, ...]] = {
        "PENDING_SETTLEMENT": (settle("LISTED"),),
        "SETTLED": (settle("LISTED"), settle("MATCHED")),
        "PARTIALLY_REFUNDED": (dispute("LOST", 1000),),
    }
    by_card, by_transfer = (
        (split(), add_payment(NO_REFUND, 4000), advance_clock()),
        (split(), add_payment(SPEI), deposit(4000), advance_clock()),
    )
    scenarios = []
    for status, then in held.items():
        scenarios += [
            recovered(f"{status}, a refund is refused", *by_card, *then, refund(1000)),
            scenario(
                f"{status}, a payout fails", *by_transfer, *then, refund(1000, holder="Fail"), advance_clock("PT5S")
            ),
            scenario(f"{status}, a cancellation's refund is refused", *by_card, *then, cancel(**REFUND_CAPTURED)),
        ]
    less = (create(NO_REFUND, **MANUAL), capture(6000))
    return [*scenarios, recovered("PARTIALLY_CAPTURED, a refund is refused", *less, refund(1000))]


OPERATION_SCENARIOS = [*PAYMENTS, *AUTHENTICATIONS, *ACTIONS, *MESSAGES, *_held_money_scenarios()]
