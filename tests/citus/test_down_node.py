"""A node of Citus that is down: the merchants of the other nodes are served."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Final
from uuid import UUID

import pytest
from campaigns.citus.cluster import CitusCluster
from tests.journal.small_log import fetch
from tests.operations.conftest import SILENT, an_order, by_card, register

from ledger.background.reactions.dispatcher import Dispatcher
from ledger.background.reactions.feed import Feed
from ledger.background.reactions.numbering import EventNumbers
from ledger.background.reactions.registry import HANDLERS, REACTIONS
from ledger.background.reactions.runner import ReactionRunner
from ledger.background.recovery import Recovery, Windows
from ledger.background.scheduler.jobs import Jobs
from ledger.domain.orders.statuses import OrderStatus
from ledger.domain.streams import CUSTOMERS, ORDERS, ClaimKind
from ledger.journal.commit.shard_writers import ShardWriters
from ledger.operations.context.inputs import Actor
from ledger.operations.context.ledger import Ledger
from ledger.operations.erasure.erase_customer import delete_customer
from ledger.operations.orders.create import create_order
from ledger.operations.pipeline.unit_of_work import load_order
from ledger.postgres.faults import DatabaseUnavailable, Fault
from ledger.settings import Settings
from projections.erasures import Erasures
from projections.orders.open_calls import OpenCalls
from projections.queries import Queries
from projections.search.compaction import SearchCompactor

NUMBERED = "select from public_event where merchant_id = %s limit 1"
AFTERWARDS: Final = Windows(margin_s=-3600, late_s=-3600)
LATER: Final = datetime(2100, 1, 1, tzinfo=UTC)
REACTED = "select from reaction_cursor where merchant_id = %s and position > 0"

pytestmark = [pytest.mark.anyio, pytest.mark.long]


@contextmanager
def down(cluster: CitusCluster) -> Iterator[None]:
    """Has the first worker down until the block ends, and answer again then."""
    worker = cluster.nodes[1]
    worker.stop(at_once=True)
    try:
        yield
    finally:
        while not worker.tick():
            pass


async def merchants_on(cluster: CitusCluster, ledger: Ledger) -> tuple[Actor, Actor]:
    """Returns a merchant on the first worker, and one on the other."""
    assert isinstance(ledger.journal.writer, ShardWriters)
    found: dict[bool, Actor] = {}
    while len(found) < 2:
        merchant = await register(ledger)
        url = ledger.journal.writer.shards.of(merchant.merchant_id.bytes).url
        found.setdefault(str(cluster.nodes[1].cluster.sockets) in url, merchant)
    return found[True], found[False]


async def test_orders_of_another_nodes_merchant_are_taken_beside_those_that_are_refused(
    cluster: CitusCluster, ledger: Ledger
) -> None:
    lost, served = await merchants_on(cluster, ledger)
    for merchant in (lost, served):
        await create_order(ledger, merchant, an_order("1", by_card()))
    with down(cluster):
        refused, receipt = await asyncio.gather(
            *[create_order(ledger, merchant, an_order("2", by_card())) for merchant in (lost, served)],
            return_exceptions=True,
        )
        assert isinstance(refused, Fault)
        assert not isinstance(receipt, BaseException)
        assert receipt.order.status is OrderStatus.COMPLETED
        assert (await create_order(ledger, served, an_order("1", by_card()))).replayed


async def test_a_read_that_shares_a_round_trip_with_one_of_a_lost_node_is_answered(
    cluster: CitusCluster, ledger: Ledger, settings: Settings
) -> None:
    merchants = await merchants_on(cluster, ledger)
    terms = [(await create_order(ledger, merchant, an_order("1", by_card()))).order.terms for merchant in merchants]
    journal, ids = ledger.journal, [merchant.merchant_id for merchant in merchants]
    assert settings.database_url is not None
    queries = Queries(settings.database_url)
    await queries.start()
    with down(cluster):
        for reads in (
            [journal.load(each, ORDERS, of.order_id) for each, of in zip(ids, terms, strict=True)],
            [journal.load(each, CUSTOMERS, of.customer_id) for each, of in zip(ids, terms, strict=True)],
            [journal.claim_owner(each, ClaimKind.ORDER_EXTERNAL_ID, "1") for each in ids],
            [journal.reader.last_event(each, ClaimKind.CUSTOMER_EXTERNAL_ID, "none") for each in ids],
            [queries.order(each, "1") for each in ids],
        ):
            refused, answered = await asyncio.gather(*reads, return_exceptions=True)
            assert isinstance(refused, DatabaseUnavailable)
            assert not isinstance(answered, BaseException)
    await queries.stop()


async def test_what_happens_at_the_other_nodes_is_reacted_to_and_numbered(
    cluster: CitusCluster, ledger: Ledger, settings: Settings
) -> None:
    lost, served = await merchants_on(cluster, ledger)
    url, stop = settings.database_url, asyncio.Event()
    assert url is not None
    feed, numbers = Feed(url, ledger.journal), EventNumbers(url, ledger.journal)
    for merchant in (lost, served):
        await feed.begin(merchant.merchant_id)
        await create_order(ledger, merchant, an_order("1", by_card()))
    with down(cluster):
        async with Jobs(url, ledger, HANDLERS) as jobs:
            dispatcher = Dispatcher(ledger.journal, jobs, REACTIONS)
            running = asyncio.create_task(ReactionRunner(url, dispatcher, jobs, numbers).run(stop))
            order = 1
            while not await is_seen(url, served):
                assert not running.done()
                order += 1
                await create_order(ledger, served, an_order(str(order), by_card()))
                await asyncio.sleep(0.5)
            stop.set()
            await running
    await feed.stop()
    await numbers.stop()


async def test_calls_without_an_outcome_are_looked_up_for_merchants_of_the_other_nodes(
    cluster: CitusCluster, ledger: Ledger, settings: Settings
) -> None:
    url = settings.database_url
    assert url is not None
    lost, served = await merchants_on(cluster, ledger)
    orders = [
        (await create_order(ledger, merchant, an_order(name, by_card(SILENT)))).order.terms.order_id
        for name in ("1", "2")
        for merchant in (lost, served)
    ]

    async def outcomes(merchant: Actor, orders: Sequence[UUID]) -> list[tuple[OrderStatus, int]]:
        found = [await load_order(ledger, merchant.merchant_id, order_id) for order_id in orders]
        return [(order.status, order.amount_paid) for order in found]

    async with OpenCalls(url) as open_calls:
        recovery = Recovery(ledger, open_calls.due, AFTERWARDS)
        with down(cluster):
            await recovery.sweep()
            assert await outcomes(served, orders[1::2]) == 2 * [(OrderStatus.COMPLETED, 10_000)]
            await recovery.sweep()
            assert await open_calls.due(LATER, 10) == [], "what is recovered is due no more, and the others are away"
        await until_true(lambda: open_calls.due(LATER, 10))
        while await open_calls.due(LATER, 10):
            await recovery.sweep()
        assert await outcomes(lost, orders[::2]) == 2 * [(OrderStatus.COMPLETED, 10_000)]


async def test_erasures_are_finished_for_merchants_of_the_other_nodes(
    cluster: CitusCluster, ledger: Ledger, settings: Settings
) -> None:
    merchants = await merchants_on(cluster, ledger)
    customers = [
        (await create_order(ledger, merchant, an_order("1", by_card()))).order.terms.customer_id
        for merchant in merchants
    ]
    (lost, served) = [(merchant.merchant_id, each) for merchant, each in zip(merchants, customers, strict=True)]
    url = settings.database_url or ""
    async with Erasures(url) as erasures, SearchCompactor(url, rows_min=100) as search:
        for merchant, customer_id in zip(merchants, customers, strict=True):
            await delete_customer(ledger, merchant, str(customer_id), erasures.orders_of)
        with down(cluster):
            assert await erasures.unfinished(10) == [served]
            assert await search.pack() == 1, "the e-mail of the person leaves the search lines"
            assert await search.pack() == 0
        await until_true(lambda: is_equal(erasures.unfinished(10), {lost, served}))
        await until_true(search.pack)


async def until_true(look: Callable[[], Awaitable[object]]) -> None:
    """Waits until a look finds something."""
    while not await look():  # noqa: ASYNC110 - no event
        await asyncio.sleep(0.05)


async def is_equal(found: Awaitable[Sequence[tuple[UUID, UUID]]], expected: set[tuple[UUID, UUID | None]]) -> bool:
    return set(await found) == expected


async def is_seen(url: str, merchant: Actor) -> bool:
    """Returns whether a merchant's events have numbers, and every reaction has seen some."""
    reacted = await asyncio.to_thread(fetch, url, REACTED, merchant.merchant_id)
    return len(reacted) == len(REACTIONS) and bool(await asyncio.to_thread(fetch, url, NUMBERED, merchant.merchant_id))
