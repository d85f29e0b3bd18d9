"""Many merchants' programs at once: each sends one request after another, keeps a record, and continues whatever happens.

A client acts by its own record. A request without an answer is sent again, as the interface allows merchants to do.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from random import Random
from urllib.parse import quote
from uuid import UUID
from zlib import crc32

from msgspec import Struct

from campaigns.chaos import bodies, wallet
from campaigns.chaos.wallet import Wallet
from campaigns.chaos.wire import Answer, Lost, NotSent, Wire
from campaigns.chaos.witness import Asked, Outcome, RecordedAnswer, Witness

_PAUSE_S = 0.05
_WITH_WALLETS = 4
"""Every so many clients one acts on saved cards and customers."""
_CUSTOMERS = ("ana", "bea", "carla", "dora", "eva")

# What a client does next, by weight. Few names and many clients: the same order is requested at the same time.
MIX: Mapping[tuple[str, str | None], int] = {
    ("create", None): 22,
    ("create", "approved"): 20,
    ("create", "declined"): 6,
    ("create", "half"): 2,
    ("create", "silent"): 2,
    ("again", "approved"): 12,
    ("again", None): 5,
    ("other amount", None): 2,
    ("charge", "approved"): 14,
    ("charge", "declined"): 3,
    ("read", None): 9,
    ("list", None): 3,
}
REFUNDS: Mapping[tuple[str, str | None], int] = {("refund", None): 12}
"""What a campaign may add to `MIX`: parts of what an order holds are given back."""


class Merchant(Struct, frozen=True, kw_only=True):
    """A merchant with its key."""

    merchant_id: UUID
    api_key: str


class Ended(Struct, frozen=True):
    """When a request began and ended, by the monotonic clock, its status (None if no answer came), and its client."""

    began: float
    ended: float
    do: str
    status: int | None
    merchant_id: UUID
    client: int


class Load:
    """Clients that send requests to `port()` from `start` to `stop`, and record them in the witness.

    `mix` has the weights of what those without saved cards do. A client waits for an answer for `patience_s` seconds, and
    for `pause_s` before its next request.
    """

    def __init__(
        self,
        witness: Witness,
        merchants: Sequence[Merchant],
        port: Callable[[], int],
        *,
        clients: int,
        seed: int,
        mix: Mapping[tuple[str, str | None], int] = MIX,
        patience_s: float = 10.0,
        pause_s: float = 0.0,
    ) -> None:
        self.mix, self.patience_s, self.pause_s = mix, patience_s, pause_s
        self._witness = witness
        self._port = port
        self.seed = seed
        self._clients = [_Client(self, merchants[n % len(merchants)], n, Random(f"{seed}/{n}")) for n in range(clients)]
        self._names: dict[UUID, _Names] = {merchant.merchant_id: _Names(seed) for merchant in merchants}
        self._wallets = {merchant.merchant_id: Wallet(seed) for merchant in merchants}
        self._stop = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self.in_flight = 0
        self.refused = 0
        self.ended: list[Ended] = []

    def start(self) -> None:
        self._tasks = [asyncio.create_task(client.run(self._stop)) for client in self._clients]

    async def stop(self) -> None:
        """Lets every client finish what it has begun. Raises the error of a client that failed: none should."""
        self._stop.set()
        await asyncio.gather(*self._tasks)

    async def first_write_after(self, moment: float, patience_s: float) -> float:
        """Returns the seconds from `moment` to the first acknowledged write sent after it. Raises TimeoutError."""
        seen = 0
        async with asyncio.timeout(patience_s):
            while True:
                for request in self.ended[seen:]:
                    if request.began > moment and request.do in {"create", "charge"} and request.status in {200, 201}:
                        return request.ended - moment
                seen = len(self.ended)
                await asyncio.sleep(0.005)

    async def send(self, wire: Wire, asked: Asked, api_key: str, client: int) -> str | None:
        """Sends one request and records it; returns how it ended, or None if no connection could be opened."""
        port = self._port()
        try:
            await wire.open(port)
        except NotSent:
            self.refused += 1
            return None
        n = await self._witness.invoke(asked)
        began = time.monotonic()
        self.in_flight += 1
        try:
            await wire.open(port)  # again: while the witness wrote to its disk, the service may have closed it
            answer = await wire.ask(*_request(asked, api_key), key=asked.key)
        except NotSent:
            await self._witness.ended(n, "fail", why="not sent")
            self.refused += 1
            return None
        except Lost as lost:
            await self._witness.ended(n, "info", why=str(lost))
            self.ended.append(Ended(began, time.monotonic(), asked.do, None, asked.merchant_id, client))
            return "info"
        finally:
            self.in_flight -= 1
        outcome, recorded = _outcome(answer), _recorded(asked, answer)
        await self._witness.ended(n, outcome, recorded)
        if outcome == "ok":
            self._wallets[asked.merchant_id].learn(asked, recorded)
        self.ended.append(Ended(began, time.monotonic(), asked.do, answer.status, asked.merchant_id, client))
        return outcome

    def wallet(self, merchant: Merchant) -> Wallet:
        return self._wallets[merchant.merchant_id]

    def names(self, merchant: Merchant) -> _Names:
        return self._names[merchant.merchant_id]


class _Names:
    """The external ids of a merchant's orders, which its clients share."""

    def __init__(self, seed: int) -> None:
        self._prefix = f"{seed}/"
        self._made = 0
        self._recent: deque[str] = deque(maxlen=24)
        self.unknown: deque[Asked] = deque()

    def new(self) -> str:
        self._made += 1
        name = f"{self._prefix}{self._made}"
        self._recent.append(name)
        return name

    def recent(self, random: Random) -> str:
        return random.choice(self._recent) if self._recent else self.new()


