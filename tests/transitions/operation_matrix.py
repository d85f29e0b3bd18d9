"""Every operation is attempted on an order in every status, and on payments in every status.

A refused operation must change nothing, to the last byte of the order as it is served.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from uuid import uuid4

import httpx
from tests.api.storefront import ORDERS
from tests.transitions.context import SANDBOX, ScenarioContext
from tests.transitions.scenario import CHR, DDR
from tests.transitions.steps import (
    CHALLENGE,
    DECLINED,
    DEVICE,
    GOOD,
    HALF,
    MANUAL,
    REDIRECT,
    REFUND_CAPTURED,
    SILENT,
    SLOW,
    SLOW_REFUND,
    SPEI,
    Step,
    add_payment,
    advance_clock,
    cancel,
    capture,
    charge,
    create,
    deposit,
    dispute,
    pending,
    refund,
    settle,
    split,
    validate,
)

PATHS: Sequence[tuple[str, str, Sequence[Step]]] = [
    ("PENDING", "", (pending(),)),
    ("PENDING", "EXPIRED", (pending(), charge(SPEI), advance_clock("PT73H"))),
    ("PROCESSING", "PENDING_AUTHORIZATION", (create(SILENT),)),
    ("PROCESSING", "CREATED", (SLOW, create(SPEI))),
    ("REFERENCE_GENERATED", "REQUIRES_ACTION", (create(SPEI),)),
    ("AUTHORIZED", "AUTHORIZED", (create(GOOD, **MANUAL),)),
    ("AUTHORIZED", "PENDING_CAPTURE", (create(CHALLENGE), validate())),
    ("AUTHORIZED", "CAPTURING", (create(GOOD, **MANUAL), SLOW, capture())),
    ("PARTIALLY_AUTHORIZED", "PARTIALLY_AUTHORIZED", (create(HALF, **MANUAL),)),
    ("ACTION_REQUIRED", "REQUIRES_ACTION", (create(REDIRECT),)),
    (DDR, "REQUIRES_ACTION", (create(DEVICE),)),
    (CHR, "REQUIRES_ACTION", (split(), add_payment(CHALLENGE, 4000))),
    ("COMPLETED", "CAPTURED", (create(GOOD), advance_clock())),
    ("COMPLETED", "PENDING_SETTLEMENT", (create(GOOD), advance_clock(), settle("LISTED"))),
    ("COMPLETED", "SETTLED", (create(GOOD), advance_clock(), settle("LISTED"), settle("MATCHED"))),
    ("COMPLETED", "DISPUTED", (create(GOOD), advance_clock(), dispute("OPENED"))),
    ("PARTIALLY_PAID", "CAPTURED", (split(), add_payment(GOOD, 4000), advance_clock())),
    ("PARTIALLY_PAID", "PARTIALLY_CAPTURED", (create(GOOD, **MANUAL), capture(4000), advance_clock())),
    ("PARTIALLY_PAID", "REFUNDED", (split(), add_payment(GOOD, 4000), refund(4000), advance_clock())),
    ("CANCELLATION_REQUESTED", "PENDING_CANCELLATION", (create(SILENT), cancel())),
    ("CANCELLED", "CANCELLED", (create(SPEI), cancel())),
    ("FAILED", "FAILED", (create(DECLINED),)),
    ("REFUND_PROCESSING", "PENDING_REFUND", (create(SLOW_REFUND), refund(4000))),
    ("PARTIALLY_REFUNDED", "PARTIALLY_REFUNDED", (create(GOOD), refund(4000), advance_clock())),
    ("REFUNDED", "REFUNDED", (create(SPEI), deposit(10_000), refund(10_000), advance_clock("PT5S"))),
]
"""The steps to each of the sixteen statuses of an order, and to each of the nineteen statuses of its newest payment."""

Attempt = Callable[[ScenarioContext, dict[str, Any]], Awaitable[httpx.Response]]
"""Sends a request, given the order as it is served."""


def _order_request(operation: str, action: str, body: Any) -> Attempt:
    return lambda context, _: context.post(operation, f"{ORDERS}/{context.order_id}/{action}", body)


def _sandbox_request(operation: str, place: str, body: Callable[[dict[str, Any]], Any]) -> Attempt:
    """Returns a request to a sandbox helper about the order's newest payment, or about an unknown payment."""

    async def attempt(context: ScenarioContext, order: dict[str, Any]) -> httpx.Response:
        payment = order["payments"][-1] if order["payments"] else {"id": str(uuid4())}
        return await context.post(operation, f"{SANDBOX}/{place}", body(payment))

    return attempt


def _deposit_to(payment: dict[str, Any], amount: int) -> dict[str, Any]:
    details = payment.get("speiDetails") or {"clabe": "646180999999999992"}
    return {"clabe": details["clabe"], "amount": amount}


