"""A scene: one merchant of its own, the order that a story is about, and what its log then says the order went through.

The rule a stranger would break: everything that happens comes in by a route. The log is only read, and only at the end;
the recovery, which no route starts, is let run once the calls' deadlines have passed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, NamedTuple
from uuid import UUID

import httpx
import msgspec
from tests.api.bodies import encoded, order
from tests.api.storefront import JSON, ORDERS, Merchant, Storefront

from ledger.background.recovery import Recovery, Windows
from ledger.domain.orders import events as e
from ledger.domain.orders.evolve.order import evolve
from ledger.domain.orders.state import Order
from ledger.journal.reader import RecordedEvent
from ledger.postgres.connection import Connection
from projections.open_calls import OpenCalls

SANDBOX = "/api/sandbox"
AMOUNT = 10_000
REFUSALS = frozenset({400, 404, 409})

_FOREVER = datetime.max.replace(tzinfo=UTC)
_AFTERWARDS = Windows(margin_s=-3600, late_s=-3600)
_BY_MESSAGE = {
    e.DepositReceived: "deposit",
    e.DisputeOpened: "dispute",
    e.DisputeWon: "dispute",
    e.DisputeLost: "dispute",
    e.SettlementListed: "settlement",
    e.SettlementMatched: "settlement",
    e.SettlementRefused: "settlement",
    e.PaymentRefunded: "confirmation",
    e.RefundRefused: "confirmation",
}


class Move(NamedTuple):
    """From one status to the next. `taker` is what the reference's table calls the operation, `split` the order's kind."""

    before: str | None
    after: str
    taker: str
    split: bool


class Went(NamedTuple):
    """The ways of one order and its payments: event by event, and of the order also commit by commit, as readers see it, and
    request by request, as whoever asked for it sees it.
    """

    order: Sequence[Move]
    seen: Sequence[Move]
    asked: Sequence[Move]
    payments: Sequence[Sequence[Move]]


class Scene:
    """A merchant's program, and the world around it, in one story."""

    def __init__(self, store: Storefront, merchant: Merchant, intents: OpenCalls) -> None:
        self.store, self.merchant = store, merchant
        self.order_id = ""
        self._intents = intents
        self._asked: dict[str, str] = {}
        self._named = 0

    @property
    def asked(self) -> frozenset[str]:
        """Whose operations were asked for."""
        return frozenset(self._asked.values())

    # ---------------------------------------------------------------- what is asked

    async def ask(self, taker: str, path: str, body: Any) -> httpx.Response:
        """A request whose events are `taker`'s."""
        answer = await self.merchant.client.post(path, content=encoded(body), headers=self.merchant.key | JSON)
        self._asked[answer.headers["x-request-id"]] = taker
        assert answer.status_code < 500 or answer.json()["code"] == "PROCESSOR_UNAVAILABLE", answer.text
        return answer

    async def do(self, taker: str, path: str, body: Any) -> httpx.Response:
        """A request that something comes of: a decline does, and so does one whose processor is down."""
        answer = await self.ask(taker, path, body)
        assert answer.status_code not in REFUSALS, f"{path}: {answer.text}"
        return answer

    async def on_order(self, taker: str, action: str, body: Any) -> httpx.Response:
        return await self.do(taker, f"{ORDERS}/{self.order_id}/{action}", body)

    async def create(self, **changes: Any) -> httpx.Response:
        """Another order, which the story is about from now on."""
        self._named += 1
        body = order(**{"externalId": f"order-{self._named}", "amount": AMOUNT, **changes})
        answer = await self.do("create", ORDERS, body)
        self.order_id = f"order-{self._named}" if answer.status_code == 503 else answer.json()["id"]
        return answer

    async def shown(self) -> dict[str, Any]:
        """The order as it stands."""
        return dict((await self.merchant.get(f"{ORDERS}/{self.order_id}")).json())

    async def payment(self, n: int = -1) -> dict[str, Any]:
        return dict((await self.shown())["payments"][n])

    async def recover(self) -> None:
        """What the worker does when the deadlines of this merchant's calls have passed."""
        assert await self._due(_FOREVER), "nothing is open"
        await Recovery(self.store.ledger, self._due, _AFTERWARDS).sweep()

    async def _due(self, before: datetime, limit: int = 1000) -> Sequence[tuple[UUID, UUID]]:
        return [each for each in await self._intents.due(before, limit) if each[0] == self.merchant.merchant_id]

    # ---------------------------------------------------------------- what became of it

    async def went(self, connection: Connection) -> list[Went]:
        """The ways of every order of the merchant, oldest first."""
        streams: dict[UUID, list[RecordedEvent]] = {}
        for recorded in await self.store.ledger.journal.reader.feed(connection, self.merchant.merchant_id, 0, 100_000):
            if recorded.topic in e.TOPICS:
                streams.setdefault(recorded.stream_id, []).append(recorded)
        return [self._way(stream) for stream in streams.values()]

    def _way(self, stream: Sequence[RecordedEvent]) -> Went:
        states: list[Order | None] = [None]
        for recorded in stream:
            states.append(evolve(states[-1], recorded.event))
        first = {recorded.command_id: recorded for recorded in reversed(stream)}
        takers = [self._taker(first[recorded.command_id]) for recorded in stream]
        seen, asked = _ends(stream, lambda each: each.command_id), _ends(stream, self._of_one_request)
        return Went(
            order=list(_order_moves(states, takers)),
            seen=list(_order_moves([states[n] for n in seen], [takers[n - 1] for n in seen[1:]])),
            asked=list(_order_moves([states[n] for n in asked], [takers[n - 1] for n in asked[1:]])),
            payments=list(_payment_moves(states, takers)),
        )

    def _taker(self, first: RecordedEvent) -> str:
        """Whose commit this is, by its first event."""
        match _request(first), first.event:
            case "due", e.PaymentExpired():
                return "expiry"
            case "message", event:
                return _BY_MESSAGE[type(event)]
            case request, _:
                return self._asked.get(request, request)

    def _of_one_request(self, recorded: RecordedEvent) -> object:
        request = _request(recorded)
        return request if request in self._asked else recorded.command_id


