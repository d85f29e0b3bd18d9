"""Reads on the node of Citus that has the merchant: what was acknowledged is seen, wherever its shard has gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid4

import msgspec
import psycopg
import pytest
from campaigns.citus.cluster import CitusCluster
from tests.citus.shards import WAITING, clean_up, shard_to_move, split_shard
from tests.citus.test_shard_writers import name_server
from tests.journal.small_log import fetch
from tests.projections.shop import Shop
from tests.sealing import data_keys

from ledger.journal.commit.shard_writers import ShardWriters
from ledger.journal.journal import Journal
from ledger.postgres.embedded.cluster import PORT
from ledger.postgres.faults import DatabaseUnavailable
from projections.global_invoices import GlobalInvoiceQuery
from projections.inline import Inline
from projections.lists.customers import CustomerQuery
from projections.lists.pages import OrderQuery
from projections.payment_methods import MethodQuery
from projections.products import ProductQuery
from projections.queries import Queries
from projections.subscriptions.invoices import InvoiceQuery
from projections.subscriptions.plans import PlanQuery
from projections.subscriptions.subscriptions import SubscriptionQuery

pytestmark = [pytest.mark.anyio, pytest.mark.long]

MOVE = "select citus_move_shard_placement(%s, %s, %s, 'block_writes')"
NOW = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.fixture
async def journal(distributed_url: str) -> AsyncIterator[Journal]:
    journal = Journal(distributed_url, Inline(), data_keys(distributed_url), new_writer=ShardWriters)
    await journal.start()
    yield journal
    await journal.stop()


@pytest.fixture
async def shop(journal: Journal) -> Shop:
    return await Shop(journal).open()


@pytest.fixture
async def queries(distributed_url: str, journal: Journal) -> AsyncIterator[Queries]:
    queries = Queries(distributed_url, journal.reader.stream)
    await queries.start()
    yield queries
    await queries.stop()


async def seen(
    queries: Queries, shop: Shop, external_id: str, orders: int, by: Sequence[str] = ("id", "first page", "search")
) -> None:
    """Fails unless an order is found, and a first page and a search have so many orders."""
    if "id" in by:
        assert await queries.order(shop.merchant_id, external_id) is not None
    for name, query in (("first page", OrderQuery()), ("search", OrderQuery(search="pedido"))):
        if name in by:
            page = msgspec.json.decode(await queries.orders(shop.merchant_id, query, NOW))
            assert page["pagination"]["total"] == orders, name


async def refuse(*_: object) -> None:
    raise AssertionError("the coordinator was asked")


async def test_every_read_of_a_merchant_is_one_of_its_node(
    queries: Queries, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    await shop.order("pedido-1")
    for loader in (queries.points, queries._pages):
        monkeypatch.setattr(loader, "get", refuse)
    monkeypatch.setattr(queries._lists, "first_rows", refuse)
    merchant, customer = shop.merchant_id, shop.ana.customer_id
    await seen(queries, shop, "pedido-1", 1)
    some = OrderQuery(customer="ana", related=True, created_from=NOW - timedelta(days=900), exclude_overdue=True)
    for query in (
        some,
        OrderQuery(email="ana@example.com"),
        OrderQuery(external_id="pedido-1"),
        OrderQuery(last4="42"),
    ):
        assert await queries.orders(merchant, query, NOW)
    assert await queries.customer(merchant, customer)
    assert await queries.customer_detail(merchant, str(customer))
    assert await queries.orders_of(merchant, customer, UUID(int=0), 10)
    assert await queries.log_head(merchant) == 2
    assert await queries.month_end(merchant, 2026, 3, "America/Mexico_City")
    assert await queries.processor_accounts(merchant) == ()
    assert await queries.pending_global_invoices(merchant) == []
    assert await queries.global_candidates(merchant, NOW - timedelta(days=900), NOW, None) == []
    for body in (
        queries.customers(merchant, CustomerQuery()),
        queries.products(merchant, ProductQuery()),
        queries.global_invoices(merchant, GlobalInvoiceQuery()),
        queries.payment_methods(merchant, customer, MethodQuery()),
        queries.plans(merchant, PlanQuery()),
        queries.subscriptions(merchant, SubscriptionQuery(customer="ana", plan="oro")),
        queries.subscription_invoices(merchant, uuid4(), InvoiceQuery()),
    ):
        assert msgspec.json.decode(await body)["pagination"]
    for nothing in (
        queries.product(merchant, "taza"),
        queries.payment_method(merchant, uuid4()),
        queries.plan(merchant, "oro"),
        queries.subscription(merchant, "oro"),
        queries.subscription_invoice(merchant, uuid4()),
    ):
        assert await nothing is None


@pytest.mark.parametrize("by", ["id", "first page", "search"])
@pytest.mark.parametrize("cleans", [False, True], ids=["the former copy is there", "and was removed"])
async def test_a_shard_that_has_moved_is_read_where_it_is(
    queries: Queries, shop: Shop, distributed_url: str, cleans: bool, by: str
) -> None:
    await shop.order("pedido-1")
    await seen(queries, shop, "pedido-1", 1, [by])
    for number in range(2, 4):  # there, and back
        place = shard_to_move(distributed_url, shop.merchant_id)
        await asyncio.to_thread(fetch, distributed_url, MOVE, *place)
        if cleans:
            await asyncio.to_thread(clean_up, distributed_url)
        await shop.order(f"pedido-{number}")
        await seen(queries, shop, f"pedido-{number}", number, [by])
        while queries._nodes._suspended:  # the node answers again
            await asyncio.sleep(0.05)
            await seen(queries, shop, f"pedido-{number}", number, [by])


async def test_a_shard_that_was_split_is_read(queries: Queries, shop: Shop, distributed_url: str) -> None:
    await shop.order("pedido-1")
    await seen(queries, shop, "pedido-1", 1)
    await asyncio.to_thread(split_shard, distributed_url, shop.merchant_id)
    await shop.order("pedido-2")
    await seen(queries, shop, "pedido-2", 2)


async def test_what_was_acknowledged_is_seen_while_a_shard_moves(
    queries: Queries, shop: Shop, distributed_url: str
) -> None:
    orders, is_moving = 0, True

    async def write_and_read() -> None:
        nonlocal orders
        while is_moving:
            with suppress(DatabaseUnavailable):
                await shop.order(f"pedido-{orders + 1}")
                orders += 1
                await seen(queries, shop, f"pedido-{orders}", orders)

    writing = asyncio.create_task(write_and_read())
    for mode in ("force_logical", "block_writes", "force_logical"):
        place = shard_to_move(distributed_url, shop.merchant_id)
        move = f"select citus_move_shard_placement(%s, %s, %s, '{mode}')"
        await asyncio.to_thread(fetch, distributed_url, move, *place)
    is_moving = False
    await writing
    assert orders


async def test_reads_are_answered_while_a_move_keeps_commits_waiting(
    queries: Queries, shop: Shop, distributed_url: str
) -> None:
    await shop.order("pedido-1")
    async with await psycopg.AsyncConnection.connect(distributed_url) as mover:
        await mover.execute(MOVE, shard_to_move(distributed_url, shop.merchant_id))
        await seen(queries, shop, "pedido-1", 1)
        assert queries._nodes._suspended, "the node was asked"
        assert fetch(distributed_url, WAITING) == [], "and no read waits there any more"
        await mover.rollback()


async def test_a_node_that_is_down_fails_the_reads_of_its_merchants_alone(
    cluster: CitusCluster, journal: Journal, queries: Queries, distributed_url: str
) -> None:
    ((worker,),) = fetch(
        distributed_url, "select nodeid from pg_dist_node where nodename = %s", str(cluster.nodes[1].cluster.sockets)
    )
    down = await shop_where(journal, lambda merchant: shard_to_move(distributed_url, merchant)[1] == worker)
    other = await shop_where(journal, lambda merchant: shard_to_move(distributed_url, merchant)[1] != worker)
    for each in (down, other):
        await each.order("pedido-1")
    later = Queries(distributed_url, journal.reader.stream)
    cluster.nodes[1].stop(at_once=True)
    try:
        with pytest.raises(DatabaseUnavailable):
            await queries.order(down.merchant_id, "pedido-1")
        await later.start()
        for each in (queries, later):
            await asyncio.gather(*[seen(each, other, "pedido-1", 1) for _ in range(20)])
            with pytest.raises(DatabaseUnavailable):
                await each.order(down.merchant_id, "pedido-1")
    finally:
        while not cluster.nodes[1].tick():  # noqa: ASYNC110 - no event
            await asyncio.sleep(0.01)
    for each in (queries, later):
        await seen_again(each, down)
    await later.stop()


async def shop_where(journal: Journal, holds: Callable[[UUID], bool]) -> Shop:
    """Returns a shop whose merchant is as asked for."""
    while True:
        shop = await Shop(journal).open()
        if holds(shop.merchant_id):
            return shop


async def seen_again(queries: Queries, shop: Shop) -> None:
    """Reads until the shop's one order is found everywhere."""
    while True:
        with suppress(DatabaseUnavailable):
            await seen(queries, shop, "pedido-1", 1)
            return
        await asyncio.sleep(0.01)


