"""The context of a scenario: a merchant of its own, the order that it is about, and the moves that the log records.

Cause everything by a route. The log is only read, at the end; the recovery, which no route starts, runs after the
deadlines of the calls have passed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, NamedTuple
from uuid import UUID

import httpx
import msgspec
from tests.api.bodies import encoded, order
from tests.api.storefront import JSON, ORDERS, Merchant, Storefront
from tests.domain.announced import check_order
from tests.whole_log import whole_log

from ledger.background.recovery import Recovery, Windows
from ledger.domain.orders import events as e
from ledger.domain.orders.evolve.order import evolve
from ledger.domain.orders.state import Order
from ledger.domain.public_events.command import CommandStream
from ledger.journal.reader import RecordedEvent
from ledger.postgres.connection import Connection
from projections.orders.open_calls import OpenCalls

SANDBOX = "/api/sandbox"
AMOUNT = 10_000
REFUSALS = frozenset({400, 404, 409})

_FAR_FUTURE = datetime.max.replace(tzinfo=UTC)
_ALL_DEADLINES_PASSED = Windows(margin_s=-3600, late_s=-3600)
_A_DAY_PASSED = Windows(margin_s=-3600, late_s=-3600, repeat_s=-3600)
_OPERATION_OF_MESSAGE = {
    e.DepositReceived: "deposit",
    e.DisputeOpened: "dispute",
    e.DisputeWon: "dispute",
    e.DisputeLost: "dispute",
    e.SettlementListed: "settlement",
    e.SettlementMatched: "settlement",
    e.SettlementRefused: "settlement",
    e.PaymentRefunded: "confirmation",
    e.RefundRefused: "confirmation",
    e.RefundReversed: "reversal",
}


Edge = tuple[str | None, str]
"""The statuses before and after a move."""


class Move(NamedTuple):
    """A move from one status to the next. `operation` is its name in the tables of `docs.generation.moves`."""

    before: str | None
    after: str
    operation: str
    split: bool


class Commit(NamedTuple):
    """What one command did to an order: from which status to which, and the moves of each payment that made any.

    `version` is that of the stream after it. `announced` are the public events of the command: kind, resource and the
    status before.
    """

    version: int
    edge: Edge
    payments: Mapping[str, Sequence[Edge]]
    announced: Sequence[tuple[str, str, str | None]]


class OrderMoves(NamedTuple):
    """The moves of one order and its payments.

    `by_event` are the order's moves event by event, `by_commit` those that a reader can see, `by_request` those that
    the client of a request sees. `payments` has the moves of each payment, event by event. `commits` has all of them
    command by command.
    """

    order_id: str
    by_event: Sequence[Move]
    by_commit: Sequence[Move]
    by_request: Sequence[Move]
    payments: Sequence[Sequence[Move]]
    commits: Sequence[Commit]


class ScenarioContext:
    """One scenario's merchant, its current order, and its requests."""

    def __init__(self, store: Storefront, merchant: Merchant, open_calls: OpenCalls) -> None:
        self.store, self.merchant = store, merchant
        self.order_id = ""
        self._open_calls = open_calls
        self._operations: dict[str, str] = {}
        self._orders = 0

    @property
    def operations(self) -> frozenset[str]:
        """The operations that the scenario requested."""
        return frozenset(self._operations.values())

    # ---------------------------------------------------------------- requests

    async def post(self, operation: str, path: str, body: Any) -> httpx.Response:
        """Sends a request whose events count as `operation`'s."""
        answer = await self.merchant.client.post(path, content=encoded(body), headers=self.merchant.key | JSON)
        self._operations[answer.headers["x-request-id"]] = operation
        assert answer.status_code < 500 or answer.json()["code"] == "PROCESSOR_UNAVAILABLE", answer.text
        return answer

    async def post_accepted(self, operation: str, path: str, body: Any) -> httpx.Response:
        """Sends a request that must not be refused. A decline is accepted, and so is an unavailable processor."""
        answer = await self.post(operation, path, body)
        assert answer.status_code not in REFUSALS, f"{path}: {answer.text}"
        return answer

    async def post_to_order(self, operation: str, action: str, body: Any) -> httpx.Response:
        return await self.post_accepted(operation, f"{ORDERS}/{self.order_id}/{action}", body)

    async def patch_order(self, body: Any) -> httpx.Response:
        """Changes the order. A change moves no status, and so it is no operation of the tables."""
        path = f"{ORDERS}/{self.order_id}"
        return await self.merchant.client.patch(path, content=encoded(body), headers=self.merchant.key | JSON)

    async def create(self, **changes: Any) -> httpx.Response:
        """Creates an order, which the scenario is about from now on."""
        self._orders += 1
        body = order(**{"externalId": f"order-{self._orders}", "amount": AMOUNT, **changes})
        answer = await self.post_accepted("create", ORDERS, body)
        self.order_id = f"order-{self._orders}" if answer.status_code == 503 else answer.json()["id"]
        return answer

    async def read_order(self) -> dict[str, Any]:
        """Returns the order as it is served now."""
        return dict((await self.merchant.get(f"{ORDERS}/{self.order_id}")).json())

    async def read_payment(self, n: int = -1) -> dict[str, Any]:
        return dict((await self.read_order())["payments"][n])

    async def run_recovery(self, *, gives_up: bool = False) -> None:
        """Does what the worker does after the deadlines of this merchant's calls have passed.

        With `gives_up` a day has passed, too: what never arrived is not sent again.
        """
        assert await self._due(_FAR_FUTURE), "no call is open"
        windows = _A_DAY_PASSED if gives_up else _ALL_DEADLINES_PASSED
        await Recovery(self.store.ledger, self._due, windows).sweep()

    async def _due(
        self, before: datetime, limit: int = 1000, skipped: Collection[UUID] = ()
    ) -> Sequence[tuple[UUID, UUID]]:
        found = await self._open_calls.due(before, limit, skipped)
        return [each for each in found if each[0] == self.merchant.merchant_id]

    # ---------------------------------------------------------------- moves

    async def moves(self, connection: Connection) -> list[OrderMoves]:
        """Returns the moves of every order of the merchant, oldest order first, from its log."""
        streams: dict[UUID, list[RecordedEvent]] = {}
        for recorded in await whole_log(self.store.ledger.journal.reader, connection, self.merchant.merchant_id):
            if recorded.topic in e.TOPICS:
                streams.setdefault(recorded.stream_id, []).append(recorded)
        return [self._order_moves(stream) for stream in streams.values()]

    def _order_moves(self, stream: Sequence[RecordedEvent]) -> OrderMoves:
        states: list[Order | None] = [None]
        for recorded in stream:
            states.append(evolve(states[-1], recorded.event))
        first = {recorded.command_id: recorded for recorded in reversed(stream)}
        operations = [self._operation(first[recorded.command_id]) for recorded in stream]
        commits, requests = _ends(stream, lambda each: each.command_id), _ends(stream, self._request_key)
        return OrderMoves(
            order_id=str(stream[0].stream_id),
            by_event=list(_order_moves(states, operations)),
            by_commit=list(_order_moves([states[n] for n in commits], [operations[n - 1] for n in commits[1:]])),
            by_request=list(_order_moves([states[n] for n in requests], [operations[n - 1] for n in requests[1:]])),
            payments=list(_payment_moves(states, operations)),
            commits=[_commit(stream, states, begin, end) for begin, end in pairwise(commits)],
        )

    def _operation(self, first: RecordedEvent) -> str:
        """Returns the operation of a commit, by its first event."""
        match _request(first), first.event:
            case "due", e.PaymentExpired():
                return "expiry"
            case "message", event:
                return _OPERATION_OF_MESSAGE[type(event)]
            case request, _:
                return self._operations.get(request, request)

    def _request_key(self, recorded: RecordedEvent) -> object:
        """Returns what the commits of one request have in common."""
        request = _request(recorded)
        return request if request in self._operations else recorded.command_id


