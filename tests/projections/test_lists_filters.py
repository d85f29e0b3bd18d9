"""Every combination of the list's filters against a plain model, on three hundred orders of related customers."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from itertools import combinations_with_replacement, islice, product
from typing import Any
from uuid import UUID

import psycopg
import pytest
from msgspec import Struct
from msgspec.structs import replace
from tests.domain.builders import NOON, VISA, authorization_requested, declined, method, paid, started
from tests.projections.listing import ids, page
from tests.projections.shop import Shop, change_email, customer
from uuid_utils.compat import uuid7

from ledger.domain.customers.state import Customer
from ledger.domain.orders.events import PaymentStarted
from ledger.domain.orders.state import Order
from ledger.domain.orders.statuses import OrderStatus
from ledger.domain.orders.terms import CardSummary, MethodType
from ledger.domain.rejections import InvalidField
from ledger.journal.journal import Journal
from ledger.postgres.faults import ReadModelBehind
from projections.lists import references, related_customers, statements
from projections.lists.cursor import CURSORS
from projections.lists.pages import OrderQuery
from projections.queries import Queries
from projections.search.compaction import SearchCompactor

pytestmark = pytest.mark.anyio

NOW = NOON + timedelta(days=3)
DAY = timedelta(days=1)
EMAILS = ["ana@example.com", "BEATRIZ@example.com", "c_o%d@shop.mx", None, "ärger@example.org", "ana.two@example.com"]
TERMS = ["ana", "EXAMPLE.COM", "po", "7", "%", "_", "\\", "'", "Ñ", "ä", "f-1", "nobody", "\n", "\x1f", "straße", " "]
NARROWING: dict[str, list[Any]] = {
    "external_id": ["Ref-7", "nobody", "o'7", "\0", "ñandú 1"],
    "email": ["ANA@example.com", "beatriz@example.com", "nobody@example.com", "\0"],
    "currency": ["USD", "MXN"],
    "amount_min": [Decimal("150.75"), Decimal(10_000), Decimal(99_999)],
    "amount_max": [Decimal("150.75"), Decimal(10_000), Decimal(0)],
    "methods": [(MethodType.PAYCASH,), (MethodType.SPEI, MethodType.CARD), (MethodType.CIE_CASH_NET,)],
    "last4": ["1881", VISA.last4, "0007", "9999"],
}


class Market(Struct):
    """A shop with six customers: 0 ← 1 ← 2 (each from the one before), 3 alone, 4 and 5 from a source without a row."""

    shop: Shop
    customers: list[Customer]
    orders: list[Order]

    def matching(self, query: OrderQuery) -> list[str]:
        """Returns the ids of a query's whole list, by a plain loop over all orders."""
        wanted = [order for order in self.orders if self._matches(order, query)]
        wanted.sort(key=lambda order: (order.terms.at, order.terms.order_id), reverse=not query.ascending)
        return [str(order.terms.order_id) for order in wanted]

    def _matches(self, order: Order, query: OrderQuery) -> bool:
        terms = order.terms
        [customer] = [one for one in self.customers if one.customer_id == terms.customer_id]
        texts = (customer.email, terms.order_number, terms.external_id, terms.invoice_number)
        return (
            (not query.statuses or order.status in query.statuses)
            and (query.created_from is None or terms.at >= query.created_from)
            and (query.created_to is None or terms.at <= query.created_to)
            and (not query.exclude_overdue or terms.due_date is None or terms.due_date >= NOW)
            and (query.customer is None or terms.customer_id in self._named(query.customer, query.related))
            and (query.external_id is None or terms.external_id == query.external_id)
            and (query.email is None or (customer.email or "").casefold() == query.email.casefold())
            and (query.currency is None or terms.currency == query.currency)
            and (query.amount_min is None or order.amount >= query.amount_min)
            and (query.amount_max is None or order.amount <= query.amount_max)
            and (not query.methods or any(paid_by in query.methods for paid_by in shown_methods(order)))
            and (query.last4 is None or query.last4 in {card.last4 for card in cards(order)})
            and (query.search is None or any(query.search.casefold() in (text or "").casefold() for text in texts))
        )

    def _named(self, reference: str, related: bool) -> set[UUID]:
        named = {one.customer_id for one in self.customers if reference in (str(one.customer_id), one.external_id)}
        while named and related:
            linked = {one.source_id for one in self.customers if one.customer_id in named} - {None}
            more = {one.customer_id for one in self.customers if one.source_id in named | linked}
            more |= {one.customer_id for one in self.customers if one.customer_id in linked}
            if more <= named:
                break
            named |= more
        return named


