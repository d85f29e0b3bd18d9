"""What can happen in a story, one function for each: what a merchant asks, and what payers, banks, processors and time do.

The rule a stranger would break: a step is one line of a story and names no payment by an id; `n` counts the order's payments
from the newest one back.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from tests.api.bodies import card
from tests.transitions.scene import SANDBOX, Scene

Step = Callable[[Scene], Awaitable[Any]]
Tender = dict[str, Any]


def _card(number: str) -> Tender:
    method = {"type": "card", "cardDetails": card(number=number)}
    return {"paymentMethod": method, "billingAddress": {"country": "MX"}}


GOOD, DECLINED, SILENT, HALF = map(
    _card, ("4242424242424242", "4000000000000002", "4000000000000119", "4000000000000010")
)
CHALLENGE, DEVICE, DEVICE_FIRST, REDIRECT = map(
    _card, ("4000000000003220", "4000000000003055", "4000000000003063", "4000000000007007")
)
NO_CAPTURE, NO_VOID, NO_REFUND, SLOW_REFUND = map(
    _card, ("4000000000007015", "4000000000007023", "4000000000007726", "4000000000005126")
)
SPEI = {"paymentMethod": {"type": "spei"}}
CASH = {"paymentMethod": {"type": "paycash"}}

MANUAL = {"captureMethod": "MANUAL"}
CLABE_OF_ANA = "032180000118359719"


def create(tender: Tender, **terms: Any) -> Step:
    """An order that is paid at once."""
    return lambda scene: scene.create(pending=False, **tender, **terms)


def pending(**terms: Any) -> Step:
    """An order that waits for its payment."""
    return lambda scene: scene.create(**terms)


def split(**terms: Any) -> Step:
    """An order that is paid in parts."""
    return lambda scene: scene.create(allowPartials=True, **terms)


def again(tender: Tender) -> Step:
    """The order's creation is sent once more."""

    async def step(scene: Scene) -> None:
        body = {"externalId": (await scene.shown())["externalId"], "pending": False, **tender}
        await scene.create(**body)

    return step


def charge(tender: Tender, amount: int | None = None) -> Step:
    return lambda scene: scene.on_order("charge", "charge", _of(amount) | tender)


def part(tender: Tender, amount: int | None = None) -> Step:
    """A part of a split order."""
    return lambda scene: scene.on_order("pay", "payments", _of(amount) | tender)


def device_data() -> Step:
    return lambda scene: scene.on_order("device", "payer-authentication/device-data", {})


def validate(word: str | None = None) -> Step:
    """The payer is back; an id with `fail` in it stands for a payer who was not let through."""

    async def step(scene: Scene) -> None:
        session = (await scene.shown())["payerAuthentication"]
        body = {"authenticationTransactionId": word or session["authenticationTransactionId"]}
        await scene.on_order("validate", "payer-authentication/validate", body)

    return step


def capture(amount: int | None = None, *, n: int = 1) -> Step:
    async def step(scene: Scene) -> None:
        about = {"paymentId": (await scene.payment(-n))["id"]} if n > 1 else {}
        await scene.on_order("capture", "capture", _of(amount) | about)

    return step


def cancel(**body: Any) -> Step:
    return lambda scene: scene.on_order("cancel", "cancel", body)


GIVING_BACK = {"refundCaptured": True}


def cancel_part(n: int = 1) -> Step:
    """One part of a split order is let go."""

    async def step(scene: Scene) -> None:
        await scene.on_order("cancel", "cancel", {"paymentId": (await scene.payment(-n))["id"]})

    return step


def refund(amount: int, *, n: int = 1, holder: str | None = None) -> Step:
    """Money goes back; a holder whose name has `fail` in it cannot be paid."""

    async def step(scene: Scene) -> None:
        body = {"amount": amount, "paymentId": (await scene.payment(-n))["id"]}
        to = {} if holder is None else {"destination": {"clabe": CLABE_OF_ANA, "accountHolder": holder}}
        await scene.on_order("refund", "refund", body | to)

    return step


def deposit(amount: int, *, n: int = 1) -> Step:
    """A payer sends money."""

    async def step(scene: Scene) -> None:
        payment = await scene.payment(-n)
        to = {"clabe": payment["speiDetails"]["clabe"]} if payment.get("speiDetails") else {}
        to = to or {"reference": payment["cieDetails"]["reference"]}
        await scene.do("deposit", f"{SANDBOX}/deposits", to | {"amount": amount})

    return step


def dispute(outcome: str, amount: int | None = None, *, n: int = 1) -> Step:
    """The payer's bank opens a dispute, or decides it."""

    async def step(scene: Scene) -> None:
        body = {"paymentId": (await scene.payment(-n))["id"], "outcome": outcome}
        await scene.do("dispute", f"{SANDBOX}/disputes", body | _of(amount))

    return step


def settle(stage: str) -> Step:
    """The acquirer lists the newest payment in a batch, pays it out, or refuses the batch."""

    async def step(scene: Scene) -> None:
        body = {"paymentIds": [(await scene.payment())["id"]], "stage": stage}
        await scene.do("settlement", f"{SANDBOX}/settlements", body)

    return step


def later(by: str = "PT1S") -> Step:
    """Time passes on the merchant's clock; what is due is done. Messages come two seconds after what they are about."""
    return lambda scene: scene.do("time", f"{SANDBOX}/clock", {"advanceBy": by})


def processor(mode: str, times: int = 1) -> Step:
    """How the processor treats the next calls: DOWN was never sent, SLOW is carried out and not answered in time."""
    return lambda scene: scene.do("mode", f"{SANDBOX}/processor", {"mode": mode, "times": times})


DOWN, SLOW = processor("DOWN"), processor("SLOW")


def recovery() -> Step:
    return lambda scene: scene.recover()


def _of(amount: int | None) -> dict[str, int]:
    return {} if amount is None else {"amount": amount}
