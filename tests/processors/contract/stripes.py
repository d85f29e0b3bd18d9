"""Accounts of Stripe under test, each case at one of its own: at our fake, and at Stripe World.

A server between the two loses requests and answers, and fails as Stripe does: see `campaigns.stand_ins.interference`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final
from uuid import uuid4

import aiohttp
from aiohttp import web
from campaigns.fake_stripe.running import control
from campaigns.stand_ins.interference import Fault, Interference, decides
from tests.processors.contract.account import AccountUnderTest, CardKind, Loss, Need

from ledger.domain.orders.processor_outcomes import ReferenceIssued
from ledger.domain.orders.terms import MethodType
from ledger.processors.contract import CardToken, PayingCard, Processor
from ledger.processors.stripe.account import capabilities_of
from ledger.processors.stripe.processor import StripeProcessor
from ledger.processors.stripe.transport import Connections

_CLOSED: Final = "http://127.0.0.1:1"
"""No server listens at this port."""
_PATIENCE_S: Final = 20.0

_DECLINES: Final = {
    CardKind.GENERIC: "visa_chargeDeclined",
    CardKind.INSUFFICIENT_FUNDS: "visa_chargeDeclinedInsufficientFunds",
    CardKind.LOST: "visa_chargeDeclinedLostCard",
    CardKind.STOLEN: "visa_chargeDeclinedStolenCard",
    CardKind.EXPIRED: "chargeDeclinedExpiredCard",
    CardKind.INVALID_CVV: "chargeDeclinedIncorrectCvc",
    CardKind.UNAVAILABLE: "chargeDeclinedProcessingError",
}
_AT_BOTH: Final = {CardKind.APPROVED: "visa", CardKind.NO_PLANS: "visa", **_DECLINES}


class Faults:
    """The faults of the merchants' deciding requests, by the merchant's id in their keys."""

    def __init__(self) -> None:
        self.of_merchants: dict[str, Fault] = {}

    def decide(self, request: web.Request) -> Fault | None:
        merchant = request.headers.get("Idempotency-Key", "").partition(":")[0]
        return self.of_merchants.get(merchant) if decides(request) else None


class Stripe(AccountUnderTest):
    """An account of Stripe at a stand-in, reached through `between`, whose faults are `faults`."""

    abilities = frozenset({Need.SHARED, Need.LOSES_REQUESTS, Need.STORES_FAILURES, Need.OWN_TOKENS})

    def __init__(self, between: Interference, faults: Faults, url: str, key: str) -> None:
        super().__init__()
        self._between = between
        self._faults = faults
        self._key = key
        self._url = url
        self._connections = Connections(url)
        self.processor = StripeProcessor(self._connections, key)

    async def close(self) -> None:
        await super().close()
        await self._connections.close()

    def posts(self) -> int:
        return self._between.posts[str(self.merchant_id)]

    @asynccontextmanager
    async def losing(self, loss: Loss) -> AsyncIterator[float]:
        fault = Fault.REQUEST_LOST if loss is Loss.REQUEST else Fault.ANSWER_LOST
        async with self._disturbed(fault):
            yield _PATIENCE_S

    @asynccontextmanager
    async def away(self) -> AsyncIterator[Processor]:
        connections = Connections(_CLOSED)
        yield StripeProcessor(connections, self._key)
        await connections.close()

    @asynccontextmanager
    async def failing(self, *, carried_out: bool) -> AsyncIterator[None]:
        async with self._disturbed(Fault.ERROR_AFTER if carried_out else Fault.ERROR_BEFORE):
            yield

    @asynccontextmanager
    async def _disturbed(self, fault: Fault) -> AsyncIterator[None]:
        """Lets every deciding request of this merchant fail in this way meanwhile."""
        self._faults.of_merchants[str(self.merchant_id)] = fault
        try:
            yield
        finally:
            del self._faults.of_merchants[str(self.merchant_id)]

    async def ask(self, method: str, path: str, **data: str) -> Any:
        """Sends a request of the merchant's own to Stripe, and returns the answer."""
        headers = {"Authorization": f"Bearer {self._key}"}
        async with (
            aiohttp.ClientSession(headers=headers) as session,
            session.request(method, self._url + path, data=data) as answer,
        ):
            found = await answer.json()
            assert answer.status == 200, found
            return found