def by_card(n: int, last4: str) -> PaymentStarted:
    return replace(started(n, 4_000), method=replace(method(), card=replace(VISA, last4=last4)))


def shown_methods(order: Order) -> Iterator[MethodType]:
    for payment in order.payments:
        yield payment.started.method.type
        if payment.started.method.type is MethodType.PAYCASH:
            yield MethodType.CIE_CASH_NET


def cards(order: Order) -> list[CardSummary]:
    return [each.started.method.card for each in order.payments if each.started.method.card is not None]


@pytest.fixture
async def market(shop: Shop) -> Market:
    customers: list[Customer] = []
    unknown = uuid7()
    for n, email in enumerate(EMAILS):
        source = {1: 0, 2: 1}.get(n)
        source_id = unknown if n > 3 else None if source is None else customers[source].customer_id
        customers.append(await customer(shop, f"customer-{n}", email, source_id))
    chance = random.Random(5)
    creations = []
    for n in range(300):
        events: tuple[Any, ...] = chance.choice(
            [
                (),
                paid(1, 10_000),
                (started(1, 10_000), authorization_requested(1, 10_000), declined(1)),
                (started(1, 4_000), by_card(2, "1881"), by_card(3, "0007")),
                (by_card(1, "1881"), started(2, 4_000, 0, MethodType.PAYCASH)),
                (started(1, 4_000, 0, MethodType.SPEI),),
                (started(1, 4_000, 0, MethodType.CIE_CASH_NET),),
                (by_card(1, "1881"), authorization_requested(1, 10_000)),
            ]
        )
        creation = shop.order(
            chance.choice(["Ref-{}", "ñandú {}", "50%_{}", "back\\{}", "o'{}", "STRASSE{}"]).format(n),
            *events,
            at=NOON - timedelta(hours=chance.randrange(100)),
            customer_id=chance.choice(customers).customer_id,
            invoice_number=chance.choice([None, f"F-{n}", f"A_{n}"]),
            due_date=chance.choice([None, NOW, NOW - timedelta(milliseconds=1), NOW + DAY]),
            amount=Decimal(chance.choice(["10000", "150.75", "25000"])),
            currency=chance.choice(["MXN", "MXN", "USD"]),
        )
        creations.append(creation)
    orders = []
    for first in range(0, len(creations), 4):  # a few in a commit leave the search enough small blocks to compact
        orders += await asyncio.gather(*creations[first : first + 4])
    return Market(shop, customers, orders)


def queries(customers: list[Customer]) -> Iterator[dict[str, Any]]:
    """Yields combinations of all filters and directions, shuffled so that any number of them is an even sample."""
    statuses: list[tuple[OrderStatus, ...]] = [
        (), (OrderStatus.PENDING,), (OrderStatus.COMPLETED, OrderStatus.FAILED), (OrderStatus.REFUNDED,),
    ]  # fmt: skip
    references = [(None, False), ("customer-1", False), (str(customers[2].customer_id), True), ("customer-4", True)]
    references += [("nobody", True), (str(uuid7()), False), ("customer-3", True), ("\0", False)]
    ranges = [(None, None), (NOON - 2 * DAY, None), (NOON - 3 * DAY, NOON - DAY), (NOON, NOON - DAY)]
    every = list(product(statuses, references, ranges, (False, True), (None, *TERMS), (False, True)))
    random.Random(7).shuffle(every)
    chance = random.Random(9)
    for wanted, (reference, related), (start, end), exclude, search, ascending in every:
        narrowed = chance.sample(list(NARROWING), chance.choice([0, 0, 0, 1, 1, 2]))
        yield {
            "statuses": wanted, "customer": reference, "related": related, "created_from": start, "created_to": end,
            "exclude_overdue": exclude, "search": search, "ascending": ascending, **{name: chance.choice(NARROWING[name]) for name in narrowed},
        }  # fmt: skip