def _request(recorded: RecordedEvent) -> str:
    return str(msgspec.json.decode(recorded.context).get("request"))


def _ends(stream: Sequence[RecordedEvent], which: Callable[[RecordedEvent], Any]) -> list[int]:
    """Behind how many events a commit or a request ends, from none to all of them."""
    return [0, *(n for n, (one, other) in enumerate(pairwise(stream), 1) if which(one) != which(other)), len(stream)]


def _order_moves(states: Sequence[Order | None], takers: Sequence[str]) -> Iterator[Move]:
    """Each change of the status, and each change of the money where the status stays."""
    for (before, after), taker in zip(pairwise(states), takers, strict=True):
        assert after is not None, "a stream begins with its creation"
        if before is None or before.status is not after.status or _money(before) != _money(after):
            yield Move(before and str(before.status), str(after.status), taker, after.terms.allow_partials)


def _money(order: Order) -> tuple[Any, ...]:
    return order.amount_paid, order.amount_refunded


def _payment_moves(states: Sequence[Order | None], takers: Sequence[str]) -> Iterator[list[Move]]:
    last = states[-1]
    assert last is not None, "there is an order"
    for n in range(len(last.payments)):
        way = []
        for (before, after), taker in zip(pairwise(states), takers, strict=True):
            old, new = (order.payments[n] if order and len(order.payments) > n else None for order in (before, after))
            if new is not None and (old is None or (old.status, old.next_action) != (new.status, new.next_action)):
                way.append(Move(old and str(old.status), str(new.status), taker, last.terms.allow_partials))
        yield way
