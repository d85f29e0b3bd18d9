"""A node of Citus that is down: the merchants of the other nodes are served."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from uuid import UUID, uuid4

import psycopg
import pytest
from campaigns.citus.cluster import CitusCluster
from tests.background.deliveries import Worker, an_endpoint, deliveries, receiving, until, working
from tests.background.test_deliveries import settled
from tests.citus.shards import merchants_on
from tests.citus.test_sealing import NOON, set_back
from tests.journal.small_log import fetch
from tests.operations.conftest import SILENT, an_order, by_card
from tests.tlog.logs import assert_sealed, sealer_of

from ledger.background.deliveries import delivery, retention
from ledger.background.deliveries.health import Health
from ledger.background.deliveries.outcomes import DeliveryRow, Outcomes, OutcomeWriter
from ledger.background.deliveries.store import DeliveryStore, Lease
from ledger.background.reactions.dispatcher import Dispatcher
from ledger.background.reactions.feed import Feed
from ledger.background.reactions.numbering import EventNumbers
from ledger.background.reactions.registry import HANDLERS, REACTIONS
from ledger.background.reactions.runner import ReactionRunner
from ledger.background.recovery import Recovery, Windows
from ledger.background.scheduler.jobs import Jobs
from ledger.domain.orders.statuses import OrderStatus
from ledger.domain.streams import CUSTOMERS, ORDERS, ClaimKind
from ledger.journal.commit.notifier import CHANNEL, merchants_in
from ledger.operations.context.inputs import Actor
from ledger.operations.context.ledger import Ledger
from ledger.operations.erasure.erase_customer import delete_customer
from ledger.operations.orders.create import create_order
from ledger.operations.pipeline.unit_of_work import load_order
from ledger.postgres.connection import connect
from ledger.postgres.faults import DatabaseUnavailable, Fault
from ledger.settings import Settings
from ledger.tlog.checkpoint_files import CheckpointFiles
from projections.erasures import Erasures
from projections.orders.open_calls import OpenCalls
from projections.queries import Queries
from projections.search.compaction import SearchCompactor

NUMBERED = "select from public_event where merchant_id = %s limit 1"
AFTERWARDS: Final = Windows(margin_s=-3600, late_s=-3600)
LATER: Final = datetime(2100, 1, 1, tzinfo=UTC)
REACTED = "select from reaction_cursor where merchant_id = %s and position > 0"

DELIVERY: Final = """
insert into webhook_delivery (merchant_id, endpoint_id, id, event_id, sequence, kind, stream_id, status, is_repeat,
                              attempts, customer_id, has_texts)
values (%s, gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), 1, 'k', gen_random_uuid(), 'SUCCEEDED', false,
        '[{"responseBody": "Ana!"}]', %s, true)