class _Client:
    def __init__(self, load: Load, merchant: Merchant, number: int, random: Random) -> None:
        self._load = load
        self._number = number
        self._requests = count(1)
        self._merchant = merchant
        self._random = random

    async def run(self, stop: asyncio.Event) -> None:
        wire = Wire(self._load.patience_s)
        names = self._load.names(self._merchant)
        while not stop.is_set():
            asked = self._next(names)
            outcome = await self._load.send(wire, asked, self._merchant.api_key, self._number)
            if outcome == "info":
                names.unknown.append(asked)
            if outcome in {None, "info"}:
                await asyncio.sleep(_PAUSE_S)
            elif self._load.pause_s:
                await asyncio.sleep(self._load.pause_s)
        await wire.close()

    def _next(self, names: _Names) -> Asked:
        merchant_id = self._merchant.merchant_id
        if names.unknown and self._random.random() < 0.5:
            return names.unknown.popleft()  # as a merchant does without an answer
        if self._number % _WITH_WALLETS == 0:
            return self._load.wallet(self._merchant).next(merchant_id, self._random, self._own_names()[1])
        ((do, card),) = self._random.choices(tuple(self._load.mix), tuple(self._load.mix.values()))
        if do == "list":
            return Asked(do="list", merchant_id=merchant_id)
        name = names.new() if do == "create" else names.recent(self._random)
        amount = amount_of(name) + (do == "other amount")
        match do:
            case "read":
                return Asked(do="read", merchant_id=merchant_id, external_id=name)
            case "charge":
                payment, key = self._own_names()
                return Asked(
                    do="charge", merchant_id=merchant_id, external_id=name, card=card, payment=payment, key=key
                )
            case "refund":
                refund, key = self._own_names()
                part = 1 + self._random.randrange(amount_of(name) // 2)
                return Asked(
                    do="refund", merchant_id=merchant_id, external_id=name, refunded=part, refund=refund, key=key
                )
            case _:
                _, key = self._own_names()
                return Asked(do="create", merchant_id=merchant_id, external_id=name, amount=amount, card=card, key=key)

    def _own_names(self) -> tuple[str | None, str | None]:
        """Returns the merchant's id of a charge and an idempotency key: one, the other, both or neither."""
        name = f"{self._load.seed}/{self._number}/{next(self._requests)}"
        return self._random.choice((name, None)), self._random.choice((name, None, None))


def amount_of(external_id: str) -> int:
    """Returns the amount of an order, which follows from its name: all requests for the same order mean the same."""
    return 1000 + 2 * (crc32(external_id.encode()) % 10_000)


def _request(asked: Asked, api_key: str) -> tuple[str, str, str, bytes | None]:
    name = quote(asked.external_id or "", safe="")
    if asked.customer is not None:
        method, path, body = wallet.request(asked)
        return method, path, api_key, body
    match asked.do:
        case "create":
            assert asked.external_id is not None, "an order has a name"
            assert asked.amount is not None, "an order has an amount"
            customer = _CUSTOMERS[crc32(asked.external_id.encode()) % len(_CUSTOMERS)]
            body = bodies.create(asked.external_id, asked.amount, asked.card, customer)
            return "POST", bodies.ORDERS, api_key, body
        case "charge":
            return (
                "POST",
                f"{bodies.ORDERS}/{name}/charge",
                api_key,
                bodies.charge(asked.card or "approved", asked.payment),
            )
        case "refund":
            assert asked.refunded is not None, "a refund has an amount"
            return "POST", f"{bodies.ORDERS}/{name}/refund", api_key, bodies.refund(asked.refunded, asked.refund)
        case "read":
            return "GET", f"{bodies.ORDERS}/{name}", api_key, None
        case "list":
            return "GET", f"{bodies.ORDERS}?limit=20", api_key, None
        case _:
            raise AssertionError(f"no client does {asked.do}")


def _outcome(answer: Answer) -> Outcome:
    """Returns the outcome of an answer.

    A decline is an acknowledgement: the order and its failed payment exist (contract N24). For a key in flight it is unknown.
    """
    if answer.status >= 500 or b'"REQUEST_IN_PROGRESS"' in answer.body:
        return "info"
    if answer.status >= 400 and not (answer.status == 422 and b'"paymentOrder"' in answer.body):
        return "fail"
    return "ok"


def _recorded(asked: Asked, answer: Answer) -> RecordedAnswer:
    body = json.loads(answer.body) if answer.body else {}
    if answer.status >= 400 and "paymentOrder" not in body:
        return RecordedAnswer(status=answer.status, code=body.get("code"))
    if asked.do == "list":
        return RecordedAnswer(status=answer.status, listed=tuple(UUID(order["id"]) for order in body["data"]))
    if asked.do in wallet.DOES:  # the status is all that the checks compare
        return RecordedAnswer(status=answer.status)
    order = body.get("paymentOrder", body)
    payment, refund = order.get("payment") or {}, order.get("refund") or {}
    return RecordedAnswer(
        status=answer.status,
        code=body.get("code"),
        replayed=answer.headers.get("idempotent-replayed") == "true",
        order_id=UUID(order["id"]),
        order_status=order["status"],
        amount_paid=order["amountPaid"],
        payment_ids=tuple(UUID(payment["id"]) for payment in order["payments"]),
        payment_id=UUID(payment["id"]) if payment else None,
        payment_status=payment.get("status"),
        refund_id=UUID(refund["id"]) if refund else None,
        method_id=UUID(order["paymentMethod"]["id"]) if asked.number and order["paymentMethod"] else None,
    )
