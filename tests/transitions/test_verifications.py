"""Every operation on a card in every status of its verification, over HTTP: it takes the move of the table, or none.

A refused operation leaves the card as it is served.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

import httpx
import pytest
from tests.api.bodies import by_card, card, encoded, paid_order
from tests.api.conftest import reacted
from tests.api.payer import CHALLENGED, FRICTIONLESS, REDIRECTED
from tests.api.storefront import JSON, ORDERS, Merchant, Storefront

__all__ = ["reacted"]

pytestmark = [pytest.mark.anyio, pytest.mark.long]

METHODS, OF_ANA = "/api/payment-methods", "/api/customers/ana/payment-methods"
GOOD, SILENT = "4242424242424242", "4000000000000119"


class SavedCard:
    """The card of one merchant's customer, and the operations on it."""

    def __init__(self, merchant: Merchant) -> None:
        self.merchant = merchant
        self.number, self.method_id = "", ""

    async def save(self, number: str = "", **details: Any) -> httpx.Response:
        self.number = number or self.number
        body = {"paymentMethod": by_card(cardDetails=card(number=self.number, **details))}
        answer = await self.merchant.post(OF_ANA, body)
        if answer.is_success:
            self.method_id = self.method_id or answer.json()["id"]
        return answer

    async def shown(self) -> dict[str, Any]:
        answer = await self.merchant.get(f"{METHODS}/{self.method_id}")
        return dict(answer.json()) if answer.is_success else {}

    async def status(self) -> str:
        """Returns the status of the card with what it waits for, "-" where nothing is shown."""
        shown = await self.shown()
        words = shown.get("status", "-"), shown.get("nextAction")
        return " ".join(filter(None, words))

    async def step(self, name: str, body: Any) -> httpx.Response:
        return await self.merchant.post(f"{METHODS}/{self.method_id}/payer-authentication/{name}", body)

    async def validate(self) -> httpx.Response:
        session = (await self.shown()).get("payerAuthentication") or {}
        transaction_id = session.get("authenticationTransactionId", "none")
        return await self.step("validate", {"authenticationTransactionId": transaction_id})

    async def change(self) -> httpx.Response:
        path, body = f"{METHODS}/{self.method_id}", encoded({"billingCity": "Puebla"})
        return await self.merchant.client.put(path, content=body, headers=self.merchant.key | JSON)

    async def pay(self) -> httpx.Response:
        method = {"type": "payment_method_id", "paymentMethodId": self.method_id}
        return await self.merchant.post(ORDERS, paid_order(customer={"externalId": "ana"}, paymentMethod=method))

    async def later(self, by: str) -> httpx.Response:
        return await self.merchant.post("/api/sandbox/clock", {"advanceBy": by})


Act = Callable[[SavedCard], Awaitable[Any]]

OPERATIONS: Final[dict[str, Act]] = {
    "save it again": lambda it: it.save(),
    "save it with another expiry": lambda it: it.save(expiryYear="2039"),
    "device data": lambda it: it.step("device-data", {}),
    "validate": lambda it: it.validate(),
    "validate, refused": lambda it: it.step("validate", {"authenticationTransactionId": "fail-1"}),
    "change": lambda it: it.change(),
    "delete": lambda it: it.merchant.delete(f"{OF_ANA}/{it.method_id}"),
    "pay by it": lambda it: it.pay(),
    "two minutes pass": lambda it: it.later("PT2M"),
    "an hour passes": lambda it: it.later("PT1H"),
}


async def _renewed(it: SavedCard) -> None:
    await it.save(CHALLENGED)
    await it.validate()
    await it.save(expiryYear="2038")


async def _ended(it: SavedCard, act: Act) -> None:
    await it.save(CHALLENGED)
    await act(it)