returning true
"""

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


@contextmanager
def silent(cluster: CitusCluster) -> Iterator[None]:
    """Has every process of the first worker stopped until the block ends: its connections stay open, and it says
    nothing.
    """
    server = cluster.nodes[1].pid
    listed = subprocess.run(["pgrep", "-P", str(server)], capture_output=True, text=True, check=True)
    processes = [int(server or 0), *map(int, listed.stdout.split())]
    for process in processes:
        os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        for process in processes:
            os.kill(process, signal.SIGCONT)


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
    """Also of what happened before this worker began to listen, without a further notification."""
    lost, served = await merchants_on(cluster, ledger)
    url, stop = settings.database_url, asyncio.Event()
    assert url is not None
    feed, numbers = Feed(url, ledger.journal), EventNumbers(url, ledger.journal)
    async with await connect(url, "test") as listening:
        await listening.execute(f"listen {CHANNEL}")
        for merchant in (lost, served):
            await feed.begin(merchant.merchant_id)
            await create_order(ledger, merchant, an_order("1", by_card()))
        heard = {each async for said in listening.notifies(timeout=1.0) for each in merchants_in(said.payload)}
        assert heard >= {lost.merchant_id, served.merchant_id}, "nothing of them is notified later"
    async with Jobs(url, ledger, HANDLERS) as jobs:
        dispatcher = Dispatcher(ledger.journal, jobs, REACTIONS)
        with down(cluster):
            running = asyncio.create_task(ReactionRunner(url, dispatcher, jobs, numbers).run(stop))
            await until_true(lambda: is_seen(url, served))
        await until_true(lambda: is_seen(url, lost))
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


async def test_webhooks_of_the_other_nodes_merchants_are_delivered_and_their_outcomes_written(
    cluster: CitusCluster, ledger: Ledger, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An attempt is under way at a merchant of each node when one of the nodes is lost."""
    monkeypatch.setattr(delivery, "RETRY_DELAYS", (timedelta(hours=1),))
    url = settings.database_url or ""
    lost, served = await merchants_on(cluster, ledger)

    first: dict[str, str] = {}

    def refuse_first(event: Mapping[str, Any], _: int) -> int:
        return 500 if first.setdefault(event["path"], event["id"]) == event["id"] else 204

    async def order(worker: Worker, merchant: Actor, name: str) -> None:
        await create_order(ledger, merchant, an_order(name))
        await worker.number([merchant.merchant_id])

    async with (
        receiving(refuse_first) as receiver,
        working(url, ledger) as worker,
    ):
        of_lost, of_served = [
            (await an_endpoint(url, ledger, merchant, receiver.url + path, events=("payment_order.*",)))[0]
            for merchant, path in ((lost, "/lost"), (served, "/served"))
        ]
        receiver.go_on.clear()
        for merchant in (lost, served):
            await order(worker, merchant, "1")
        await until(lambda: receiver.under_way == 2)
        with down(cluster):
            receiver.go_on.set()
            await settled(url, of_served, ("PENDING", 1))
            await order(worker, served, "2")
            await settled(url, of_served, ("PENDING", 1), ("SUCCEEDED", 1))
            worker.sender.sessions[of_served].lose()  # as any session ends
            await until(lambda: of_served not in worker.sender.sessions)
            await order(worker, served, "3")
            await settled(url, of_served, ("PENDING", 1), ("SUCCEEDED", 1), ("SUCCEEDED", 1))
            await worker.sender._look()
            assert deliveries(url, of_lost) == [], "whom it is about is not known"
            assert not worker.sender.sessions[of_lost].is_lost, "that the node is away does not mean that its lease is"
        await settled(url, of_lost, ("PENDING", 1))
        assert persons(url, lost) == customers(url, lost)
        await until_true(lambda: is_done(order(worker, lost, "2")))
        await settled(url, of_lost, ("PENDING", 1), ("SUCCEEDED", 1))
        for path, number in (("/lost", 2), ("/served", 3)):
            assert len(receiver.sequences(path)) == number
            assert receiver.sequences(path) == sorted(set(receiver.sequences(path))), "each once, and in order"


async def test_a_silent_node_keeps_the_other_nodes_merchants_from_nothing_for_good(
    cluster: CitusCluster, ledger: Ledger, settings: Settings
) -> None:
    url = settings.database_url or ""
    lost, served = await merchants_on(cluster, ledger)
    for merchant in (lost, served):
        await create_order(ledger, merchant, an_order("1", by_card(SILENT)))
    async with OpenCalls(url) as open_calls, receiving() as receiver, working(url, ledger) as worker:
        for merchant in (lost, served):
            await an_endpoint(url, ledger, merchant, receiver.url + "/hook", events=("payment_order.*",))
        assert len(await open_calls.due(LATER, 10)) == 2
        with silent(cluster):
            await create_order(ledger, served, an_order("2"))
            await worker.number([served.merchant_id])
            ((found, _),) = await open_calls.due(LATER, 10)
            assert found == served.merchant_id
            await until(lambda: len(receiver.arrivals) == 1)