class FakedStripe(Stripe):
    """An account at our fake of Stripe, made for one case. The fake's controls are at `fake_url`."""

    cards: Mapping[CardKind, str] = {
        **{kind: f"pm_card_{name}" for kind, name in _AT_BOTH.items()},
        CardKind.FRAUD: "pm_card_radarBlock",
        CardKind.ADVISED: "pm_card_decline_do_not_honor__do_not_try_again",
        CardKind.AUTHENTICATED: "pm_card_authenticationRequired",
        CardKind.PLANS: "pm_card_mx",
        CardKind.REFUNDS_LATER: "pm_card_pendingRefund",
        CardKind.SAVED: "pm_card_visa",
        CardKind.USED_ONCE: "pm_card_visa",
    }
    abilities = Stripe.abilities | {Need.VERIFIES, Need.SAVES, Need.PAYS_IN, Need.AUTHENTICATES, Need.ENDS_SESSIONS}

    def __init__(self, between: Interference, faults: Faults, fake_url: str, name: str) -> None:
        super().__init__(between, faults, between.url, f"sk_test_{name}")
        self._fake_url = fake_url

    @classmethod
    async def opened(cls, between: Interference, faults: Faults, fake_url: str) -> FakedStripe:
        name = f"a{uuid4().hex}"
        await asyncio.to_thread(control, fake_url, "accounts", {"name": name})
        return cls(between, faults, fake_url, name)

    async def card(self, kind: CardKind = CardKind.APPROVED) -> PayingCard:
        token = self.cards[kind]
        if kind is CardKind.SAVED:
            customer = (await self.ask("POST", "/v1/customers"))["id"]
            method = await self.ask("POST", f"/v1/payment_methods/{token}/attach", customer=customer)
            return CardToken(token=method["id"], customer=customer)
        if kind is CardKind.USED_ONCE:
            path = "/v1/test_helpers/confirmation_tokens"
            return CardToken(token=(await self.ask("POST", path, payment_method=token))["id"])
        return CardToken(token=token)

    async def elsewhere(self) -> AccountUnderTest:
        return self.neighbour(await self.opened(self._between, self._faults, self._fake_url))

    async def authenticate(self, session: str, *, passed: bool) -> None:
        kind = "setup_intent" if session.startswith("seti_") else "payment_intent"
        await self._control("authentications", {kind: session, "passed": passed})

    async def pay_in(self, issued: ReferenceIssued, amount: int) -> None:
        await self._control("transfers", {"clabe": issued.clabe, "amount": amount, "reference": "1"})

    async def _control(self, name: str, given: Mapping[str, Any]) -> None:
        await asyncio.to_thread(control, self._fake_url, name, dict(given))


class StripeOfWorld(Stripe):
    """An account at Stripe World, made for one case: a world of its own."""

    cards: Mapping[CardKind, str] = {kind: f"tok_{name}" for kind, name in _AT_BOTH.items()}
    abilities = Stripe.abilities | {Need.VERIFIES}

    def __init__(self, between: Interference, faults: Faults) -> None:
        super().__init__(between, faults, f"{between.url}/worlds/a{uuid4().hex}", "sk_test_any")
        cards = tuple(each for each in self.processor.capabilities.methods if each.type is MethodType.CARD)
        self.processor.capabilities = capabilities_of(cards)

    async def card(self, kind: CardKind = CardKind.APPROVED) -> PayingCard:
        """Returns a token of this world: it has none of the names that Stripe gives to its test cards."""
        given = {"type": "card", "card[token]": self.cards[kind]}
        return CardToken(token=(await self.ask("POST", "/v1/payment_methods", **given))["id"])

    async def elsewhere(self) -> AccountUnderTest:
        return self.neighbour(StripeOfWorld(self._between, self._faults))
