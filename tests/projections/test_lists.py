"""The order list against a plain model of it: every filter, both directions, all edges of days and pages."""

from __future__ import annotations

import asyncio
import base64
import json
import struct
from datetime import UTC, datetime, timedelta
from itertools import product

import psycopg
import pytest
from tests.citus_server import ON_ONE_SERVER
from tests.domain.builders import NOON, authorization_requested, declined, paid, started
from tests.projections.listing import ids, page
from tests.projections.shop import Shop
from uuid_utils.compat import uuid7

from ledger.domain.orders.state import Order
from ledger.domain.orders.statuses import OrderStatus
from ledger.journal.journal import Journal
from ledger.postgres.faults import DatabaseUnavailable
from projections.lists.cursor import CURSORS
from projections.lists.pages import OrderQuery
from projections.lists.statements import page_statements
from projections.queries import Queries

pytestmark = pytest.mark.anyio

MICROSECOND = timedelta(microseconds=1)
FIRST = datetime(2026, 1, 29, tzinfo=UTC)
MOMENTS = [
    FIRST - MICROSECOND,
    FIRST,
    FIRST + timedelta(hours=5, milliseconds=123, microseconds=456),
    FIRST + timedelta(hours=5, milliseconds=124),
    FIRST + timedelta(days=1) - MICROSECOND,
    FIRST + timedelta(days=1),
    FIRST + timedelta(days=1),
    FIRST + timedelta(days=2, hours=12),
    FIRST + timedelta(days=3),
]
"""Times at, just before and just after the boundaries of UTC days; one of them twice."""

PENDING, COMPLETED, FAILED = OrderStatus.PENDING, OrderStatus.COMPLETED, OrderStatus.FAILED


@pytest.fixture
async def orders(shop: Shop) -> list[Order]:
    """Three orders at each time: one pending, one paid, one declined after another status."""
    made = []
    for n, at in enumerate(MOMENTS):
        made.append(await shop.order(f"{n}-pending", at=at))
        made.append(await shop.order(f"{n}-paid", *paid(1, 10_000), at=at))
        order = await shop.order(f"{n}-failed", started(1, 10_000), authorization_requested(1, 10_000), at=at)
        made.append(await shop.then(order, declined(1)))
    return made


def expected(orders: list[Order], query: OrderQuery) -> list[str]:
    """Returns the ids of a query's whole list, by a plain loop over all orders."""
    wanted = [order for order in orders if not query.statuses or order.status in query.statuses]
    if query.created_from is not None:
        wanted = [order for order in wanted if order.terms.at >= query.created_from]
    if query.created_to is not None:
        wanted = [order for order in wanted if _millisecond(order.terms.at) <= _millisecond(query.created_to)]
    wanted.sort(key=lambda order: (order.terms.at, order.terms.order_id), reverse=not query.ascending)
    return [str(order.terms.order_id) for order in wanted]


