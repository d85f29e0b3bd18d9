"""The same moves by everybody else who takes them: another request, a processor's message, time, and the recovery.

The rule a stranger would break: the ways stand in the other stories. What these add is who goes them.
"""

from __future__ import annotations

from tests.transitions.order_stories import AT_ONCE
from tests.transitions.steps import (
    CASH,
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
    REDIRECT,
    SLOW,
    SPEI,
    Step,
    Tender,
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
    processor,
    recovery,
    refund,
    settle,
    split,
    validate,
)
from tests.transitions.told import Story, told

TENDERS: dict[str, Tender] = {
    "a good card": GOOD,
    "a card that is declined": DECLINED,
    "half a card": HALF,
    "a challenge": CHALLENGE,
    "device data": DEVICE,
    "a redirect": REDIRECT,
    "a transfer": SPEI,
}


def unanswered(name: str, *steps: Step, **settings: object) -> Story:
    """The last step's call is carried out and not answered; the recovery looks it up."""
    return told(f"{name}, recovered", *steps[:-1], SLOW, steps[-1], recovery(), **settings)


PAYING = [
    *(told(f"charged with {name}", pending(), charge(tender)) for name, tender in TENDERS.items()),
    *(told(f"a part with {name}", split(), part(tender, 4000)) for name, tender in TENDERS.items()),
    *(unanswered(f"created with {name}", create(tender)) for name, tender in TENDERS.items()),
    *(told(f"{name}, by hand", *steps) for name, steps in {
        "charged": (pending(**MANUAL), charge(GOOD)),
        "charged with half a card": (pending(**MANUAL), charge(HALF)),
        "a part": (split(**MANUAL), part(GOOD)),
        "a part with half a card": (split(**MANUAL), part(HALF)),
    }.items()),
    unanswered("created, by hand", create(GOOD, **MANUAL)),
    unanswered("created with half a card, by hand", create(HALF, **MANUAL)),
    unanswered("a part that is declined", split(), part(DECLINED, 4000)),
    told("the rest is charged", create(HALF), charge(GOOD)),
    unanswered("the rest is paid", split(), part(GOOD, 4000), part(GOOD)),
    told("the rest is captured later", split(), part(GOOD, 4000), part(CHALLENGE), validate(), later("PT10S")),
    told("a charge for which nobody could be asked", pending(), DOWN, charge(SPEI)),
    told("a part for which nobody could be asked", split(), DOWN, part(CASH)),
    told("a charge that is declined on a split order", split(), charge(DECLINED, 4000)),
]  # fmt: skip

_PART_OF = {
    "device data": (DEVICE, device_data()),
    "a challenge": (CHALLENGE, validate()),
    "a redirect": (REDIRECT, validate()),
}

PAYERS = [
    *(unanswered(name, create(tender), done) for name, (tender, done) in _PART_OF.items()),
    *(unanswered(f"{name}, captured now", create(tender), done, **AT_ONCE) for name, (tender, done) in _PART_OF.items()),
    *(unanswered(f"a part by {name}, captured now", split(), part(tender, 4000), done, **AT_ONCE)
      for name, (tender, done) in _PART_OF.items()),
    unanswered("device data, then a challenge", create(DEVICE_FIRST), device_data()),
    told("a redirect is refused", create(REDIRECT), validate("fail")),
    told("the redirect of a part is refused", split(), part(REDIRECT, 4000), validate("fail")),
    *(unanswered(f"a payer is not let through, {name}", create(tender), validate("fail"))
      for name, tender in (("challenge", CHALLENGE), ("redirect", REDIRECT))),
    *(unanswered(f"the payer of a part is not let through, {name}", split(), part(tender, 4000), validate("fail"))
      for name, tender in (("challenge", CHALLENGE), ("redirect", REDIRECT))),
    told("a part by device data that fits no more", split(), part(DEVICE, 8000), part(GOOD, 8000), device_data()),
    told("a part whose capture is put off", split(), part(CHALLENGE, 4000), validate(), later("PT10S")),
    told("a capture that is put off and was never sent", create(CHALLENGE), validate(), DOWN, later("PT10S")),
]  # fmt: skip

