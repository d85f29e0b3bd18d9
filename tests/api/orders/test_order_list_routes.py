"""The list of orders: what its query accepts, and what a page shows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace
from tests.api.bodies import NOW, order, paid_order
from tests.api.products.catalogue import PRODUCTS
from tests.api.storefront import ORDERS, Merchant, Storefront
from tests.api.subscriptions.billing import PLANS, SUBSCRIPTIONS

from api.errors import ApiError
from api.fields.as_of import parse_as_of
from api.orders.list import parse_order_query
from ledger.domain.orders.statuses import OrderStatus
from projections.lists.cursor import CURSORS


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("page=0", "page"),
        ("page=-1", "page"),
        ("page=1.5", "page"),
        ("page=x", "page"),
        ("page=9223372036854775808", "page"),
        ("page=%D9%A1", "page"),
        ("limit=0", "limit"),
        ("limit=101", "limit"),
        ("limit=1e1", "limit"),
        ("offset=-1", "offset"),
        ("offset=9999999999", "offset"),
        ("page=1&offset=0", "page"),
        ("page=1&cursor=x", "page"),
        ("cursor=x", "cursor"),
        ("status=PAID", "status"),
        ("status=PENDING,PAID", "status"),
        ("sortField=amount", "sortField"),
        ("sortField=createdAt;drop", "sortField"),
        ("sortOrder=up", "sortOrder"),
        ("dateFrom=yesterday", "dateFrom"),
        ("dateFrom=2026-02-30", "dateFrom"),
        ("startDate=2026-1-1", "dateFrom"),
        ("dateTo=9999-12-31T23:59:59-14:00", "dateTo"),
        ("dateTo=0001-01-01T00:00:00%2B14:00", "dateTo"),
        ("dateFrom=2026-01-01&startDate=2026-01-02", "dateFrom"),
        ("dateTo=2026-01-01&endDate=2026-01-02", "dateTo"),
        ("limit=1&limit=2", "limit"),
        ("status=%ff", "query"),
        ("&".join(f"a{n}=1" for n in range(101)), "query"),
    ],
)
def test_a_value_that_is_not_understood_is_refused(query: str, field: str):
    with pytest.raises(ApiError) as caught:
        parse_order_query(query.encode(), NOW)
    assert caught.value.status == 400
    assert caught.value.errors[0].field == field


def test_an_empty_query_asks_for_the_newest_twenty():
    query = parse_order_query(b"", NOW)
    assert (query.limit, query.offset, query.ascending, query.statuses, query.cursor) == (20, 0, False, (), None)
    assert parse_order_query(b"status=&limit=", NOW) == query


def test_pages_and_offsets_name_the_same_places():
    assert parse_order_query(b"page=3&limit=10", NOW) == parse_order_query(b"offset=20&limit=10", NOW)
    assert parse_order_query(b"limit=100&page=999999999", NOW).offset == 99_999_999_800


def test_statuses_come_as_a_list_or_one_by_one():
    both = (OrderStatus.PENDING, OrderStatus.PARTIALLY_PAID)
    assert parse_order_query(b"status=PENDING,PARTIALLY_PAID", NOW).statuses == both
    assert parse_order_query(b"status=PENDING&status=PARTIALLY_PAID", NOW).statuses == both
    assert parse_order_query(b"status=%20PENDING%2C,PARTIALLY_PAID,", NOW).statuses == both


@pytest.mark.parametrize("names", [("dateFrom", "dateTo"), ("startDate", "endDate")])
def test_a_day_is_the_whole_day_in_the_merchants_time_zone(names: tuple[str, str]):
    query = parse_order_query(f"{names[0]}=2026-01-31&{names[1]}=2026-01-31".encode(), NOW)
    assert query.created_from == datetime(2026, 1, 31, 6, tzinfo=UTC)
    assert query.created_to == datetime(2026, 2, 1, 5, 59, 59, 999_999, tzinfo=UTC)


@pytest.mark.parametrize(
    "spelled", ["2026-01-31T12:00:00Z", "2026-01-31T06:00:00-06:00", "2026-01-31T06:00:00", "2026-01-31T14:00:00+02:00"]
)
def test_a_moment_may_be_spelled_with_or_without_an_offset(spelled: str):
    for query in (f"dateFrom={spelled}", f"dateFrom={spelled.replace('+', '%2B')}"):
        assert parse_order_query(query.encode(), NOW).created_from == datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.mark.parametrize("long", ["T" * 1_000_000, "T+" * 500_000])
def test_a_long_text_is_no_time_and_is_not_searched_from_each_of_its_places(long: str):
    with pytest.raises(ApiError):  # a search from each place would not end
        parse_order_query(f"dateFrom={long}".encode(), NOW)
    with pytest.raises(ApiError):
        parse_as_of({"asOf": long.replace("+", " ")}, NOW)


@pytest.mark.anyio
async def test_a_merchant_lists_its_own_orders_only(store: Storefront, merchant: Merchant):
    other = await store.register()
    await other.create(order())
    for number in range(5):
        await merchant.create(order(externalId=f"order-{number}"))
    await merchant.create(paid_order(externalId="paid"))
    page = (await merchant.get(f"{ORDERS}?limit=2&page=2&status=PENDING&sortOrder=asc")).json()
    assert [row["externalId"] for row in page["data"]] == ["order-2", "order-3"]
    assert page["data"][0]["payments"] == []
    pagination = page["pagination"]
    assert (pagination["page"], pagination["limit"], pagination["total"], pagination["count"]) == (2, 2, 5, 2)
    assert (pagination["totalPages"], pagination["hasMore"]) == (3, True)
    everything = (await merchant.get(ORDERS)).json()
    assert everything["data"][0]["externalId"] == "paid"
    assert everything["pagination"]["total"] == 6


@pytest.mark.anyio
async def test_a_list_goes_on_from_its_cursor(merchant: Merchant):
    for number in range(3):
        await merchant.create(order(externalId=f"order-{number}"))
    first = (await merchant.get(f"{ORDERS}?limit=2")).json()
    rest = (await merchant.get(f"{ORDERS}?limit=2&cursor={first['pagination']['nextCursor']}")).json()
    assert [row["externalId"] for row in first["data"] + rest["data"]] == ["order-2", "order-1", "order-0"]


@pytest.mark.anyio
async def test_a_cursor_belongs_to_the_filters_and_the_direction_of_its_list(merchant: Merchant):
    """Another list has other entries before it: `page`, `offset` and the order would be wrong."""
    for number in range(3):
        await merchant.create(order(externalId=f"order-{number}"))
    made_with = "status=PENDING,COMPLETED&currency=MXN&sortOrder=asc"
    page = (await merchant.get(f"{ORDERS}?limit=1&{made_with}")).json()
    cursor = page["pagination"]["nextCursor"]
    for same in (made_with, "currency=MXN&status=COMPLETED&status=PENDING&page=&search="):
        answer = (await merchant.get(f"{ORDERS}?limit=2&{same}&cursor={cursor}")).json()
        assert [row["externalId"] for row in answer["data"]] == ["order-1", "order-2"], same
    for other in (
        "",
        "status=PENDING&currency=MXN",
        f"{made_with}&excludeOverdue=true",
        f"{made_with}&amountMin=5",
        made_with.replace("asc", "desc"),
    ):
        refusal = await merchant.get(f"{ORDERS}?{other}&cursor={cursor}")
        assert refusal.status_code == 400, other
        assert [each["field"] for each in refusal.json()["errors"]] == ["cursor"], other
    for path in (SUBSCRIPTIONS, PLANS, PRODUCTS):
        refusal = await merchant.get(f"{path}?cursor={cursor}")
        assert (refusal.status_code, refusal.json()["errors"][0]["field"]) == (400, "cursor"), path


@pytest.mark.anyio
async def test_a_cursor_of_the_release_before_goes_on_with_any_filters(merchant: Merchant):
    """It does not have them."""
    for number in range(3):
        await merchant.create(order(externalId=f"order-{number}"))
    page = (await merchant.get(f"{ORDERS}?limit=1&status=PENDING")).json()
    cursor = CURSORS.parse(page["pagination"]["nextCursor"])
    assert cursor is not None
    before = CURSORS.encode(replace(cursor, list_hash=b""))
    rest = (await merchant.get(f"{ORDERS}?currency=MXN&cursor={before}")).json()
    assert [row["externalId"] for row in rest["data"]] == ["order-1", "order-0"]


@pytest.mark.anyio
async def test_dates_and_hostile_queries_reach_the_database_as_values(merchant: Merchant):
    await merchant.create(order())
    tomorrow = (datetime.now(UTC) + timedelta(days=2)).date().isoformat()
    assert (await merchant.get(f"{ORDERS}?dateFrom={tomorrow}")).json()["pagination"]["total"] == 0
    assert (await merchant.get(f"{ORDERS}?dateTo={tomorrow}&dateFrom=2020-01-01")).json()["pagination"]["total"] == 1
    assert (await merchant.get(f"{ORDERS}?page=999999999&limit=100")).json()["data"] == []
    for query in (
        "status='%20OR%201=1--",
        "sortField=createdAt)%20--",
        "dateFrom=';select%20pg_sleep(5)--",
        "page=1;2",
    ):
        assert (await merchant.get(f"{ORDERS}?{query}")).status_code == 400