def _request(recorded: RecordedEvent) -> str:
    return str(msgspec.json.decode(recorded.context).get("request"))


def _commit(stream: Sequence[RecordedEvent], states: Sequence[Order | None], begin: int, end: int) -> Commit:
    """Returns what a command did, and checks that each change that it made is announced once."""
    before, after = states[begin], states[end]
    assert after is not None, "a stream begins with its creation"
    found = check_order(CommandStream(stream[0].stream_id, before, after, stream[begin:end]))
    moves = _payment_moves(states[begin : end + 1], ["command"] * (end - begin))
    return Commit(
        version=stream[end - 1].version,
        edge=(before and str(before.status), str(after.status)),
        payments={
            str(payment.payment_id): [(move.before, move.after) for move in made]
            for payment, made in zip(after.payments, moves, strict=True)
            if made
        },
        announced=[(each.kind.name, str(each.resource_id), each.previous_status) for each in found],
    )


def _ends(stream: Sequence[RecordedEvent], key: Callable[[RecordedEvent], Any]) -> list[int]:
    """Returns the numbers of events after which a commit or a request ends, from 0 to all of them."""
    return [0, *(n for n, (one, other) in enumerate(pairwise(stream), 1) if key(one) != key(other)), len(stream)]


def _order_moves(states: Sequence[Order | None], operations: Sequence[str]) -> Iterator[Move]:
    """Yields each change of the status, and each change of the money where the status stays."""
    for (before, after), operation in zip(pairwise(states), operations, strict=True):
        assert after is not None, "a stream begins with its creation"
        if before is None or before.status is not after.status or _money(before) != _money(after):
            yield Move(before and str(before.status), str(after.status), operation, after.terms.allow_partials)


def _money(order: Order) -> tuple[Any, ...]:
    return order.amount_paid, order.amount_refunded


def _payment_moves(states: Sequence[Order | None], operations: Sequence[str]) -> Iterator[list[Move]]:
    """Yields the moves of each payment: changes of its status, and of what it waits for."""
    last = states[-1]
    assert last is not None, "there is an order"
    for n in range(len(last.payments)):
        moves = []
        for (before, after), operation in zip(pairwise(states), operations, strict=True):
            old, new = (order.payments[n] if order and len(order.payments) > n else None for order in (before, after))
            if new is not None and (old is None or (old.status, old.next_action) != (new.status, new.next_action)):
                moves.append(Move(old and str(old.status), str(new.status), operation, last.terms.allow_partials))
        yield moves
