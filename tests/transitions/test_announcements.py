"""Each move of an order, of its payments and of a subscription arrives once at the merchant's endpoint, in order, and at
no other's. The tables of `heard_moves` name what a program hears of each.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any
from uuid import UUID

import pytest
from tests.api.storefront import Merchant, Storefront
from tests.background.conftest import rows
from tests.background.deliveries import Receiver, Worker, an_endpoint, receiving, until, working
from tests.transitions.context import Commit, Edge
from tests.transitions.heard_moves import (
    PAYMENT_MOVES,
    heard_of_order,
    heard_of_subscription,
    readings,
)
from tests.transitions.runner import run_all
from tests.transitions.subscription_scenarios import SUBSCRIPTION_STORIES
from tests.transitions.test_transitions import SCENARIOS
from tests.whole_log import whole_log

from ledger.domain.orders.statuses import ORDER_EDGES, PAYMENT_EDGES
from ledger.domain.public_events.kinds import KIND_OF
from ledger.domain.subscriptions import events as subscription_events
from ledger.domain.subscriptions.evolve import evolve
from ledger.domain.subscriptions.state import SUBSCRIPTION_EDGES, Subscription
from ledger.operations.context.inputs import Actor
from ledger.postgres.connection import connect

pytestmark = pytest.mark.anyio

_ENDPOINTS = "select coalesce(sum(sequence), 0)::int8 from event_feed where merchant_id = any(%s)"

Messages = Sequence[dict[str, Any]]


class Listening:
    """Gives merchants an endpoint each, at one receiver, and has the messages that arrived there."""

    def __init__(self, store: Storefront, receiver: Receiver, worker: Worker) -> None:
        self._store, self._receiver, self._worker = store, receiver, worker
        self._merchants: list[UUID] = []

    async def listen(self, merchant: Merchant) -> None:
        url, actor = str(self._store.settings.database_url), Actor(merchant_id=merchant.merchant_id)
        await an_endpoint(url, self._store.ledger, actor, f"{self._receiver.url}/{merchant.merchant_id}")
        self._merchants.append(merchant.merchant_id)

    async def heard(self) -> Mapping[UUID, Messages]:
        """Waits for all messages, and returns those of each merchant in the order of their numbers."""
        await self._worker.number(self._merchants)
        ((expected,),) = rows(str(self._store.settings.database_url), _ENDPOINTS, self._merchants)
        arrivals = self._receiver.arrivals
        await until(lambda: len(arrivals) >= expected, within_s=300)
        assert len(arrivals) == expected
        heard = defaultdict[UUID, list[dict[str, Any]]](list)
        for arrival in arrivals:
            event = arrival.event
            assert arrival.path == f"/{event['merchantId']}"
            heard[UUID(event["merchantId"])].append(event)
        for events in heard.values():
            events.sort(key=lambda event: event["sequence"])
            assert [event["sequence"] for event in events] == list(range(1, len(events) + 1))
        return heard


@asynccontextmanager
async def listening(store: Storefront) -> AsyncIterator[Listening]:
    url = str(store.settings.database_url)
    async with receiving() as receiver, working(url, store.ledger) as worker:
        yield Listening(store, receiver, worker)


def test_the_tables_say_what_is_heard_of_every_move():
    assert PAYMENT_MOVES.keys() == _names(PAYMENT_EDGES)
    assert {heard for edge in _names(ORDER_EDGES) if (heard := heard_of_order(edge))} == {
        name.removeprefix("payment_order.")
        for name, kind in KIND_OF.items()
        if kind.resource_type == "payment_order" and (kind.is_status or name.endswith(".created"))
    }
    for edge, readings_of in PAYMENT_MOVES.items():
        assert all(f"payment.{kind}" in KIND_OF for heard in readings_of for kind in heard), edge
    assert all(f"subscription.{heard_of_subscription(edge)}" in KIND_OF for edge in _names(SUBSCRIPTION_EDGES))


@pytest.mark.long
async def test_every_move_arrives_once_and_in_order_and_no_merchant_hears_of_another(store: Storefront) -> None:
    async with listening(store) as merchants:
        outcomes = await run_all(store, SCENARIOS, merchants.listen)
        heard = await merchants.heard()
    assert [each.error for each in outcomes if each.error] == []
    by_order = _by_order(event for events in heard.values() for event in events)
    orders = [order for each in outcomes for order in each.orders]
    assert {order.order_id for order in orders} == by_order.keys()
    orders_moved, moved, told = set[Edge](), set[Edge](), set[Edge]()
    for order in orders:
        for commit in order.commits:
            messages = by_order[order.order_id].pop(commit.version, [])
            assert [_announcement(each) for each in messages] == list(commit.announced), commit
            _check_order(commit, messages)
            orders_moved.add(commit.edge)
            for edge, is_told in _payment_moves(commit, messages):
                moved.add(edge)
                told.update([edge] * is_told)
    assert [messages for messages in by_order.values() if messages] == [], "each message is of a command"
    assert _names(ORDER_EDGES) - orders_moved == set()
    assert PAYMENT_MOVES.keys() - moved == set()
    assert {edge for edge, heard_of in PAYMENT_MOVES.items() if all(heard_of)} - told == set()


def _check_order(commit: Commit, messages: Messages) -> None:
    """Checks that one message tells of the order's move, that which the table names, and none if its status stays."""
    before, after = commit.edge
    own = [each for each in messages if each["resource"]["type"] == "payment_order"]
    heard = [
        (each["type"], each.get("previousStatus"), each["data"]["status"])
        for each in own
        if each["type"] == "payment_order.created" or KIND_OF[each["type"]].is_status
    ]
    name = heard_of_order(commit.edge)
    assert heard == ([] if name is None else [(f"payment_order.{name}", before, after)]), commit