HANDS = [
    unanswered("a capture", create(GOOD, **MANUAL), capture()),
    unanswered("a capture of a part", create(GOOD, **MANUAL), capture(4000)),
    unanswered("a capture of half", create(HALF, **MANUAL), capture()),
    unanswered("a capture that is refused", create(NO_CAPTURE, **MANUAL), capture()),
    unanswered("the capture of a part that is refused", split(**MANUAL), part(NO_CAPTURE, 4000), capture()),
    unanswered("a void", create(GOOD, **MANUAL), cancel()),
    unanswered("a void that is refused", create(NO_VOID, **MANUAL), cancel()),
    unanswered("the void of a part", split(**MANUAL), part(GOOD), cancel_part()),
    told("a void that was put off is refused", split(**MANUAL), part(NO_VOID), DOWN, cancel_part(), later()),
    told("a void of half that was put off", split(**MANUAL), part(HALF), processor("DOWN", 2), cancel_part(), later()),
    unanswered("a cancellation with its money", split(), part(GOOD, 4000), cancel(**GIVING_BACK)),
    unanswered("a cancellation whose money is not given back", split(), part(NO_REFUND, 4000), cancel(**GIVING_BACK)),
    told("a refund of all at once", create(GOOD), refund(10_000)),
    told("refunds of a part, one by one", create(GOOD), refund(1000), refund(1000)),
    told("a refund of a part of half", create(HALF), refund(1000)),
    told("a refund of half", create(HALF), refund(5000)),
    unanswered("a refund of a part", create(GOOD), refund(4000)),
    unanswered("a refund of all", create(GOOD), refund(10_000)),
    unanswered("a refund that is refused", create(NO_REFUND), refund(4000)),
    unanswered("a refund of a split order", split(), part(GOOD), refund(4000)),
]
MESSAGES = [
    told("a payout fails", create(SPEI), deposit(10_000), refund(4000, holder="Fail"), later("PT5S")),
    told("a payout of a split order arrives", split(), part(SPEI), deposit(10_000), refund(4000), later("PT5S")),
    told("a payout of a part arrives", create(SPEI), deposit(10_000), refund(4000), later("PT5S")),
    told(
        "the payout of a cancellation arrives", split(), part(SPEI), deposit(4000), cancel(**GIVING_BACK), later("PT5S")
    ),
    *(
        told(
            f"the payout of a cancellation arrives after {more} more",
            split(),
            part(SPEI),
            deposit(4000),
            cancel(**GIVING_BACK),
            deposit(more),
            later("PT5S"),
        )
        for more in (1000, 10_000)
    ),
]


def _of_held_money() -> list[Story]:
    """Refunds that are refused or fail, from the other statuses in which money is held: looked up, told, with a cancellation."""
    held: dict[str, tuple[Step, ...]] = {
        "PENDING_SETTLEMENT": (settle("LISTED"),),
        "SETTLED": (settle("LISTED"), settle("MATCHED")),
        "PARTIALLY_REFUNDED": (dispute("LOST", 1000),),
    }
    by_card, by_transfer = (split(), part(NO_REFUND, 4000), later()), (split(), part(SPEI), deposit(4000), later())
    stories = []
    for status, then in held.items():
        stories += [
            unanswered(f"{status}, a refund is refused", *by_card, *then, refund(1000)),
            told(f"{status}, a payout fails", *by_transfer, *then, refund(1000, holder="Fail"), later("PT5S")),
            told(f"{status}, a cancellation's refund is refused", *by_card, *then, cancel(**GIVING_BACK)),
        ]
    less = (create(NO_REFUND, **MANUAL), capture(6000))
    return [*stories, unanswered("PARTIALLY_CAPTURED, a refund is refused", *less, refund(1000))]


TAKER_STORIES = [*PAYING, *PAYERS, *HANDS, *MESSAGES, *_of_held_money()]