async def test_the_texts_of_erased_persons_are_removed_once_their_node_is_back(
    cluster: CitusCluster, ledger: Ledger, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "_HOUR_S", 0.0)
    url = settings.database_url or ""
    merchants = await merchants_on(cluster, ledger)
    store = DeliveryStore(url)
    texts = retention.Erasures(store)
    async with Erasures(url) as erasures:
        for merchant in merchants:
            order = (await create_order(ledger, merchant, an_order("1"))).order
            await delete_customer(ledger, merchant, str(order.terms.customer_id), erasures.orders_of)
            fetch(url, DELIVERY, merchant.merchant_id, order.terms.customer_id)
    with down(cluster):
        await texts.forget()
        assert texts_of(url) == {merchants[0].merchant_id}

    async def are_gone() -> bool:
        await texts.forget()
        return not texts_of(url)

    await until_true(are_gone)
    await store.stop()


async def test_the_persons_of_deliveries_are_those_that_their_own_node_has(
    cluster: CitusCluster, ledger: Ledger, settings: Settings
) -> None:
    merchants = await merchants_on(cluster, ledger)
    terms = [(await create_order(ledger, merchant, an_order("1"))).order.terms for merchant in merchants]
    leases = [Lease(merchant.merchant_id, uuid4(), uuid4()) for merchant in merchants]
    some = [
        Outcomes(lease, 1, Health(), [a_delivery(each.order_id)]) for lease, each in zip(leases, terms, strict=True)
    ]
    writer = OutcomeWriter(settings.database_url or "")

    async def found(some: Sequence[Outcomes]) -> tuple[list[str], set[UUID]]:
        given, away = await writer._with_persons(some)
        return [row["person"] for each in given for row in each["rows"]], away

    expected = [str(each.customer_id) for each in terms]
    assert await found(some) == (expected, set())
    assert await found(some[::-1]) == (expected[::-1], set())
    with down(cluster):
        assert await found(some) == (expected[1:], {leases[0].holder})
    await writer.stop()


def a_delivery(stream_id: UUID) -> DeliveryRow:
    """Returns a delivery of an event of a stream that the receiver has answered."""
    return DeliveryRow(
        id=uuid4(),
        event_id=uuid4(),
        sequence=1,
        kind="payment_order.created",
        stream_id=stream_id,
        resource_id=None,
        is_repeat=False,
        status=delivery.DeliveryStatus.PENDING,
        next_attempt_at=None,
        first_failed_at=None,
        attempts=(),
        body=b"{}",
        has_answers=True,
        is_new=True,
    )


def texts_of(url: str) -> set[UUID]:
    """Returns the merchants of deliveries that have texts."""
    return {merchant_id for (merchant_id,) in fetch(url, "select merchant_id from webhook_delivery where has_texts")}


def persons(url: str, merchant: Actor) -> list[tuple[UUID | None]]:
    """Returns the persons of a merchant's deliveries."""
    return fetch(url, "select customer_id from webhook_delivery where merchant_id = %s", merchant.merchant_id)


def customers(url: str, merchant: Actor) -> list[tuple[UUID | None]]:
    return fetch(url, "select customer_id from customer where merchant_id = %s", merchant.merchant_id)


async def is_done(work: Coroutine[None, None, object]) -> bool:
    """Does work. Returns False if the node does not answer yet."""
    try:
        await work
    except (Fault, psycopg.OperationalError):
        return False
    return True