def _millisecond(at: datetime) -> datetime:
    return at.replace(microsecond=at.microsecond // 1000 * 1000)


async def test_every_range_status_and_direction_lists_and_counts_the_same_as_the_model(
    shop: Shop, orders: list[Order], reader: Queries
) -> None:
    edges = [None, *sorted(set(MOMENTS)), FIRST + timedelta(hours=5, milliseconds=123), FIRST + timedelta(days=9)]
    statuses: list[tuple[OrderStatus, ...]] = [(), (PENDING,), (COMPLETED, FAILED), (OrderStatus.REFUNDED,)]
    for start, end, wanted, ascending in product(edges, edges, statuses, (False, True)):
        query = OrderQuery(created_from=start, created_to=end, statuses=wanted, ascending=ascending, limit=100)
        listed = json.loads(await reader.orders(shop.merchant_id, query, NOON))
        assert ids(listed) == expected(orders, query), query
        assert listed["pagination"]["total"] == len(ids(listed)), query


@pytest.mark.parametrize("statuses", [(), (PENDING, FAILED)])
@pytest.mark.parametrize("ascending", [False, True])
async def test_pages_by_offset_add_up_to_the_list(
    shop: Shop, orders: list[Order], reader: Queries, statuses: tuple[OrderStatus, ...], ascending: bool
) -> None:
    whole = expected(orders, OrderQuery(statuses=statuses, ascending=ascending))
    for limit in (1, 4, len(whole), 100):
        seen: list[str] = []
        for offset in range(0, len(whole) + limit, limit):
            listed = await page(reader, shop, statuses=statuses, ascending=ascending, limit=limit, offset=offset)
            seen += ids(listed)
            pagination = listed["pagination"]
            assert pagination.pop("nextCursor") is None or pagination["hasMore"]
            assert pagination == {
                "page": offset // limit + 1,
                "limit": limit,
                "offset": offset,
                "total": len(whole),
                "count": len(ids(listed)),
                "totalPages": -(-len(whole) // limit),
                "hasMore": offset + limit < len(whole),
            }
        assert seen == whole


@pytest.mark.parametrize("statuses", [(), (PENDING, FAILED)])
@pytest.mark.parametrize("ascending", [False, True])
async def test_following_the_cursor_reads_the_list_to_its_end(
    shop: Shop, orders: list[Order], reader: Queries, statuses: tuple[OrderStatus, ...], ascending: bool
) -> None:
    whole = expected(orders, OrderQuery(statuses=statuses, ascending=ascending))
    listed = await page(reader, shop, statuses=statuses, ascending=ascending, limit=4)
    seen = ids(listed)
    for number in range(2, len(whole)):
        if not listed["pagination"]["hasMore"]:
            break
        cursor = CURSORS.parse(listed["pagination"]["nextCursor"])
        listed = await page(reader, shop, statuses=statuses, limit=4, cursor=cursor)
        seen += ids(listed)
        assert listed["pagination"]["page"] == number
    assert seen == whole
    assert listed["pagination"]["nextCursor"] is None


async def test_a_cursor_neither_repeats_nor_skips_orders_when_new_ones_arrive(
    shop: Shop, orders: list[Order], reader: Queries
) -> None:
    first = await page(reader, shop, limit=5)
    await shop.order("newest", at=FIRST + timedelta(days=30))
    then = await page(reader, shop, limit=100, cursor=CURSORS.parse(first["pagination"]["nextCursor"]))
    assert ids(first) + ids(then) == expected(orders, OrderQuery())


async def test_a_page_beyond_the_end_is_empty_and_still_counts(
    shop: Shop, orders: list[Order], reader: Queries
) -> None:
    listed = await page(reader, shop, limit=10, offset=1_000)
    assert (listed["data"], listed["pagination"]["total"], listed["pagination"]["hasMore"]) == ([], 27, False)


async def test_a_merchant_without_orders_has_an_empty_list(
    journal: Journal, reader: Queries, orders: list[Order]
) -> None:
    newcomer = await Shop(journal).open()
    listed = await page(reader, newcomer)
    assert listed == {
        "data": [],
        "pagination": {
            "page": 1, "limit": 20, "offset": 0, "total": 0, "count": 0, "totalPages": 0, "hasMore": False, "nextCursor": None,
        },
    }  # fmt: skip


@pytest.mark.parametrize("statuses", [(), (PENDING,)])
@pytest.mark.parametrize("ascending", [False, True])
async def test_another_merchants_orders_change_neither_a_page_nor_a_total(
    shop: Shop,
    journal: Journal,
    orders: list[Order],
    reader: Queries,
    statuses: tuple[OrderStatus, ...],
    ascending: bool,
) -> None:
    other = await Shop(journal).open()
    for n, at in enumerate(MOMENTS):
        await other.order(f"{n}-other", at=at)
    begins, ends = FIRST + timedelta(hours=1), FIRST + timedelta(days=2, hours=13)
    for start, end in ((None, None), (begins, None), (None, ends)):
        query = OrderQuery(created_from=start, created_to=end, statuses=statuses, ascending=ascending, limit=5)
        listed, whole = json.loads(await reader.orders(shop.merchant_id, query, NOON)), expected(orders, query)
        assert (ids(listed), listed["pagination"]["total"]) == (whole[:5], len(whole)), query


async def test_a_row_is_the_order_without_payments_and_with_its_customer(shop: Shop, reader: Queries) -> None:
    await shop.order("one", *paid(1, 10_000), due_date=NOON - timedelta(days=1))
    [listed] = (await page(reader, shop))["data"]
    detail = await reader.order(shop.merchant_id, "one")
    assert detail is not None
    assert listed == json.loads(detail.document(NOON)) | {"payments": []}
    assert listed["customer"]["email"] == "ana@example.com"


async def test_a_row_is_overdue_by_the_time_of_reading(shop: Shop, reader: Queries) -> None:
    await shop.order("one", due_date=NOON)
    for now, overdue in ((NOON, False), (NOON + MICROSECOND, True)):
        [row] = json.loads(await reader.orders(shop.merchant_id, OrderQuery(), now))["data"]
        assert row["isOverdue"] is overdue


def forged(behind: int) -> str:
    """Returns a cursor that the service did not issue, before all orders, which claims `behind` earlier ones."""
    return base64.urlsafe_b64encode(struct.pack("!?qq16s", True, 0, behind, bytes(16))).decode()


async def test_a_forged_cursor_may_claim_any_number_of_orders_up_to_a_bound(shop: Shop, reader: Queries) -> None:
    for n in range(2):
        await shop.order(f"{n}")
    listed = await page(reader, shop, cursor=CURSORS.parse(forged(2**62)), limit=1)
    assert listed["pagination"]["offset"] == 2**62
    assert listed["pagination"]["hasMore"]
    assert CURSORS.parse(forged(2**62 + 1)) is None


@pytest.mark.parametrize("text", ["", "x", "AAAA", "é", "=" * 44, "A" * 45, "\0", "_" * 44, forged(2**63 - 1)])
def test_a_text_that_the_service_did_not_issue_is_not_a_cursor(text: str) -> None:
    assert CURSORS.parse(text) is None


def test_a_range_may_reach_to_both_ends_of_time() -> None:
    far = OrderQuery(created_from=datetime.min.replace(tzinfo=UTC), created_to=datetime.max.replace(tzinfo=UTC))
    _, parameters = page_statements(uuid7(), far, NOON)
    assert parameters["from"].year, parameters["to"].year == (1, 9999)


async def test_whole_days_are_not_counted_row_by_row(
    shop: Shop, orders: list[Order], reader: Queries, database_url: str
) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("update tally set n = n + 1000 where day = %s and status = 'PENDING'", (FIRST.date(),))
    inside = await page(reader, shop, created_from=FIRST, created_to=FIRST + timedelta(days=1) - MICROSECOND)
    broken = await page(
        reader, shop, created_from=FIRST + timedelta(milliseconds=1), created_to=FIRST + timedelta(days=1)
    )
    assert (inside["pagination"]["total"], broken["pagination"]["total"]) == (1012, 15)


@ON_ONE_SERVER
async def test_a_list_that_waits_for_a_lock_fails_alone_and_point_reads_continue(
    shop: Shop, orders: list[Order], reader: Queries, database_url: str
) -> None:
    async with await psycopg.AsyncConnection.connect(database_url) as holder:
        await holder.execute("lock table tally in access exclusive mode")
        listing = asyncio.create_task(page(reader, shop))
        assert await reader.order(shop.merchant_id, "0-paid") is not None
        with pytest.raises(DatabaseUnavailable):
            await listing
        await holder.rollback()
    assert (await page(reader, shop))["pagination"]["total"] == 27


async def test_lists_continue_after_their_connections_were_ended(
    shop: Shop, orders: list[Order], reader: Queries, database_url: str
) -> None:
    await page(reader, shop, created_from=FIRST)
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'ledger-lists'"
        )
    assert (await page(reader, shop, created_from=MOMENTS[0]))["pagination"]["total"] == 27


async def test_every_list_reads_orders_by_an_index(shop: Shop, orders: list[Order], reader: Queries) -> None:
    for statuses, ascending in product([(), (PENDING,)], (False, True)):
        query = OrderQuery(statuses=statuses, ascending=ascending, created_from=FIRST)
        [statement], parameters = page_statements(shop.merchant_id, query, NOON)
        plan = await reader._lists.rows("explain " + statement, parameters)
        text = "\n".join(line for (line,) in plan)
        assert "Seq Scan on payment_order" not in text
        assert "Index" in text
