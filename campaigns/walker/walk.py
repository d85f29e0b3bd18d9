"""One merchant's random walk: orders with invoices, saved cards, subscriptions, refunds, disputes, and its clock.

Take every choice from the walk's own `Random`, so that a seed repeats the same requests. Answers of the service decide only
which objects there are.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from random import Random
from typing import Any, Final
from urllib.parse import quote

from tests.invariants import broken_sums

from campaigns.chaos import bodies
from campaigns.chaos.clients import Merchant
from campaigns.chaos.wire import Answer, Wire

Json = dict[str, Any]

_PLANS, _SUBSCRIPTIONS, _SANDBOX = "/api/v1/plans", "/api/v1/subscriptions", "/api/sandbox"
_CUSTOMERS: Final = ("ana", "bea", "carla", "dora")
_APPROVED, _NO_FUNDS, _DECLINED_LATER = "4242424242424242", "4000000000009995", "4000000000000341"
_CARDS: Final = (_APPROVED,) * 8 + (_NO_FUNDS, _DECLINED_LATER)
_LIVE_MAX: Final = 12
"""The most live subscriptions of a walk: a move of the clock renews them all."""
_FISCAL: Final = {
    "taxId": "URE180429TM6",
    "legalName": "UNIVERSIDAD ROBOTICA ESPAÑOLA",
    "taxSystem": "601",
    "cfdiUse": "G03",
    "zipCode": "86991",
}
_TAXES: Final = (
    [{"type": "IVA", "rate": 0.16}],
    [{"type": "IVA", "rate": 0.08}],
    [{"type": "IVA", "rate": 0}],
    [{"type": "IEPS", "rate": 0.08}, {"type": "IVA", "rate": 0.16}],
    [],
)
_STEPS: Final = ("PT1H", "PT1H", "P1D", "P1D", "P3D", "P7D", "P7D", "P1M")
_SETTLING: Final = 6


class Walk:
    """A walk of one merchant. `wrong` has what an answer alone shows to be wrong, `counts` the answers by their status."""

    def __init__(self, port: int, merchant: Merchant, seed: int) -> None:
        self.merchant, self.seed = merchant, seed
        self.wrong: list[str] = []
        self.counts: Counter[int] = Counter()
        self._port, self._random = port, Random(seed)
        self._wires = Wire(timeout_s=60.0), Wire(timeout_s=60.0)
        self._orders: dict[str, Json] = {}
        self._cards: list[tuple[str, str]] = []
        self._plans: list[str] = []
        self._subscriptions: dict[str, Json] = {}
        self._names = 0

    @property
    def requests(self) -> int:
        return sum(self.counts.values())

    async def run(self, requests: int) -> None:
        """Sends so many requests, then lets what is under way come to its end."""
        await self._prepare()
        actions, weights = list(_ACTIONS), list(_ACTIONS.values())
        while self.requests < requests:
            await self._random.choices(actions, weights)[0](self)
        await self._settle()
        for wire in self._wires:
            await wire.close()

    async def _prepare(self) -> None:
        for customer in _CUSTOMERS:
            body: Json = {"externalId": customer, "email": f"{customer}@example.com"}
            await self._post("/api/customers", body | ({"fiscalData": _FISCAL} if customer != "dora" else {}))
        for interval, amount in (("WEEK", 11_600), ("MONTH", 23_201), ("MONTH", 58_000), ("HALF_MONTH", 9_999)):
            plan = {"name": f"{interval} {amount}", "amount": str(amount), "currency": "MXN", "interval": interval}
            retries = {"maxRetries": 2, "onRetriesExhausted": "CANCEL" if amount == 58_000 else "UNPAID"}
            made = await self._post(_PLANS, plan | retries)
            self._plans.append(made["id"])

    async def _settle(self) -> None:
        """Ends the provider's troubles, asks for what is not stamped, and moves the clock over the pauses."""
        await self._post(f"{_SANDBOX}/stamping", {"mode": "OK"})
        for _ in range(_SETTLING):
            await self._move("PT8H")
        place = f"{bodies.ORDERS}?limit=100"
        while place:
            page = await self._ask("GET", place)
            for order in page.get("data", ()):
                if order["invoiceType"] is not None:
                    await self._post(f"{bodies.ORDERS}/{order['id']}/stamp", {})
            cursor = page.get("pagination", {}).get("nextCursor")
            place = cursor and f"{bodies.ORDERS}?limit=100&cursor={quote(cursor)}"
        await self._move("PT8H")

    async def _create(self) -> None:
        """Orders in one payment: by card at once, with a capture by hand, by transfer; most are invoiced."""
        name, amount = self._name("o"), self._random.randint(1_000, 90_000)
        body = self._order(name, amount)
        kind = self._random.randrange(5)
        if kind == 0:
            body |= {"paymentMethod": {"type": "spei"}}
        else:
            body |= self._by_card() | ({"captureMethod": "MANUAL"} if kind == 1 else {})
        await self._remember(await self._twice_or_once(bodies.ORDERS, body))

    async def _create_split(self) -> None:
        name, amount = self._name("s"), self._random.randint(10_000, 200_000)
        body = self._order(name, amount) | {"pending": True, "allowPartials": True}
        await self._remember(await self._twice_or_once(bodies.ORDERS, body))

    async def _save_card(self) -> None:
        customer = self._random.choice(_CUSTOMERS)
        body = self._order(self._name("c"), 1_160) | self._by_card(self._random.choice(_CARDS), persist=True)
        body["customer"] = {"externalId": customer}
        made = await self._post(bodies.ORDERS, body)
        await self._remember(made)
        if method := (made.get("payment") or {}).get("paymentMethodId"):
            self._cards.append((customer, method))

    async def _pay_part(self) -> None:
        order = self._some(lambda each: each["allowPartials"])
        if order is None:
            return
        pending = int(order["amountPending"])
        part = self._random.choice([pending, self._random.randint(1, max(1, pending)), pending + 1])
        method = {"paymentMethod": {"type": "spei"}} if self._random.random() < 0.3 else self._by_card()
        body = {"amount": max(1, part), "externalId": self._name("p"), **method}
        await self._remember(await self._twice_or_once(self._path(order, "payments"), body))

    async def _charge(self) -> None:
        order = self._some(lambda each: each["status"] in {"PENDING", "FAILED", "PARTIALLY_PAID"})
        if order is not None:
            await self._remember(await self._twice_or_once(self._path(order, "charge"), self._by_card()))

    async def _deposit(self) -> None:
        order = self._some(lambda each: any(p.get("speiDetails") for p in each["payments"]))
        if order is None:
            return
        payment = self._random.choice([p for p in order["payments"] if p.get("speiDetails")])
        due = int(float(payment["amount"]))
        amount = max(1, self._random.choice([due, due, due, due - 100, due + 100]))
        body = {"clabe": payment["speiDetails"]["clabe"], "amount": amount, "messageId": self._name("d")}
        await self._post(f"{_SANDBOX}/deposits", body)
        await self._show(order)

    async def _capture(self) -> None:
        order = self._some(lambda each: each["status"] in {"AUTHORIZED", "PARTIALLY_AUTHORIZED"})
        if order is None:
            return
        part = {"amount": self._random.randint(1, int(order["amount"]))} if self._random.random() < 0.4 else {}
        await self._remember(await self._twice_or_once(self._path(order, "capture"), part))

    async def _refund(self) -> None:
        order = self._some(lambda each: float(each["amountPaid"]) > float(each["amountRefunded"]))
        if order is None:
            return
        held = int(float(order["amountPaid"]) - float(order["amountRefunded"]))
        amount = self._random.choice([held, self._random.randint(1, max(1, held)), held + 1])
        body = {"amount": max(1, amount), "reason": "devolución", "externalId": self._name("r")}
        await self._remember(await self._twice_or_once(self._path(order, "refund"), body))

    async def _cancel(self) -> None:
        order = self._some(lambda _: True)
        if order is not None:
            body = {"refundCaptured": True} if self._random.random() < 0.3 else {}
            await self._remember(await self._twice_or_once(self._path(order, "cancel"), body))

    async def _dispute(self) -> None:
        order = self._some(lambda each: float(each["amountPaid"]) > float(each["amountRefunded"]))
        payments = [p for p in order["payments"] if p["status"] == "CAPTURED"] if order is not None else []
        if order is None or not payments:
            return
        payment = self._random.choice(payments)["id"]
        for outcome in ("OPENED", self._random.choice(["WON", "LOST"])):
            await self._post(f"{_SANDBOX}/disputes", {"paymentId": payment, "outcome": outcome})
        await self._show(order)

    async def _invoices(self) -> None:
        """Stamps, downloads, and now and then cancels an order's invoice."""
        order = self._some(lambda each: each["invoiceType"] is not None)
        if order is None:
            return
        act = self._random.choices(["stamp", "cfdi-url", "cfdi-cancel"], [6, 3, 1])[0]
        if act == "cfdi-cancel":  # it waits for the provider, and is rightly 503 while that is down
            await self._post(f"{_SANDBOX}/stamping", {"mode": "OK"})
        await self._post(self._path(order, act), {"motive": "02"} if act == "cfdi-cancel" else {})
        await self._show(order)

    async def _provider(self) -> None:
        mode = self._random.choice(["OK", "REFUSE", "DOWN"])
        times = {} if mode == "OK" else {"times": self._random.randint(1, 3)}
        await self._post(f"{_SANDBOX}/stamping", {"mode": mode, **times})

    async def _subscribe(self) -> None:
        live = [each for each in self._subscriptions.values() if each["status"] != "CANCELED"]
        if not self._cards or len(live) >= _LIVE_MAX:
            await self._save_card()
            return
        customer, card = self._random.choice(self._cards)
        name = self._name("sub")
        body = {"customerId": customer, "planId": self._random.choice(self._plans), "paymentMethodId": card}
        made = await self._twice_or_once(_SUBSCRIPTIONS, body | {"externalId": name})
        self._remember_subscription(made)

    async def _change_subscription(self) -> None:
        """Another plan, another card, an end, a charge on request, or what comes next."""
        if not self._subscriptions:
            return
        subscription = self._random.choice(list(self._subscriptions.values()))
        path = f"{_SUBSCRIPTIONS}/{subscription['id']}"
        act = self._random.choices(
            ["plan", "card", "cancel", "resume", "retry", "preview", "invoices"], [6, 2, 1, 1, 2, 2, 2]
        )[0]
        match act:
            case "plan":
                proration = self._random.choice(["NONE", "NEXT_INVOICE", "INVOICE_NOW"])
                body = {"planId": self._random.choice(self._plans), "prorationBehavior": proration}
                self._remember_subscription(await self._ask("PUT", path, body))
            case "card":
                own = [card for customer, card in self._cards if customer == subscription["customerId"]]
                if own:
                    body = {"paymentMethodId": self._random.choice(own)}
                    self._remember_subscription(await self._ask("PUT", path, body))
            case "invoices":
                await self._ask("GET", f"{path}/invoices")
            case "preview":
                await self._post(f"{path}/preview", {})
            case "cancel":
                body = {"atPeriodEnd": self._random.random() < 0.5}
                self._remember_subscription(await self._twice_or_once(f"{path}/cancel", body))
            case "retry":
                body = {"all": self._random.random() < 0.5}
                self._remember_subscription(await self._twice_or_once(f"{path}/retry", body))
            case _:
                self._remember_subscription(await self._twice_or_once(f"{path}/{act}", {}))

    async def _read(self) -> None:
        month = f"{self._random.randint(2026, 2030)}-{self._random.randint(1, 12):02}"
        places = (
            f"{bodies.ORDERS}?limit=20",
            f"/api/v1/invoices/month-end?month={month}",
            f"{_SUBSCRIPTIONS}?limit=20",
        )
        await self._ask("GET", self._random.choice(places))
        order = self._some(lambda _: True)
        if order is not None:
            await self._show(order)

    async def _tick(self) -> None:
        await self._move(self._random.choice(_STEPS))
        for id_ in list(self._subscriptions)[-_LIVE_MAX:]:
            self._remember_subscription(await self._ask("GET", f"{_SUBSCRIPTIONS}/{id_}"))

    async def _move(self, duration: str) -> None:
        """Moves the clock all the way: one move does a limited amount of work."""
        moved = await self._post(f"{_SANDBOX}/clock", {"advanceBy": duration})
        while moved.get("more"):
            moved = await self._post(f"{_SANDBOX}/clock", {"advanceTo": moved["advanceTo"]})

    def _order(self, name: str, amount: int) -> Json:
        body: Json = {"externalId": name, "amount": amount, "currency": "MXN"}
        body["customer"] = {"externalId": self._random.choice(_CUSTOMERS)}
        if self._random.random() < 0.75:
            body["customerFiscalData"] = _FISCAL
            first = self._random.randint(1, amount - 1)
            body["lineItems"] = [
                {"description": "Café", "productKey": "50201706", "unitKey": "H87", "quantity": 1, "unitPrice": price,
                 "taxes": self._random.choice(_TAXES)}
                for price in (first, amount - first)
            ]  # fmt: skip
        return body

    def _by_card(self, number: str | None = None, *, persist: bool = False) -> Json:
        chosen = number or self._random.choice((_APPROVED,) * 9 + (_NO_FUNDS,))
        card = {"number": chosen, "expiryMonth": "12", "expiryYear": "2039", "cvc": "123"}
        method: Json = {"type": "card", "cardDetails": card}
        return {"billingAddress": {"country": "MX"}, "paymentMethod": method | ({"persist": True} if persist else {})}

    def _name(self, kind: str) -> str:
        self._names += 1
        return f"{kind}-{self.seed}-{self._names}"

    def _some(self, fits: Callable[[Json], bool]) -> Json | None:
        """Returns one of the latest orders that fit, as they were answered last, or None."""
        found = [order for order in list(self._orders.values())[-60:] if fits(order)]
        return self._random.choice(found) if found else None

    @staticmethod
    def _path(order: Mapping[str, Any], action: str) -> str:
        return f"{bodies.ORDERS}/{order['id']}/{action}"

    async def _show(self, order: Mapping[str, Any]) -> None:
        await self._remember(await self._ask("GET", f"{bodies.ORDERS}/{order['id']}"))

    async def _remember(self, answered: Json) -> None:
        """Keeps an order as it was answered; a decline has the order inside."""
        order = answered.get("paymentOrder", answered)
        if "payments" in order:
            self._orders[order["id"]] = order
            self.wrong += [f"order {order['externalId']}: {what}" for what in broken_sums(order)]

    def _remember_subscription(self, answered: Json) -> None:
        if "planId" in answered and "status" in answered:
            self._subscriptions[answered["id"]] = answered

    async def _post(self, path: str, body: Json) -> Json:
        return await self._ask("POST", path, body)

    async def _twice_or_once(self, path: str, body: Json) -> Json:
        """Sends a request, one in eight twice at once under one Idempotency-Key: two answers of 2xx are the same one."""
        key = self._name("key")
        if self._random.randrange(8):
            return _content(await self._send("POST", path, body, key))
        answers = await asyncio.gather(*[self._send("POST", path, body, key, wire) for wire in self._wires])
        done = [answer for answer in answers if answer.status < 300]
        if len({json.dumps(_content(answer).get("id")) for answer in done}) > 1:
            self.wrong.append(f"POST {path} answered one key with two objects")
        return _content(done[0] if done else answers[0])

    async def _ask(self, method: str, path: str, body: Json | None = None) -> Json:
        return _content(await self._send(method, path, body))

    async def _send(
        self, method: str, path: str, body: Json | None, key: str | None = None, wire: Wire | None = None
    ) -> Answer:
        wire = wire or self._wires[0]
        await wire.open(self._port)
        content = None if body is None else json.dumps(body).encode()
        answer = await wire.ask(method, path, self.merchant.api_key, content, key)
        self.counts[answer.status] += 1
        if answer.status >= 500:
            self.wrong.append(f"{method} {path}: {answer.status} {answer.body[:300]!r}")
        return answer


Action = Callable[[Walk], Awaitable[None]]

_ACTIONS: Final[Mapping[Action, int]] = {
    Walk._create: 12,
    Walk._create_split: 6,
    Walk._save_card: 3,
    Walk._pay_part: 12,
    Walk._charge: 5,
    Walk._deposit: 6,
    Walk._capture: 5,
    Walk._refund: 12,
    Walk._cancel: 3,
    Walk._dispute: 2,
    Walk._invoices: 8,
    Walk._provider: 1,
    Walk._subscribe: 4,
    Walk._change_subscription: 14,
    Walk._read: 5,
    Walk._tick: 2,
}


def _content(answer: Answer) -> Json:
    found = json.loads(answer.body) if answer.body else {}
    return found if isinstance(found, dict) else {}