STATUSES: Final[dict[str, Act]] = {
    "PENDING": lambda it: it.save(SILENT),
    "REQUIRES_ACTION DEVICE_DATA": lambda it: it.save(FRICTIONLESS),
    "REQUIRES_ACTION CHALLENGE": lambda it: it.save(CHALLENGED),
    "REQUIRES_ACTION REDIRECT": lambda it: it.save(REDIRECTED),
    "ACTIVE": lambda it: it.save(GOOD),
    "ACTIVE CHALLENGE": _renewed,
    "FAILED": lambda it: _ended(it, OPERATIONS["validate, refused"]),
    "EXPIRED": lambda it: _ended(it, OPERATIONS["an hour passes"]),
    "-": lambda it: _ended(it, OPERATIONS["delete"]),
}

STAYS: Final = {
    "device data": 409,
    "validate": 409,
    "validate, refused": 409,
    "change": 404,
    "pay by it": 404,
    "two minutes pass": 200,
    "an hour passes": 200,
}
"""The answers of the operations that change nothing of a card that is not saved and waits for none of them."""
WAITS: Final = {"save it again": "201", "save it with another expiry": "201", "delete": "200 -"}
"""A further request replaces the verification of a card that waits for its payer."""
OVER: Final = {"save it again": "201", "save it with another expiry": "201", "delete": "404"}
"""A card whose verification has ended is saved under another id."""
SAVED: Final = {"change": "200", "delete": "200 -", "pay by it": "201", "save it again": "200"}

MOVES: Final[dict[str, dict[str, str]]] = {
    "PENDING": {
        "save it again": "409", "save it with another expiry": "409", "delete": "200 -",
        "two minutes pass": "200 ACTIVE", "an hour passes": "200 ACTIVE",
    },
    "REQUIRES_ACTION DEVICE_DATA": {**WAITS, "device data": "200 ACTIVE", "an hour passes": "200 EXPIRED"},
    "REQUIRES_ACTION CHALLENGE": {
        **WAITS, "validate": "200 ACTIVE", "validate, refused": "422 FAILED", "an hour passes": "200 EXPIRED",
    },
    "REQUIRES_ACTION REDIRECT": {
        **WAITS, "validate": "200 ACTIVE", "validate, refused": "422 FAILED", "an hour passes": "200 EXPIRED",
    },
    "ACTIVE": {**SAVED, "save it with another expiry": "201"},
    "ACTIVE CHALLENGE": {
        **SAVED, "save it with another expiry": "201",
        "validate": "200 ACTIVE", "validate, refused": "422 ACTIVE", "an hour passes": "200 ACTIVE",
    },
    "FAILED": OVER,
    "EXPIRED": OVER,
    "-": {**OVER, "device data": "404", "validate": "404", "validate, refused": "404"},
}  # fmt: skip
"""The answer to each operation in each status, and the status afterwards where it is another one."""


async def taken(store: Storefront, status: str, operation: str) -> str:
    """Returns the answer to an operation on a card in a status, and the card's status afterwards."""
    it = SavedCard(await store.register())
    await it.merchant.post("/api/customers", {"externalId": "ana", "firstName": "Ana"})
    await STATUSES[status](it)
    assert await it.status() == status
    before = await it.shown()
    answer = await OPERATIONS[operation](it)
    after = await it.shown()
    assert answer.status_code < 500, answer.text
    if answer.status_code in {400, 404, 409}:
        assert after == before, f"{operation} was refused and changed the card: {answer.text}"
    return f"{answer.status_code} {await it.status()}"


def expected(status: str, operation: str) -> str:
    answer, _, after = MOVES[status].get(operation, f"{STAYS.get(operation)}").partition(" ")
    return f"{answer} {after or status}"


async def test_every_operation_takes_the_move_of_the_table(store: Storefront, reacted: None) -> None:
    cases = [(status, operation) for status in STATUSES for operation in OPERATIONS]
    results = {case: await taken(store, *case) for case in cases}
    assert results == {case: expected(*case) for case in cases}