@pytest.mark.parametrize("sample", [150, pytest.param(900, marks=pytest.mark.long)])
@pytest.mark.parametrize("lookups_max", [statements.LOOKUPS_MAX, 20])
async def test_every_combination_of_filters_lists_and_counts_the_same_as_the_model(
    market: Market, reader: Queries, database_url: str, monkeypatch: pytest.MonkeyPatch, lookups_max: int, sample: int
) -> None:
    monkeypatch.setattr(statements, "LOOKUPS_MAX", lookups_max)
    chance, found = random.Random(3), 0
    async with SearchCompactor(database_url) as packing:
        for n, query in enumerate(islice(queries(market.customers), sample)):
            if n == sample // 3:
                assert await packing.pack() > 0
            if n == 2 * sample // 3:
                market.customers[0] = await change_email(market.shop, market.customers[0], 1, "Ñata@example.net")
            whole = market.matching(OrderQuery(**query))
            limit, offset = chance.choice([1, 7, 100]), chance.choice([0, 0, 5, 290, 400])
            listed = await page(reader, market.shop, NOW, **query, limit=limit, offset=offset)
            assert ids(listed) == whole[offset : offset + limit], query
            assert listed["pagination"]["total"] == len(whole), query
            if (cursor := listed["pagination"]["nextCursor"]) is not None:
                then = await page(reader, market.shop, NOW, **query, limit=limit, cursor=CURSORS.parse(cursor))
                assert ids(then) == whole[offset + limit : offset + 2 * limit], query
                assert then["pagination"]["total"] == len(whole), query
            found += len(whole) > 0
    assert found > sample // 8, "combinations must not be empty by accident"


async def test_a_page_by_offset_that_skips_whole_days_is_the_same_page(
    market: Market, reader: Queries, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statements, "SKIPS_FROM", 1)
    some: list[tuple[OrderStatus, ...]] = [(), (OrderStatus.PENDING,), (OrderStatus.COMPLETED, OrderStatus.FAILED)]
    for wanted, ascending in product(some, (False, True)):
        whole = market.matching(OrderQuery(statuses=wanted, ascending=ascending))
        days = [order.terms.at.date() for order in market.orders if not wanted or order.status in wanted]
        ends = {sum(day > first for day in days) for first in days} | {sum(day < last for day in days) for last in days}
        for offset in sorted({1, 99, len(whole) - 1, len(whole), 400, *(end + n for end in ends for n in (-1, 0, 1))}):
            if offset > 0:
                query = {"statuses": wanted, "ascending": ascending, "limit": 7, "offset": offset}
                listed = await page(reader, market.shop, NOW, **query)
                assert ids(listed) == whole[offset : offset + 7], query
                assert listed["pagination"]["total"] == len(whole), query


@pytest.mark.parametrize(
    ("query", "is_skipping"),
    [
        (OrderQuery(offset=1_000), True),
        (OrderQuery(offset=1_000, statuses=(OrderStatus.PENDING,), ascending=True), True),
        (OrderQuery(offset=999), False),
        (OrderQuery(offset=1_000, created_from=NOON), False),
        (OrderQuery(offset=1_000, exclude_overdue=True), False),
        (OrderQuery(offset=1_000, search="po"), False),
    ],
)
def test_days_are_skipped_where_their_counters_have_just_the_orders_of_the_list(
    query: OrderQuery, is_skipping: bool
) -> None:
    found, _ = statements.page_statements(uuid7(), query, NOW)
    assert any("skipped" in statement for statement in found) is is_skipping


async def test_related_customers_are_the_whole_chain_in_both_directions_and_no_others(
    market: Market, reader: Queries
) -> None:
    chain = {str(one.customer_id) for one in market.customers[:3]}
    for name in ("customer-0", "customer-1", "customer-2"):
        listed = await page(reader, market.shop, customer=name, related=True, limit=100)
        assert {order["customer"]["id"] for order in listed["data"]} == chain


