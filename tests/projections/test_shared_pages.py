"""Requests for the same page of the order list share a read, and see everything that was committed before them."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta

import psycopg
import pytest
from tests.domain.builders import NOON
from tests.projections.listing import ids, page
from tests.projections.shop import Shop

from ledger.domain.orders.statuses import OrderStatus
from ledger.journal.journal import Journal
from projections.lists.cursor import CURSORS
from projections.lists.pages import OrderQuery
from projections.queries import Queries

pytestmark = pytest.mark.anyio

SECOND = timedelta(seconds=1)


async def test_requests_for_the_same_page_share_one_read_and_one_json(shop: Shop, reader: Queries) -> None:
    await shop.order("1")
    query = OrderQuery(limit=3)
    bodies = await asyncio.gather(*[reader.orders(shop.merchant_id, query, NOON) for _ in range(5)])
    assert all(body is bodies[0] for body in bodies)
    assert ids(json.loads(bodies[0])) == ids(await page(reader, shop, limit=3))


async def test_different_pages_that_share_a_round_trip_are_those_that_are_read_alone(
    shop: Shop, journal: Journal, reader: Queries
) -> None:
    other = await Shop(journal).open()
    for n in range(4):
        await shop.order(f"{n}", at=NOON + n * SECOND)
        await other.order(f"{n}", at=NOON + n * SECOND)
    cursor = CURSORS.parse((await page(reader, shop, limit=1))["pagination"]["nextCursor"])
    queries = [
        OrderQuery(),
        OrderQuery(ascending=True),
        OrderQuery(limit=2),
        OrderQuery(cursor=cursor),
        OrderQuery(statuses=(OrderStatus.PENDING,)),
        OrderQuery(statuses=(OrderStatus.COMPLETED,)),
    ]
    wanted = [(place.merchant_id, query) for place in (shop, other) for query in queries]
    alone = [await reader.orders(merchant_id, query, NOON) for merchant_id, query in wanted]
    assert await asyncio.gather(*[reader.orders(*each, NOON) for each in wanted]) == alone
    assert [json.loads(body)["pagination"]["count"] for body in alone] == [4, 4, 2, 3, 4, 0] * 2
    assert not {*ids(json.loads(alone[0]))} & {*ids(json.loads(alone[len(queries)]))}


async def test_a_page_has_what_was_committed_before_its_request_while_others_read_it(
    shop: Shop, reader: Queries
) -> None:
    reading = True

    async def read() -> None:
        while reading:
            await page(reader, shop)

    readers = [asyncio.create_task(read()) for _ in range(4)]
    try:
        for n in range(20):
            order = await shop.order(f"{n}", at=NOON + n * SECOND)
            assert ids(await page(reader, shop))[0] == str(order.terms.order_id)
    finally:
        reading = False
        await asyncio.gather(*readers)


async def test_an_order_of_a_shared_page_is_overdue_for_the_requests_after_its_due_date(
    shop: Shop, reader: Queries
) -> None:
    for n in (1, 2):
        await shop.order(f"{n}", at=NOON + n * SECOND, due_date=NOON + n * SECOND)
    times = [NOON, NOON + SECOND, NOON + 1.5 * SECOND, NOON + 3 * SECOND, NOON]
    bodies = await asyncio.gather(*[reader.orders(shop.merchant_id, OrderQuery(), now) for now in times])
    overdue = [[order["isOverdue"] for order in json.loads(body)["data"]] for body in bodies]
    assert overdue == [[False, False], [False, False], [False, True], [True, True], [False, False]]


async def test_shared_pages_continue_after_their_connection_was_ended(
    shop: Shop, reader: Queries, database_url: str
) -> None:
    await shop.order("1")
    with psycopg.connect(database_url, autocommit=True) as connection:
        query = "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'ledger-list-pages'"
        assert connection.execute(query).fetchall() == [(True,)]
    assert (await page(reader, shop))["pagination"]["total"] == 1
