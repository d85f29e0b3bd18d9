"""One merchant's random walk: its requests, and what it knows of its orders, cards and subscriptions by their answers.

Take every choice from the walk's own `random`, so that a seed repeats the same requests. Answers of the service decide only
which objects there are.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from random import Random
from typing import Any, Final

from campaigns.chaos import bodies
from campaigns.chaos.clients import Merchant
from campaigns.chaos.wire import Answer, Wire
from ledger.audit.invariants.answers import broken_amounts

Json = dict[str, Any]
Fits = Callable[[Json], bool]

CUSTOMERS: Final = ("ana", "bea", "carla", "dora")
"""The customers of a walk at first. All of them but the last one have fiscal data."""
APPROVED, NO_FUNDS, DECLINED_LATER = "4242424242424242", "4000000000009995", "4000000000000341"
FISCAL: Final = {
    "taxId": "URE180429TM6",
    "legalName": "UNIVERSIDAD ROBOTICA ESPAÑOLA",
    "taxSystem": "601",
    "cfdiUse": "G03",
    "zipCode": "86991",
}
SANDBOX: Final = "/api/sandbox"

_TAXES: Final[tuple[list[dict[str, Any]], ...]] = (
    [{"type": "IVA", "rate": 0.16}],
    [{"type": "IVA", "rate": 0.08}],
    [{"type": "IVA", "rate": 0}],
    [{"type": "IEPS", "rate": 0.08}, {"type": "IVA", "rate": 0.16}],
    [],
)
_LATEST: Final = 60
"""Of how many of its latest orders a walk chooses one."""
_TIMEOUT_S: Final = 120.0
_ID: Final = re.compile(
    r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|(?<=/customers/)[a-z0-9-]+|(?<=/self-invoice/)[^/]+"
)


class Walk:
    """A walk of one merchant. `wrong` has what an answer alone shows to be wrong, `statuses` the answers by their status,
    and `reached` how often an operation was carried out: answered by 2xx.
    """

    def __init__(self, port: int, merchant: Merchant, seed: int) -> None:
        self.merchant, self.seed = merchant, seed
        self.random = Random(seed)
        self.wrong: list[str] = []
        self.statuses: Counter[int] = Counter()
        self.reached: Counter[str] = Counter()
        self.now = datetime.now(UTC)
        self.orders: dict[str, Json] = {}
        self.customers = list(CUSTOMERS)
        self.cards: list[tuple[str, str]] = []
        self.plans: list[str] = []
        self.subscriptions: dict[str, Json] = {}
        self.months: dict[str, Json] = {}
        self.provider_is_down = False
        self._port = port
        self._wires = Wire(timeout_s=_TIMEOUT_S), Wire(timeout_s=_TIMEOUT_S)
        self._names = 0

    @property
    def requests(self) -> int:
        return self.statuses.total()

    async def run(self, requests: int, actions: Mapping[Callable[[Walk], Awaitable[None]], int]) -> None:
        """Does one of `actions` after another, chosen by their weights, until so many requests are sent."""
        choices, weights = list(actions), list(actions.values())
        while self.requests < requests:
            await self.random.choices(choices, weights)[0](self)

    async def close(self) -> None:
        """Closes the connections."""
        for wire in self._wires:
            await wire.close()

    def chance(self, of: float) -> bool:
        """Returns True as often as the probability has it."""
        return self.random.random() < of

    def name(self, kind: str) -> str:
        """Returns a name that this walk has not used yet."""
        self._names += 1
        return f"{kind}-{self.seed}-{self._names}"

    def some(self, fits: Fits) -> Json | None:
        """Returns one of the latest orders that fit, as they were answered last, or None."""
        found = [order for order in list(self.orders.values())[-_LATEST:] if fits(order)]
        return self.random.choice(found) if found else None

    def new_order(self, name: str, amount: int) -> Json:
        """Returns the body of an order; most have fiscal data, and some of those are in dollars."""
        body: Json = {"externalId": name, "amount": amount, "currency": "MXN"}
        body["customer"] = {"externalId": self.random.choice(self.customers)}
        if self.chance(0.75):
            body |= {"customerFiscalData": FISCAL, "lineItems": self.lines(amount)}
            if self.chance(0.07):
                body |= {"currency": "USD", "exchangeRate": 17.25}
        return body

    def lines(self, amount: int) -> list[Json]:
        """Returns two lines that add up to an amount, each with taxes of its own."""
        first = self.random.randint(1, amount - 1)
        return [
            {"description": "Café", "productKey": "50201706", "unitKey": "H87", "quantity": 1, "unitPrice": price,
             "taxes": self.random.choice(_TAXES)}
            for price in (first, amount - first)
        ]  # fmt: skip

    def by_card(self, number: str | None = None, *, persist: bool = False) -> Json:
        """Returns a payment by card, one in ten by a card without funds."""
        chosen = number or self.random.choice((APPROVED,) * 9 + (NO_FUNDS,))
        card = {"number": chosen, "expiryMonth": "12", "expiryYear": "2039", "cvc": "123"}
        method: Json = {"type": "card", "cardDetails": card}
        return {"billingAddress": {"country": "MX"}, "paymentMethod": method | ({"persist": True} if persist else {})}

    async def show(self, order: Mapping[str, Any]) -> Json:
        """Reads an order, and returns it."""
        shown = await self.ask("GET", path_of(order))
        self.remember(shown)
        return shown

    def remember(self, answered: Json) -> None:
        """Keeps an order as it was answered; a decline has the order inside."""
        order = answered.get("paymentOrder") or answered
        if "payments" in order:
            self.orders[order["id"]] = order
            self.wrong += [f"order {order['externalId']}: {what}" for what in broken_amounts(order)]

    def remember_subscription(self, answered: Json) -> None:
        """Keeps a subscription as it was answered."""
        if "planId" in answered and "status" in answered:
            self.subscriptions[answered["id"]] = answered

    async def move(self, duration: str) -> None:
        """Moves the clock all the way: one move does a limited amount of work. One that is refused leaves it where it is."""
        moved = await self.post(f"{SANDBOX}/clock", {"advanceBy": duration})
        while moved.get("more"):
            moved = await self.post(f"{SANDBOX}/clock", {"advanceTo": moved["advanceTo"]})
        if "now" in moved:
            self.now = datetime.fromisoformat(moved["now"])

    async def post(self, path: str, body: Json) -> Json:
        """Sends a POST and returns the answer's object."""
        return await self.ask("POST", path, body)

    async def twice_or_once(self, path: str, body: Json, method: str = "POST") -> Json:
        """Sends a request, one in eight twice at once under one Idempotency-Key: two answers of 2xx are the same one."""
        key = self.name("key")
        if self.random.randrange(8):
            return content_of(await self.send(method, path, body, key))
        answers = await asyncio.gather(*[self.send(method, path, body, key, wire) for wire in self._wires])
        done = [answer for answer in answers if answer.status < 300]
        if len({json.dumps(content_of(answer).get("id")) for answer in done}) > 1:
            self.wrong.append(f"{method} {path} answered one key with two objects")
        return content_of(done[0] if done else answers[0])

    async def ask(self, method: str, path: str, body: Json | None = None) -> Json:
        """Sends a request and returns the answer's object."""
        return content_of(await self.send(method, path, body))

    async def send(
        self, method: str, path: str, body: Json | str | None = None, key: str | None = None, wire: Wire | None = None
    ) -> Answer:
        """Sends a request and counts its answer. A body in text is a form."""
        wire = wire or self._wires[0]
        await wire.open(self.port())
        kind = "application/x-www-form-urlencoded" if isinstance(body, str) else "application/json"
        content = body.encode() if isinstance(body, str) else None if body is None else json.dumps(body).encode()
        answer = await wire.ask(method, path, self.merchant.api_key, content, key, kind)
        self.statuses[answer.status] += 1
        if answer.status < 300:
            self.reached[operation(method, path)] += 1
        if answer.status >= 500 and not self._is_excused(answer):
            self.wrong.append(f"{method} {path}: {answer.status} {answer.body[:300]!r}")
        return answer

    def port(self) -> int:
        """Returns the port of the service."""
        return self._port

    def _is_excused(self, answer: Answer) -> bool:
        """Returns whether an answer is the fault that the walk has asked of the stamping provider."""
        return self.provider_is_down and content_of(answer).get("code") == "PROCESSOR_UNAVAILABLE"


def path_of(order: Mapping[str, Any], action: str = "") -> str:
    """Returns the path of an order, or of an action on it."""
    return f"{bodies.ORDERS}/{order['id']}" + (f"/{action}" if action else "")


def operation(method: str, path: str) -> str:
    """Returns the operation of a request: its method and its path, with {id} for the ids in it."""
    return f"{method} {_ID.sub('{id}', path.partition('?')[0])}"


def content_of(answer: Answer) -> Json:
    """Returns the object of an answer, an empty one if it is no JSON."""
    is_json = answer.headers.get("content-type", "").startswith(("application/json", "application/problem+json"))
    found = json.loads(answer.body) if answer.body and is_json else {}
    return found if isinstance(found, dict) else {}