async def test_a_cycle_of_sources_ends(shop: Shop, reader: Queries, database_url: str) -> None:
    first = await customer(shop, "first", None)
    second = await customer(shop, "second", None, first.customer_id)
    await shop.order("one", customer_id=first.customer_id)
    await shop.order("two", customer_id=second.customer_id)
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(
            "update customer set source_id = %s where customer_id = %s", (second.customer_id, first.customer_id)
        )
    assert (await page(reader, shop, customer="first", related=True))["pagination"]["total"] == 2


async def test_more_related_customers_than_a_list_can_hold_are_refused_instead_of_cut_off(
    shop: Shop, reader: Queries, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = await customer(shop, "root", None)
    for n in range(3):
        await customer(shop, f"child-{n}", None, root.customer_id)
    monkeypatch.setattr(related_customers, "RELATED_MAX", 4)
    assert (await page(reader, shop, customer="root", related=True))["pagination"]["total"] == 0
    monkeypatch.setattr(related_customers, "RELATED_MAX", 3)
    with pytest.raises(InvalidField):
        await page(reader, shop, customer="root", related=True)


async def test_a_service_id_wins_over_an_external_id_that_looks_like_one(shop: Shop, reader: Queries) -> None:
    ana = await customer(shop, "ana-2", None)
    other = await customer(shop, str(ana.customer_id), None)
    await shop.order("one", customer_id=ana.customer_id)
    await shop.order("two", customer_id=other.customer_id)
    [order] = (await page(reader, shop, customer=str(ana.customer_id)))["data"]
    assert order["externalId"] == "one"


async def test_another_merchants_customer_and_texts_find_nothing(
    market: Market, journal: Journal, reader: Queries
) -> None:
    newcomer = await Shop(journal).open()
    mine = await newcomer.order("mine", customer_id=newcomer.ana.customer_id)
    for query in ({"customer": "customer-0"}, {"customer": str(market.customers[0].customer_id), "related": True}):
        assert (await page(reader, newcomer, **query))["pagination"]["total"] == 0
    for term in ("ref", "BEATRIZ", "f-1"):
        assert (await page(reader, newcomer, search=term))["pagination"]["total"] == 0
    assert ids(await page(reader, newcomer, search="ANA@")) == [str(mine.terms.order_id)]


async def test_each_narrowing_filter_alone_and_with_any_other_finds_what_the_model_finds(
    market: Market, reader: Queries
) -> None:
    single = [(name, value) for name, values in NARROWING.items() for value in values]
    for first, second in combinations_with_replacement(single, 2):
        query = dict([first, second])
        whole = market.matching(OrderQuery(**query))
        listed = await page(reader, market.shop, NOW, **query, limit=7, offset=3)
        assert (ids(listed), listed["pagination"]["total"]) == (whole[3:10], len(whole)), query


async def test_an_order_that_the_release_before_has_written_stops_filters_by_new_columns_alone(
    market: Market, reader: Queries, database_url: str
) -> None:
    [order] = [order for order in market.orders if order.terms.external_id.endswith("7")][:1]
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(
            "update payment_order set currency = null, amount = null, method_types = null where order_id = %s",
            [order.terms.order_id],
        )
    for query in ({"currency": "MXN"}, {"amount_min": Decimal(0)}, {"methods": (MethodType.SPEI,)}, {"last4": "1881"}):
        with pytest.raises(ReadModelBehind):
            await page(reader, market.shop, **query)
    assert ids(await page(reader, market.shop, external_id=order.terms.external_id)) == [str(order.terms.order_id)]
    assert (await page(reader, market.shop, email="ana@example.com"))["pagination"]["total"] > 0


async def test_an_email_of_more_customers_than_a_list_can_hold_is_refused_instead_of_cut_off(
    shop: Shop, reader: Queries, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(3):
        await customer(shop, f"guest-{n}", "guest@example.com")
    monkeypatch.setattr(references, "REFERENCES_MAX", 3)
    assert (await page(reader, shop, email="GUEST@example.com"))["pagination"]["total"] == 0
    monkeypatch.setattr(references, "REFERENCES_MAX", 2)
    with pytest.raises(InvalidField, match="email"):
        await page(reader, shop, email="guest@example.com")