def _dispute(outcome: str, **amount: int) -> Attempt:
    return _sandbox_request(
        "dispute", "disputes", lambda payment: {"paymentId": payment["id"], "outcome": outcome, **amount}
    )


def _settle(stage: str) -> Attempt:
    return _sandbox_request(
        "settlement", "settlements", lambda payment: {"paymentIds": [payment["id"]], "stage": stage}
    )


async def _create_again(context: ScenarioContext, order: dict[str, Any]) -> httpx.Response:
    body = {
        "externalId": order["externalId"],
        "amount": order["amount"],
        "currency": "MXN",
        "customer": {"externalId": "ana"},
    }
    return await context.post("create", ORDERS, body | GOOD)


async def _validate(context: ScenarioContext, order: dict[str, Any]) -> httpx.Response:
    session = order["payerAuthentication"] or {}
    body = {"authenticationTransactionId": session.get("authenticationTransactionId") or "unknown"}
    return await context.post("validate", f"{ORDERS}/{context.order_id}/payer-authentication/validate", body)


async def _cancel_payment(context: ScenarioContext, order: dict[str, Any]) -> httpx.Response:
    payment_id = order["payments"][-1]["id"] if order["payments"] else order["id"]
    return await context.post("cancel", f"{ORDERS}/{context.order_id}/cancel", {"paymentId": payment_id})


async def _change(context: ScenarioContext, _: dict[str, Any]) -> httpx.Response:
    return await context.patch_order({"description": "Otra", "metadata": {"a": 1}})


async def _confirm_refund(context: ScenarioContext, _: dict[str, Any]) -> httpx.Response:
    refunds = (await context.merchant.get(f"{ORDERS}/{context.order_id}/refunds")).json()["data"]
    name = refunds[-1]["id"] if refunds else str(uuid4())
    return await context.post("confirmation", f"{ORDERS}/{context.order_id}/refunds/{name}/confirm", {})


OPERATIONS: dict[str, Attempt] = {
    "create again": _create_again,
    "charge": _order_request("charge", "charge", GOOD),
    "charge by transfer": _order_request("charge", "charge", SPEI),
    "pay a part": _order_request("pay", "payments", GOOD | {"amount": 1000}),
    "device data": _order_request("device", "payer-authentication/device-data", {}),
    "validate": _validate,
    "validate, refused": _order_request(
        "validate", "payer-authentication/validate", {"authenticationTransactionId": "fail"}
    ),
    "capture": _order_request("capture", "capture", {}),
    "release": _order_request("release", "release", {}),
    "capture a part": _order_request("capture", "capture", {"amount": 1000}),
    "cancel": _order_request("cancel", "cancel", {}),
    "cancel and give back": _order_request("cancel", "cancel", REFUND_CAPTURED),
    "cancel a part": _cancel_payment,
    "refund a part": _order_request("refund", "refund", {"amount": 1000}),
    "refund all": _order_request("refund", "refund", {"amount": 10_000}),
    "confirm a refund": _confirm_refund,
    "deposit a part": _sandbox_request("deposit", "deposits", lambda payment: _deposit_to(payment, 1000)),
    "deposit all": _sandbox_request("deposit", "deposits", lambda payment: _deposit_to(payment, 10_000)),
    "open a dispute": _dispute("OPENED", amount=1000),
    "win a dispute": _dispute("WON"),
    "lose a dispute": _dispute("LOST"),
    "list in a batch": _settle("LISTED"),
    "pay a batch out": _settle("MATCHED"),
    "refuse a batch": _settle("REFUSED"),
    "change": _change,
    "change the amount": lambda context, _: context.patch_order({"amount": 10_001}),
    "time": lambda context, _: context.post("time", f"{SANDBOX}/clock", {"advanceBy": "P8D"}),
}


def every_operation(order_status: str, payment_status: str, path: Sequence[Step]) -> Step:
    """Returns a step that attempts every operation on an order at the end of `path`: a new order after each change."""

    async def step(context: ScenarioContext) -> None:
        before: dict[str, Any] | None = None
        for name, attempt in OPERATIONS.items():
            if before is None:
                before = await _follow(context, path)
                newest = before["payments"][-1]["status"] if before["payments"] else ""
                assert (before["status"], newest) == (order_status, payment_status)
            answer = await attempt(context, before)
            after = await context.read_order()
            if answer.status_code in {400, 404, 409} or (
                answer.status_code == 422 and "paymentOrder" not in answer.json()
            ):
                unchanged = name == "validate, refused" or after == before
                assert unchanged, f"{name} was refused and changed the order: {answer.text}"
            before = after if after == before else None

    return step


async def _follow(context: ScenarioContext, path: Sequence[Step]) -> dict[str, Any]:
    for step in path:
        await step(context)
    return await context.read_order()
