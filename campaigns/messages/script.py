"""What becomes of each order: it is created, then something happens at Stripe, then it is refunded or contested."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, Self
from urllib.parse import quote

import httpx
from msgspec import Struct

from campaigns.chaos.clients import Merchant
from campaigns.fake_stripe.running import control

ORDERS: Final = "/api/v2/payment-orders"
ACCOUNTS: Final = "/api/v1/processor-accounts"
AMOUNT: Final = 150_000
"""The amount of an order, in centavos."""
KINDS: Final = (
    "paid",
    "captured there",
    "cancelled there",
    "authenticated",
    "refused",
    "transfer",
    "cash",
    "refunded there",
    "transfer back",
    "dispute lost",
    "dispute won",
)
_AT_ONCE: Final = 32
_PATIENCE_S: Final = 60.0
_AUTHENTICATED: Final = frozenset({"authenticated", "refused"})
_TRANSFERS: Final = frozenset({"transfer", "transfer back"})
_MANUAL: Final = frozenset({"captured there", "cancelled there"})


class Placed(Struct, frozen=True):
    """An order that was created: its kind, its external id, and Stripe's id of its payment."""

    kind: str
    name: str
    intent: str
    clabe: str | None


class Shop:
    """A merchant with an account at the fake of Stripe. Use it in `async with`."""

    def __init__(self, port: int, merchant: Merchant, stripe_url: str, account: str) -> None:
        self._ledger = httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{port}", headers={"x-api-key": merchant.api_key}, timeout=_PATIENCE_S
        )
        self._stripe = httpx.AsyncClient(base_url=stripe_url, auth=(f"sk_test_{account}", ""), timeout=_PATIENCE_S)
        self._stripe_url = stripe_url
        self._key = f"sk_test_{account}"
        self._slots = asyncio.Semaphore(_AT_ONCE)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._ledger.aclose()
        await self._stripe.aclose()

    async def connect(self) -> None:
        """Connects the account, and has Stripe send its messages to the account's address."""
        messages_url = (await self._connected())["messagesUrl"]
        endpoint = await self.at_stripe("/v1/webhook_endpoints", {"url": messages_url, "enabled_events[]": "*"})
        await self._connected(endpoint["secret"])
        await self._ask("DELETE", f"{ACCOUNTS}/sandbox")

    async def create(self, kind: str, name: str) -> Placed:
        """Creates an order of a kind and returns it."""
        method: dict[str, Any] = {"type": "card", "cardTokens": [{"account": "mx", "token": "pm_card_visa"}]}
        if kind in _AUTHENTICATED:
            method["cardTokens"][0]["token"] = "pm_card_authenticationRequired"
        elif kind in _TRANSFERS:
            method = {"type": "spei"}
        elif kind == "cash":
            method = {"type": "paycash"}
        body = {
            "externalId": name,
            "amount": AMOUNT,
            "currency": "MXN",
            "captureMethod": "MANUAL" if kind in _MANUAL else "AUTOMATIC",
            "customer": {"externalId": "ana", "firstName": "Ana", "email": "ana@example.com"},
            "paymentMethod": method,
            "billingAddress": {"city": "Puebla", "country": "MX"},
            "returnUrl": "http://127.0.0.1/back",
        }
        order = await self._ask("POST", ORDERS, body)
        spei = (order.get("paymentMethod") or {}).get("speiDetails") or {}
        intent = order["payment"]["processorReference"]
        if intent is None:
            intent = order["payerAuthentication"]["authenticationTransactionId"]
        return Placed(kind, name, intent, spei.get("clabe"))

    async def happen(self, placed: Placed) -> None:
        """Does what happens to an order at Stripe: its payer acts, or the merchant, on Stripe's own pages."""
        path = f"/v1/payment_intents/{placed.intent}"
        match placed.kind:
            case "captured there":
                await self.at_stripe(f"{path}/capture", {"amount_to_capture": AMOUNT // 3})
            case "cancelled there":
                await self.at_stripe(f"{path}/cancel", {})
            case "authenticated" | "refused":
                passed = placed.kind == "authenticated"
                await self._control("authentications", {"payment_intent": placed.intent, "passed": passed})
            case "transfer" | "transfer back":
                for amount in (AMOUNT // 3, AMOUNT - AMOUNT // 3):
                    await self._control("transfers", {"clabe": placed.clabe, "amount": amount, "reference": "1"})
            case "cash":
                await self._control("vouchers", {"payment_intent": placed.intent, "action": "pay"})
            case "refunded there":
                for amount in (AMOUNT // 3, AMOUNT // 5):
                    await self.at_stripe("/v1/refunds", {"payment_intent": placed.intent, "amount": amount})
            case _:
                pass

    async def go_back(self, placed: Placed) -> None:
        """Refunds an order that was paid by a transfer, and has a card's payment contested."""
        if placed.kind == "transfer back":
            await self._ask("POST", f"{_one(placed)}/refund", {"amount": AMOUNT // 3, "reason": "Taza rota"})
        elif placed.kind.startswith("dispute"):
            opened = await self._control("disputes", {"payment_intent": placed.intent, "reason": "fraudulent"})
            await self._control("dispute_ends", {"dispute": opened["id"], "won": placed.kind == "dispute won"})

    async def state(self, placed: Placed) -> Mapping[str, Any]:
        """Returns how an order has ended, without anything that differs between two equal orders."""
        order = await self._ask("GET", _one(placed))
        refunds = await self._ask("GET", f"{_one(placed)}/refunds")
        shown = {name: order[name] for name in ("status", "amountPaid", "amountRefunded", "overpaidAmount")}
        fields = ("status", "capturedAmount", "refundedAmount", "amountReleased", "late")
        shown["payments"] = [{name: payment[name] for name in fields} for payment in order["payments"]]
        shown["refunds"] = sorted((refund["amount"], refund["status"]) for refund in refunds["data"])
        return shown

    async def at_stripe(self, path: str, form: Mapping[str, Any]) -> Any:
        answer = await self._stripe.post(path, data=dict(form))
        answer.raise_for_status()
        return answer.json()

    async def side_by_side(self, work: Callable[[Placed], Awaitable[Any]], orders: Iterable[Placed]) -> list[Any]:
        """Does work for each order, some at once, and returns the results in the orders' order."""

        async def in_turn(placed: Placed) -> Any:
            async with self._slots:
                return await work(placed)

        return await asyncio.gather(*map(in_turn, orders))

    async def create_all(self, count: int) -> list[Placed]:
        """Creates as many orders, the kinds in turn."""

        async def in_turn(number: int) -> Placed:
            async with self._slots:
                return await self.create(KINDS[number % len(KINDS)], f"order {number}")

        return await asyncio.gather(*map(in_turn, range(count)))

    async def _connected(self, *secrets: str) -> Any:
        body = {"processor": "stripe", "secretKey": self._key, "webhookSecrets": secrets}
        return await self._ask("PUT", f"{ACCOUNTS}/mx", body)

    async def _ask(self, method: str, path: str, body: Any = None) -> Any:
        answer = await self._ledger.request(method, path, json=body)
        if answer.status_code >= 400:
            raise AssertionError(f"{method} {path}: {answer.status_code} {answer.text[:500]}")
        return answer.json()

    async def _control(self, name: str, given: Any) -> Any:
        return await asyncio.to_thread(control, self._stripe_url, name, given)


def _one(placed: Placed) -> str:
    return f"{ORDERS}/{quote(placed.name, safe='')}"