async def test_logs_of_the_other_nodes_merchants_are_sealed_and_the_lost_ones_later(
    cluster: CitusCluster, ledger: Ledger, settings: Settings, tmp_path: Path
) -> None:
    lost, served = await merchants_on(cluster, ledger)
    url, files = settings.database_url or "", CheckpointFiles(f"file://{tmp_path}")
    async with sealer_of(url, folder=tmp_path) as sealer, sealer_of(url, folder=tmp_path) as beginning:
        for merchant in (lost, served):
            await create_order(ledger, merchant, an_order("1"))
        await sealer.round(asyncio.Event(), NOON)
        sealed = (await files.saved(date.max)).sizes
        for merchant in (lost, served):
            await create_order(ledger, merchant, an_order("2"))
        with down(cluster):
            for name, each in enumerate((sealer, beginning)):
                await create_order(ledger, served, an_order(f"at {name}"))
                with pytest.raises(DatabaseUnavailable):
                    await each.round(asyncio.Event(), NOON)
                assert (await files.saved(date.max)).sizes[served.merchant_id] == head(url, served)
            assert (await files.saved(date.max)).sizes[lost.merchant_id] == sealed[lost.merchant_id]
        await until_true(lambda: is_done(sealer.round(asyncio.Event(), NOON)))
        assert (await files.saved(date.max)).sizes[lost.merchant_id] > sealed[lost.merchant_id]
    for merchant in (lost, served):
        assert_sealed(url, merchant.merchant_id)


async def test_a_node_that_comes_back_older_is_compared_although_a_day_has_begun_without_it(
    cluster: CitusCluster, ledger: Ledger, settings: Settings, distributed_url: str, tmp_path: Path
) -> None:
    """A standby was promoted that lacks what another worker has signed the day before."""
    lost, served = await merchants_on(cluster, ledger)
    url, merchant_id = settings.database_url or "", lost.merchant_id
    async with sealer_of(url, folder=tmp_path) as sealer:
        await create_order(ledger, lost, an_order("1"))
        await sealer.round(asyncio.Event(), NOON)
        (tree,) = fetch(distributed_url, "select size, edge from log_tree where merchant_id = %s", merchant_id)
        await create_order(ledger, lost, an_order("2"))
        async with sealer_of(url, folder=tmp_path) as other:
            await other.round(asyncio.Event(), NOON)
        set_back(distributed_url, lost, *tree)
        with down(cluster):
            await create_order(ledger, served, an_order("1"))
            with pytest.raises(DatabaseUnavailable):
                await sealer.round(asyncio.Event(), NOON + timedelta(days=1))
        for name in ("3", "4", "5"):
            await until_true(lambda name=name: is_done(create_order(ledger, lost, an_order(name))))
        async with sealer_of(url, folder=tmp_path) as beginning:
            for each in (sealer, beginning):
                await until_true(lambda each=each: is_done(each.round(asyncio.Event(), NOON + timedelta(days=1))))
    sizes = fetch(distributed_url, "select max(size) from log_checkpoint where merchant_id = %s", merchant_id)
    assert sizes == [(tree[0],)], "nothing was signed that contradicts what is outside"


def head(url: str, merchant: Actor) -> int:
    """Returns the position of the last event of a merchant's log."""
    ((position,),) = fetch(url, "select position from merchant_head where merchant_id = %s", merchant.merchant_id)
    return int(position)


async def until_true(look: Callable[[], Awaitable[object]]) -> None:
    """Waits until a look finds something."""
    async with asyncio.timeout(60.0):
        while not await look():  # noqa: ASYNC110 - no event
            await asyncio.sleep(0.05)


async def is_equal(found: Awaitable[Sequence[tuple[UUID, UUID]]], expected: set[tuple[UUID, UUID | None]]) -> bool:
    return set(await found) == expected


async def is_seen(url: str, merchant: Actor) -> bool:
    """Returns whether a merchant's events have numbers, and every reaction has seen some."""
    try:
        reacted = await asyncio.to_thread(fetch, url, REACTED, merchant.merchant_id)
        numbered = await asyncio.to_thread(fetch, url, NUMBERED, merchant.merchant_id)
    except psycopg.OperationalError:  # its node is not back yet
        return False
    return len(reacted) == len(REACTIONS) and bool(numbered)
