"""Every operation is tried on an order in every status, and on payments in every status.

The rule a stranger would break: what is refused changes nothing, to the last byte of the order as it is shown.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from uuid import uuid4

import httpx
from tests.api.storefront import ORDERS
from tests.transitions.scene import SANDBOX, Scene
from tests.transitions.steps import (
    CHALLENGE,
    DECLINED,
    DEVICE,
    GIVING_BACK,
    GOOD,
    HALF,
    MANUAL,
    REDIRECT,
    SILENT,
    SLOW,
    SLOW_REFUND,
    SPEI,
    Step,
    cancel,
    capture,
    charge,
    create,
    deposit,
    dispute,
    later,
    part,
    pending,
    refund,
    settle,
    split,
    validate,
)
from tests.transitions.told import CHR, DDR

WAYS: Sequence[tuple[str, str, Sequence[Step]]] = [
    ("PENDING", "", (pending(),)),
    ("PENDING", "EXPIRED", (pending(), charge(SPEI), later("PT73H"))),
    ("PROCESSING", "PENDING_AUTHORIZATION", (create(SILENT),)),
    ("PROCESSING", "CREATED", (SLOW, create(SPEI))),
    ("REFERENCE_GENERATED", "REQUIRES_ACTION", (create(SPEI),)),
    ("AUTHORIZED", "AUTHORIZED", (create(GOOD, **MANUAL),)),
    ("AUTHORIZED", "PENDING_CAPTURE", (create(CHALLENGE), validate())),
    ("AUTHORIZED", "CAPTURING", (create(GOOD, **MANUAL), SLOW, capture())),
    ("PARTIALLY_AUTHORIZED", "PARTIALLY_AUTHORIZED", (create(HALF, **MANUAL),)),
    ("ACTION_REQUIRED", "REQUIRES_ACTION", (create(REDIRECT),)),
    (DDR, "REQUIRES_ACTION", (create(DEVICE),)),
    (CHR, "REQUIRES_ACTION", (split(), part(CHALLENGE, 4000))),
    ("COMPLETED", "CAPTURED", (create(GOOD), later())),
    ("COMPLETED", "PENDING_SETTLEMENT", (create(GOOD), later(), settle("LISTED"))),
    ("COMPLETED", "SETTLED", (create(GOOD), later(), settle("LISTED"), settle("MATCHED"))),
    ("COMPLETED", "DISPUTED", (create(GOOD), later(), dispute("OPENED"))),
    ("PARTIALLY_PAID", "CAPTURED", (split(), part(GOOD, 4000), later())),
    ("PARTIALLY_PAID", "PARTIALLY_CAPTURED", (create(GOOD, **MANUAL), capture(4000), later())),
    ("PARTIALLY_PAID", "REFUNDED", (split(), part(GOOD, 4000), refund(4000), later())),
    ("CANCELLATION_REQUESTED", "PENDING_CANCELLATION", (create(SILENT), cancel())),
    ("CANCELLED", "CANCELLED", (create(SPEI), cancel())),
    ("FAILED", "FAILED", (create(DECLINED),)),
    ("REFUND_PROCESSING", "PENDING_REFUND", (create(SLOW_REFUND), refund(4000))),
    ("PARTIALLY_REFUNDED", "PARTIALLY_REFUNDED", (create(GOOD), refund(4000), later())),
    ("REFUNDED", "REFUNDED", (create(SPEI), deposit(10_000), refund(10_000), later("PT5S"))),
]
"""How an order comes to each of the sixteen statuses, and its newest payment to each of the nineteen."""

Try = Callable[[Scene, dict[str, Any]], Awaitable[httpx.Response]]
"""Asks for something, given the order as it is shown."""


def _on(taker: str, action: str, body: Any) -> Try:
    return lambda scene, _: scene.ask(taker, f"{ORDERS}/{scene.order_id}/{action}", body)


def _about(taker: str, place: str, body: Callable[[dict[str, Any]], Any]) -> Try:
    """A helper of the sandbox, asked about the newest payment, or about one that nobody knows."""

    async def ask(scene: Scene, shown: dict[str, Any]) -> httpx.Response:
        payment = shown["payments"][-1] if shown["payments"] else {"id": str(uuid4())}
        return await scene.ask(taker, f"{SANDBOX}/{place}", body(payment))

    return ask


def _sent_to(payment: dict[str, Any], amount: int) -> dict[str, Any]:
    details = payment.get("speiDetails") or {"clabe": "646180999999999999"}
    return {"clabe": details["clabe"], "amount": amount}


def _disputed(outcome: str, **amount: int) -> Try:
    return _about("dispute", "disputes", lambda payment: {"paymentId": payment["id"], "outcome": outcome, **amount})


def _settled(stage: str) -> Try:
    return _about("settlement", "settlements", lambda payment: {"paymentIds": [payment["id"]], "stage": stage})


async def _again(scene: Scene, shown: dict[str, Any]) -> httpx.Response:
    body = {
        "externalId": shown["externalId"],
        "amount": shown["amount"],
        "currency": "MXN",
        "customer": {"externalId": "ana"},
    }
    return await scene.ask("create", ORDERS, body | GOOD)


async def _validated(scene: Scene, shown: dict[str, Any]) -> httpx.Response:
    session = shown["payerAuthentication"] or {}
    body = {"authenticationTransactionId": session.get("authenticationTransactionId") or "nobody"}
    return await scene.ask("validate", f"{ORDERS}/{scene.order_id}/payer-authentication/validate", body)


async def _part_cancelled(scene: Scene, shown: dict[str, Any]) -> httpx.Response:
    payment_id = shown["payments"][-1]["id"] if shown["payments"] else shown["id"]
    return await scene.ask("cancel", f"{ORDERS}/{scene.order_id}/cancel", {"paymentId": payment_id})


OPERATIONS: dict[str, Try] = {
    "create again": _again,
    "charge": _on("charge", "charge", GOOD),
    "charge by transfer": _on("charge", "charge", SPEI),
    "pay a part": _on("pay", "payments", GOOD | {"amount": 1000}),
    "device data": _on("device", "payer-authentication/device-data", {}),
    "validate": _validated,
    "validate, refused": _on("validate", "payer-authentication/validate", {"authenticationTransactionId": "fail"}),
    "capture": _on("capture", "capture", {}),
    "capture a part": _on("capture", "capture", {"amount": 1000}),
    "cancel": _on("cancel", "cancel", {}),
    "cancel and give back": _on("cancel", "cancel", GIVING_BACK),
    "cancel a part": _part_cancelled,
    "refund a part": _on("refund", "refund", {"amount": 1000}),
    "refund all": _on("refund", "refund", {"amount": 10_000}),
    "deposit a part": _about("deposit", "deposits", lambda payment: _sent_to(payment, 1000)),
    "deposit all": _about("deposit", "deposits", lambda payment: _sent_to(payment, 10_000)),
    "open a dispute": _disputed("OPENED", amount=1000),
    "win a dispute": _disputed("WON"),
    "lose a dispute": _disputed("LOST"),
    "list in a batch": _settled("LISTED"),
    "pay a batch out": _settled("MATCHED"),
    "refuse a batch": _settled("REFUSED"),
    "time": lambda scene, _: scene.ask("time", f"{SANDBOX}/clock", {"advanceBy": "P8D"}),
}


def every_operation(order_status: str, payment_status: str, way: Sequence[Step]) -> Step:
    """Try everything on orders that came this way: on the same one as long as it is refused, then on another."""

    async def step(scene: Scene) -> None:
        stood: dict[str, Any] | None = None
        for name, ask in OPERATIONS.items():
            if stood is None:
                stood = await _arrived(scene, way)
                newest = stood["payments"][-1]["status"] if stood["payments"] else ""
                assert (stood["status"], newest) == (order_status, payment_status)
            answer = await ask(scene, stood)
            stands = await scene.shown()
            if answer.status_code in {400, 404, 409} or (
                answer.status_code == 422 and "paymentOrder" not in answer.json()
            ):
                unharmed = name == "validate, refused" or stands == stood
                assert unharmed, f"{name} was refused and changed the order: {answer.text}"
            stood = stands if stands == stood else None

    return step


async def _arrived(scene: Scene, way: Sequence[Step]) -> dict[str, Any]:
    for step in way:
        await step(scene)
    return await scene.shown()
