"""The calls to a processor that recovery looks up."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import psycopg
import pytest
from tests.domain.builders import DEADLINE, authorization_requested, declined, started, unanswered
from tests.projections.shop import Shop

from projections.orders.open_calls import OpenCalls

pytestmark = pytest.mark.anyio

LATER = DEADLINE + timedelta(seconds=1)


async def test_a_call_without_an_outcome_is_due_from_its_deadline_on(shop: Shop, database_url: str) -> None:
    order = await shop.order("open", started(1, 10_000), authorization_requested(1, 10_000))
    await shop.order("waiting")
    async with OpenCalls(database_url) as intents:
        assert await intents.due(DEADLINE - timedelta(seconds=1), 10) == []
        assert await intents.due(LATER, 10) == [(shop.merchant_id, order.terms.order_id)]
        order = await shop.then(order, unanswered(1))
        assert await intents.due(LATER, 10) == [(shop.merchant_id, order.terms.order_id)]
        await shop.then(order, declined(1))
        assert await intents.due(LATER, 10) == []


async def test_no_more_calls_are_returned_than_the_limit(shop: Shop, database_url: str) -> None:
    for n in range(4):
        await shop.order(f"open-{n}", started(1, 10_000), authorization_requested(1, 10_000))
    async with OpenCalls(database_url) as intents:
        assert len(await intents.due(LATER, 3)) == 3


async def test_merchants_follow_each_other_in_turn_without_skipped_orders(shop: Shop, database_url: str) -> None:
    orders = [await shop.order(f"{n}", started(1, 10_000), authorization_requested(1, 10_000)) for n in range(4)]
    with psycopg.connect(database_url, autocommit=True) as connection:
        other = UUID(int=1)
        moved = "update payment_order set merchant_id = %s, call_deadline_at = %s where order_id = %s"
        connection.execute(moved, (other, LATER, orders[3].terms.order_id))
    mine = [(shop.merchant_id, order.terms.order_id) for order in orders[:3]]
    async with OpenCalls(database_url) as intents:
        found = await intents.due(LATER, 2)
        assert [merchant_id for merchant_id, _ in found] == [shop.merchant_id, other]
        rest = await intents.due(LATER, 10, [order_id for _, order_id in found])
        assert sorted(rest) == sorted({*mine} - {*found})


async def test_a_connection_that_the_server_ended_fails_no_read(shop: Shop, database_url: str) -> None:
    await shop.order("open", started(1, 10_000), authorization_requested(1, 10_000))
    async with OpenCalls(database_url) as intents:
        with psycopg.connect(database_url, autocommit=True) as connection:
            ended = connection.execute(
                "select pg_terminate_backend(pid, 5000) from pg_stat_activity where application_name = %s",
                ("ledger-open-intents",),
            )
            assert ended.fetchall() == [(True,)]
        assert len(await intents.due(LATER, 10)) == 1
