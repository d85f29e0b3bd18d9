"""A node of Citus that is down: the merchants of the other nodes are served."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from campaigns.citus.cluster import CitusCluster
from tests.journal.small_log import fetch
from tests.operations.conftest import an_order, by_card, register

from ledger.background.reactions.dispatcher import Dispatcher
from ledger.background.reactions.feed import Feed
from ledger.background.reactions.numbering import EventNumbers
from ledger.background.reactions.registry import HANDLERS, REACTIONS
from ledger.background.reactions.runner import ReactionRunner
from ledger.background.scheduler.jobs import Jobs
from ledger.domain.orders.statuses import OrderStatus
from ledger.domain.streams import CUSTOMERS, ORDERS, ClaimKind
from ledger.journal.commit.shard_writers import ShardWriters
from ledger.operations.context.inputs import Actor
from ledger.operations.context.ledger import Ledger
from ledger.operations.orders.create import create_order
from ledger.postgres.faults import DatabaseUnavailable, Fault
from ledger.settings import Settings
from projections.queries import Queries

NUMBERED = "select from public_event where merchant_id = %s limit 1"
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


async def is_seen(url: str, merchant: Actor) -> bool:
    """Returns whether a merchant's events have numbers, and every reaction has seen some."""
    reacted = await asyncio.to_thread(fetch, url, REACTED, merchant.merchant_id)
    return len(reacted) == len(REACTIONS) and bool(await asyncio.to_thread(fetch, url, NUMBERED, merchant.merchant_id))
