"""An order in flight has no rendered bytes in its row. Reads fold it up to the row's version, and show nothing newer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.domain.builders import (
    NOON,
    authorization_requested,
    authorized_and_captured,
    declined,
    paid,
    refund_requested,
    refunded,
    started,
    unanswered,
)
from tests.domain.invoices.stamper import ENABLED, FISCAL, next_command
from tests.projections.listing import ids, page
from tests.projections.shop import Shop

from ledger.domain.invoices.commands import StampRequest
from ledger.domain.invoices.decide.stamping import decide_next
from ledger.domain.orders.state import Order
from ledger.domain.orders.statuses import OrderStatus
from ledger.journal.append import SealBroken
from ledger.journal.journal import Journal
from projections.lists.cursor import CURSORS
from projections.lists.pages import OrderQuery
from projections.orders.head import render_head
from projections.orders.payments import render_payments
from projections.queries import Queries

pytestmark = pytest.mark.anyio

SECOND = timedelta(seconds=1)
CALLED = (started(1, 10_000), authorization_requested(1, 10_000))
UNANSWERED = (*CALLED, unanswered(1))
REFUNDING = (*paid(1, 10_000), refund_requested(1, 4_000))
OUTCOMES: dict[tuple[Any, ...], Sequence[tuple[Any, ...]]] = {
    CALLED: [authorized_and_captured(1, 10_000), (declined(1),), (unanswered(1),)],
    UNANSWERED: [authorized_and_captured(1, 10_000), (declined(1),)],
    REFUNDING: [(refunded(1, 4_000),)],
}
"""What leaves a call open, and what can be committed next."""


def stored(url: str, order: Order) -> tuple[bytes, bytes]:
    with psycopg.connect(url) as connection:
        query = "select head, payments from payment_order where order_id = %s"
        (row,) = connection.execute(query, (order.terms.order_id,)).fetchall()
    return row


@asynccontextmanager
async def reading(url: str, read: Callable[[UUID, UUID], Awaitable[Sequence[Any]]]) -> AsyncIterator[Queries]:
    """Queries that read the log by `read`."""
    queries = Queries(url, read)
    await queries.start()
    yield queries
    await queries.stop()


def shown(order: Order) -> dict[str, Any]:
    """Returns what a list shows of an order, without its customer and `isOverdue`."""
    fields: dict[str, Any] = json.loads(render_head(order))
    return fields


def heads(listed: dict[str, Any]) -> list[dict[str, Any]]:
    later = {"customer", "payments", "isOverdue"}
    return [{name: value for name, value in order.items() if name not in later} for order in listed["data"]]


@pytest.mark.parametrize("events", OUTCOMES, ids=["called", "unanswered", "refunding"])
async def test_an_order_in_flight_is_read_by_either_id_as_it_is(
    shop: Shop, reader: Queries, database_url: str, events: tuple[Any, ...]
) -> None:
    order = await shop.order("A/1", *events)
    assert stored(database_url, order) == (b"", b"")
    row = await reader.order(shop.merchant_id, str(order.terms.order_id))
    assert row is not None
    assert (row.order_id, row.head, row.payments) == (
        str(order.terms.order_id),
        render_head(order),
        render_payments(order),
    )
    assert await reader.order(shop.merchant_id, "A/1") == row
    order = await shop.then(order, *OUTCOMES[events][0])
    assert stored(database_url, order) == (render_head(order), render_payments(order))


async def test_an_order_whose_document_is_being_stamped_is_read_as_it_is(
    shop: Shop, reader: Queries, database_url: str
) -> None:
    order = await shop.order("1", ENABLED, *paid(1, 10_000), fiscal=FISCAL)
    order = await shop.then(order, *decide_next(order, next_command(request=StampRequest())))
    assert stored(database_url, order) == (b"", b"")
    row = await reader.order(shop.merchant_id, "1")
    assert row is not None
    assert row.head == render_head(order)


async def test_pages_of_every_kind_show_orders_in_flight_among_others(shop: Shop, reader: Queries) -> None:
    orders = [
        await shop.order(f"pedido-{n}", *events, at=NOON + n * SECOND)
        for n, events in enumerate(((), CALLED, paid(1, 10_000), UNANSWERED, REFUNDING, ()))
    ]
    newest = [shown(order) for order in reversed(orders)]
    in_flight = [head for head in newest if head["status"] == "PROCESSING"]
    assert len(in_flight) == 2
    for query in (
        {},
        {"offset": 0, "limit": 100},
        {"customer": str(shop.ana.customer_id)},
        {"search": "pedido-"},
        {"search": "ana@example.com"},
        {"search": "ped", "created_from": NOON},
        {"created_from": NOON, "created_to": NOON + 9 * SECOND},
        {"exclude_overdue": True},
    ):
        assert heads(await page(reader, shop, **query)) == newest, query
    assert heads(await page(reader, shop, ascending=True)) == newest[::-1]
    assert heads(await page(reader, shop, offset=1, limit=2)) == newest[1:3]
    for query in ({}, {"search": "pedido"}, {"customer": str(shop.ana.customer_id)}):
        assert heads(await page(reader, shop, statuses=(OrderStatus.PROCESSING,), **query)) == in_flight
    cursor, listed = None, []
    for _ in newest:
        listed.append(await page(reader, shop, limit=1, cursor=cursor))
        after = listed[-1]["pagination"]["nextCursor"]
        cursor = None if after is None else CURSORS.parse(after)
    assert [head for each in listed for head in heads(each)] == newest


FOUND_BY: dict[str, dict[str, Any]] = {
    "page": {}, "search": {"search": "po"}, "status": {"statuses": (OrderStatus.PROCESSING,)}
}  # fmt: skip


@settings(max_examples=12, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    moves=st.lists(st.sampled_from([(a, b) for a, after in OUTCOMES.items() for b in after]), min_size=1, max_size=3),
    found_by=st.sampled_from(["id", *FOUND_BY]),
)
async def test_an_order_that_settles_while_it_is_read_is_shown_as_it_was_found(
    shop: Shop, journal: Journal, database_url: str, moves: list[tuple[Any, Any]], found_by: str
) -> None:
    """All orders go on after their rows were read and before their streams are. Each is shown as its row was."""
    number = len(shop.states)
    orders = [
        await shop.order(f"{number + n}", *events, at=NOON + (number + n) * SECOND)
        for n, (events, _) in enumerate(moves)
    ]
    unsettled = dict(zip([order.terms.order_id for order in orders], moves, strict=True))

    async def read(merchant_id: UUID, order_id: UUID) -> Sequence[Any]:
        while unsettled:
            settled, (_, outcome) = unsettled.popitem()
            await shop.then(shop.states[settled][0], *outcome)
        return await journal.reader.stream(merchant_id, order_id)

    async with reading(database_url, read) as queries:
        if found_by == "id":
            row = await queries.order(shop.merchant_id, str(orders[0].terms.order_id))
            assert row is not None
            assert (row.status, row.head, row.payments) == (
                orders[0].status.value,
                render_head(orders[0]),
                render_payments(orders[0]),
            )
        else:
            listed = await page(queries, shop, limit=100, **FOUND_BY[found_by])
            mine = {str(order.terms.order_id) for order in orders}
            of_status = [each for each in orders if found_by != "status" or each.status is OrderStatus.PROCESSING]
            found = [head for head in heads(listed) if head["id"] in mine]
            assert found == [shown(each) for each in reversed(of_status)]


async def test_requests_that_share_a_page_share_the_folds_of_its_orders_in_flight(
    shop: Shop, journal: Journal, database_url: str
) -> None:
    orders = [await shop.order(f"{n}", *CALLED, at=NOON + n * SECOND) for n in range(3)]
    reads: list[UUID] = []
    all_begun, go_on = asyncio.Event(), asyncio.Event()

    async def read(merchant_id: UUID, order_id: UUID) -> Sequence[Any]:
        reads.append(order_id)
        if len(reads) == len(orders):
            all_begun.set()
        await go_on.wait()
        return await journal.reader.stream(merchant_id, order_id)

    async with reading(database_url, read) as queries:
        first, *others = [asyncio.create_task(queries.orders(shop.merchant_id, OrderQuery(), NOON)) for _ in range(5)]
        await asyncio.wait_for(all_begun.wait(), 60)
        first.cancel()  # the others still get what it began to read
        await asyncio.sleep(0)
        go_on.set()
        bodies = await asyncio.gather(*others)
    assert sorted(reads) == sorted(order.terms.order_id for order in orders)
    assert all(body is bodies[0] for body in bodies)
    assert heads(json.loads(bodies[0])) == [shown(order) for order in reversed(orders)]


async def test_a_stream_that_cannot_be_read_fails_only_the_reads_of_its_order(
    shop: Shop, journal: Journal, database_url: str
) -> None:
    other = await Shop(journal).open()
    broken, sound = await shop.order("1", *CALLED), await other.order("1", *CALLED)

    async def read(merchant_id: UUID, order_id: UUID) -> Sequence[Any]:
        if order_id == broken.terms.order_id:
            raise SealBroken("the event does not open")
        return await journal.reader.stream(merchant_id, order_id)

    async with reading(database_url, read) as queries:
        pages = [queries.orders(each.merchant_id, OrderQuery(), NOON) for each in (shop, other)]
        failed, body = await asyncio.gather(*pages, return_exceptions=True)
        assert isinstance(failed, SealBroken)
        assert isinstance(body, bytes)
        assert ids(json.loads(body)) == [str(sound.terms.order_id)]
        with pytest.raises(SealBroken):
            await queries.order(shop.merchant_id, "1")


async def test_an_order_that_an_earlier_release_rendered_in_flight_is_read_from_its_row(
    shop: Shop, database_url: str
) -> None:
    order = await shop.order("1", *CALLED)
    with psycopg.connect(database_url) as connection:
        connection.execute(
            "update payment_order set head = %s, payments = %s", (render_head(order), render_payments(order))
        )

    async with reading(database_url, _must_not_be_read) as queries:
        row = await queries.order(shop.merchant_id, "1")
        assert row is not None
        assert (row.head, row.payments) == (render_head(order), render_payments(order))
        assert heads(await page(queries, shop)) == [shown(order)]


async def _must_not_be_read(_merchant_id: UUID, _stream_id: UUID) -> Sequence[Any]:
    raise AssertionError("the row has all that is shown")
