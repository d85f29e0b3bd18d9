"""Each move of an order that a reader can see arrives once at the merchant's endpoint, in order, and at no other's."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from tests.api.storefront import Merchant, Storefront
from tests.background.conftest import rows
from tests.background.deliveries import an_endpoint, receiving, until, working
from tests.transitions.context import OrderMoves
from tests.transitions.runner import Outcome, run_all
from tests.transitions.test_transitions import SCENARIOS

from ledger.domain.public_events.kinds import KIND_OF
from ledger.operations.context.inputs import Actor

pytestmark = pytest.mark.anyio

_ENDPOINTS = "select coalesce(sum(sequence), 0)::int8 from event_feed where merchant_id = any(%s)"


@pytest.mark.long
async def test_every_move_arrives_once_and_in_order_and_no_merchant_hears_of_another(store: Storefront) -> None:
    url = store.settings.database_url
    assert url is not None, "there is a database"
    merchants: list[Merchant] = []
    async with receiving() as receiver, working(url, store.ledger) as worker:

        async def listen(merchant: Merchant) -> None:
            actor = Actor(merchant_id=merchant.merchant_id)
            await an_endpoint(url, store.ledger, actor, f"{receiver.url}/{merchant.merchant_id}")
            merchants.append(merchant)

        outcomes = await run_all(store, SCENARIOS, listen)
        ids = [merchant.merchant_id for merchant in merchants]
        await worker.number(ids)
        ((expected,),) = rows(url, _ENDPOINTS, ids)
        await until(lambda: len(receiver.arrivals) >= expected, within_s=300)
        assert len(receiver.arrivals) == expected
    assert [each.error for each in outcomes if each.error] == []
    heard: dict[UUID, list[dict[str, Any]]] = {}
    for arrival in receiver.arrivals:
        event = arrival.event
        assert arrival.path == f"/{event['merchantId']}"
        heard.setdefault(UUID(event["merchantId"]), []).append(event)
    for events in heard.values():
        events.sort(key=lambda event: event["sequence"])
        assert [event["sequence"] for event in events] == list(range(1, len(events) + 1))
    assert sorted(map(_announced, heard.values())) == sorted(_moved(each) for each in outcomes if each.orders)


def _moved(outcome: Outcome) -> list[list[tuple[str, str]]]:
    """Returns the changes of status of each order, as its readers saw them."""
    return [_changes(moves) for moves in outcome.orders]


def _changes(moves: OrderMoves) -> list[tuple[str, str]]:
    return [(move.before, move.after) for move in moves.by_commit if move.before and move.before != move.after]


def _announced(events: list[dict[str, Any]]) -> list[list[tuple[str, str]]]:
    """Returns the changes of status of each order, as its messages have them."""
    orders: dict[str, list[tuple[str, str]]] = {}
    for event in events:
        if event["resource"]["type"] == "payment_order":
            changes = orders.setdefault(event["resource"]["id"], [])
            if KIND_OF[event["type"]].is_status:
                changes.append((event["previousStatus"], event["data"]["status"]))
    return list(orders.values())