def _payment_moves(commit: Commit, messages: Messages) -> Iterator[tuple[Edge, bool]]:
    """Yields the moves of the payments, each with whether a message tells of it: those that the table names."""
    for payment_id, edges in commit.payments.items():
        heard = Counter(
            each["type"].removeprefix("payment.")
            for each in messages
            if (each["resource"]["type"], each["resource"]["id"]) == ("payment", payment_id)
        )
        fitting = [each for each in readings(edges) if Counter(kind for kinds in each for kind in kinds) == heard]
        assert fitting, (edges, heard)
        yield from zip(edges, map(bool, fitting[0]), strict=True)


def _announcement(event: dict[str, Any]) -> tuple[str, str, str | None]:
    """Returns the kind of a message, its resource, and the status before."""
    return event["type"], event["resource"]["id"], event.get("previousStatus")


def _by_order(events: Iterable[dict[str, Any]]) -> Mapping[str, dict[int, list[dict[str, Any]]]]:
    """Returns the messages about orders, their payments and their documents, by the order and its version."""
    orders = defaultdict[str, dict[int, list[dict[str, Any]]]](dict)
    for event in events:
        _, found, rest = event["resource"]["url"].partition("/v2/payment-orders/")
        if found:
            orders[rest.partition("/")[0]].setdefault(event["streamVersion"], []).append(event)
    return orders


@pytest.mark.long
async def test_every_move_of_a_subscription_arrives_once_and_in_order(store: Storefront) -> None:
    merchants = [await store.register() for _ in SUBSCRIPTION_STORIES]
    async with listening(store) as listeners:
        for merchant in merchants:
            await listeners.listen(merchant)
        await asyncio.gather(*[tell(each) for tell, each in zip(SUBSCRIPTION_STORIES, merchants, strict=True)])
        heard = await listeners.heard()
    taken: set[Edge] = set()
    for merchant in merchants:
        moves = await _subscription_moves(store, merchant)
        told = [
            (each["type"], each.get("previousStatus"), each["data"]["status"])
            for each in heard[merchant.merchant_id]
            if each["resource"]["type"] == "subscription"
            and (KIND_OF[each["type"]].is_status or each["type"] == "subscription.created")
        ]
        assert told == [(f"subscription.{heard_of_subscription(edge)}", *edge) for edge in moves]
        taken.update(moves)
    assert taken == _names(SUBSCRIPTION_EDGES)


async def _subscription_moves(store: Storefront, merchant: Merchant) -> list[Edge]:
    """Returns the moves of the merchant's subscription, from command to command, from its log."""
    async with await connect(str(store.settings.database_url), "transitions") as connection:
        log = await whole_log(store.ledger.journal.reader, connection, merchant.merchant_id)
    state: Subscription | None = None
    statuses: dict[UUID, str] = {}  # after each command
    for recorded in log:
        if recorded.topic in subscription_events.TOPICS:
            state = evolve(state, recorded.event)
            if state.is_shown and state.status is not None:
                statuses[recorded.command_id] = str(state.status)
    return [edge for edge in pairwise([None, *statuses.values()]) if edge[0] != edge[1]]


def _names(edges: Iterable[tuple[Any, Any]]) -> set[Edge]:
    return {(before and str(before), str(after)) for before, after in edges}