async def test_a_node_that_another_server_has_become_is_followed_and_one_that_was_removed_is_left(
    cluster: CitusCluster, journal: Journal, distributed_url: str
) -> None:
    sockets = cluster.nodes[1].cluster.sockets
    old, new = (sockets.parent.parent / uuid4().hex[:8] for _ in range(2))
    old.symlink_to(sockets)
    new.symlink_to(sockets)
    ((node,),) = fetch(distributed_url, "select nodeid from pg_dist_node where nodename = %s", str(sockets))
    shop = await shop_where(journal, lambda merchant: shard_to_move(distributed_url, merchant)[1] == node)
    await shop.order("pedido-1")
    name_server(distributed_url, node, old)
    queries = Queries(distributed_url, journal.reader.stream)
    await queries.start()
    await seen(queries, shop, "pedido-1", 1)

    name_server(distributed_url, node, new)
    old.unlink()
    end_sessions = "select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'ledger-%%'"
    await asyncio.to_thread(fetch, cluster.nodes[1].url, end_sessions)
    await seen_again(queries, shop)

    await asyncio.to_thread(fetch, distributed_url, "select citus_drain_node(%s, %s, 'block_writes')", str(new), PORT)
    await seen(queries, shop, "pedido-1", 1)
    await asyncio.to_thread(fetch, distributed_url, "select citus_remove_node(%s, %s)", str(new), PORT)
    await seen(queries, shop, "pedido-1", 1)
    await queries.stop()
