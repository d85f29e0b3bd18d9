"""Random stories of orders, delivered over HTTP: events times subscribed endpoints are the deliveries (I12)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any
from uuid import UUID, uuid4

import pytest
from msgspec.structs import replace
from property_tests.test_public_events import Story
from tests.background.conftest import rows
from tests.background.deliveries import an_endpoint, deliveries, receiving, until, working
from tests.operations.conftest import an_order, register
from uuid_utils.compat import uuid7

from ledger.domain.orders.events import OrderCreated
from ledger.domain.orders.evolve.order import evolve
from ledger.domain.public_events.kinds import kinds_of
from ledger.domain.webhooks.terms import Ordering, Payload
from ledger.journal.append import Change
from ledger.operations.context.inputs import Actor
from ledger.operations.context.ledger import Ledger
from ledger.operations.orders.create import create_order

pytestmark = pytest.mark.anyio

_AT_ONCE = 40
_TOLD = ("payment.captured", "payment.refunded", "payment_order.*")


async def record(ledger: Ledger, merchant: Actor, customer_id: UUID, story: Story, name: str) -> None:
    """Commits each command of a story, as an order of its own."""
    order_id, order, version = uuid7(), None, 0
    for command in story.commands:
        events = [_named(event, order_id, customer_id, name) for event in command]
        before = order
        for event in events:
            order = evolve(order, event)
        await ledger.journal.commit(merchant.merchant_id, uuid4(), [Change(order_id, version, events, before, order)])
        version += len(events)


def _named(event: Any, order_id: UUID, customer_id: UUID, name: str) -> Any:
    if not isinstance(event, OrderCreated):
        return event
    return replace(event, order_id=order_id, order_number=name, external_id=name, customer_id=customer_id)


def stories(count: int) -> Iterator[Story]:
    rng = Random(12)
    for _ in range(count):
        story = Story(rng)
        for _ in range(rng.randint(5, 30)):
            story.step()
        yield story


@pytest.mark.parametrize("count", [30, pytest.param(10_000, marks=pytest.mark.long)])
async def test_each_event_of_random_stories_is_delivered_once_to_each_endpoint_that_asks_for_it(
    ledger: Ledger, merchant: Actor, database_url: str, count: int
) -> None:
    created = await create_order(ledger, merchant, an_order("first"))
    customer_id = created.order.terms.customer_id
    async with receiving() as receiver, working(database_url, ledger) as worker:
        every, _ = await an_endpoint(database_url, ledger, merchant, receiver.url + "/every")
        some, _ = await an_endpoint(
            database_url, ledger, merchant, receiver.url + "/some", events=_TOLD, ordering=Ordering.STRICT
        )
        thin, _ = await an_endpoint(
            database_url, ledger, merchant, receiver.url + "/thin", events=("payment.*",), payload=Payload.THIN
        )
        foreign, _ = await an_endpoint(database_url, ledger, await register(ledger), receiver.url + "/foreign")
        await worker.number()
        (past,) = rows(database_url, "select sequence from event_feed where merchant_id = %s", merchant.merchant_id)[0]
        named = list(enumerate(stories(count)))
        for n in range(0, count, _AT_ONCE):
            told = [record(ledger, merchant, customer_id, story, f"story {m}") for m, story in named[n : n + _AT_ONCE]]
            await asyncio.gather(*told)
            await worker.number()
        events = await _numbered(worker.source, merchant, past)
        wanted = {
            (every, "/every"): [event.sequence for event in events],
            (some, "/some"): _of_kinds(events, _TOLD),
            (thin, "/thin"): _of_kinds(events, ("payment.*",)),
            (foreign, "/foreign"): [],
        }
        expected = sum(len(numbers) for numbers in wanted.values())
        await until(lambda: len(receiver.arrivals) >= expected, within_s=60 + count)
    assert [event.sequence for event in events] == list(range(past + 1, past + 1 + len(events))), "no gap"
    for (endpoint_id, path), numbers in wanted.items():
        assert sorted(receiver.sequences(path)) == numbers
        assert deliveries(database_url, endpoint_id) == [(number, "SUCCEEDED", 1) for number in numbers]
    bodies = {event.sequence: event for event in events}
    for path, is_thin in (("/every", False), ("/some", False), ("/thin", True)):
        arrived = [arrival for arrival in receiver.arrivals if arrival.path == path]
        told_again = await worker.source.render(
            merchant.merchant_id, [bodies[arrival.event["sequence"]] for arrival in arrived], is_thin=is_thin
        )
        assert [arrival.body for arrival in arrived] == told_again


async def _numbered(source: Any, merchant: Actor, after: int) -> Sequence[Any]:
    found: list[Any] = []
    while True:
        page = await source.after(merchant.merchant_id, after, 1_000, None)
        found += page.events
        after = page.last_sequence
        if not page.has_more:
            return found


def _of_kinds(events: Sequence[Any], patterns: Sequence[str]) -> list[int]:
    names = kinds_of(patterns)
    return [event.sequence for event in events if event.kind.name in names]
