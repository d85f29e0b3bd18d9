"""Imports of products against a database that goes away, and two imports at once through two processes."""

from __future__ import annotations

import asyncio
from decimal import Decimal

import msgspec
import psycopg
import pytest
from psycopg import AsyncConnection
from tests.citus.shards import place_of
from tests.journal.small_log import fetch
from tests.operations.conftest import Open, an_order, by_card, register

from api.products.bulk_import import parse_import
from ledger import slices
from ledger.journal.commit.large_commits import STREAMS_MIN
from ledger.operations.context.inputs import Actor
from ledger.operations.context.ledger import Ledger
from ledger.operations.orders.create import create_order
from ledger.operations.products.import_products import ProductInput, import_products
from ledger.postgres.faults import DatabaseUnavailable

pytestmark = pytest.mark.anyio

_COUNT = "select (select count(*) from product), (select count(*) from event where topic like 'product%%')"
_WRITER_WAITS = """
select pid from pg_stat_activity
 where datname = current_database() and application_name in ('ledger-writer', 'ledger-large-commits') and wait_event_type = 'Lock'
"""


def some(count: int, name: str = "Café") -> list[ProductInput]:
    """Returns products, every second one without an id."""
    return [
        ProductInput(index=n, id=None if n % 2 else f"p-{n}", details={"name": f"{name} {n}", "price": Decimal(n)})
        for n in range(count)
    ]


@pytest.mark.parametrize("count", [20, 2 * STREAMS_MIN], ids=["small", "large"])
async def test_an_import_that_the_database_cuts_off_leaves_nothing_and_may_be_repeated(
    ledger: Ledger, merchant: Actor, database_url: str, count: int
):
    server, table = place_of(database_url, merchant.merchant_id, "product")
    async with await AsyncConnection.connect(server, autocommit=True) as other:
        async with other.transaction():
            await other.execute(f"lock table {table} in exclusive mode")
            importing = asyncio.create_task(import_products(ledger, merchant, some(count)))
            await _end_waiting_writer(server)
            with pytest.raises(DatabaseUnavailable):
                await importing
        assert fetch(database_url, _COUNT) == [(0, 0)]
        result = await import_products(ledger, merchant, some(count))
        assert (result.created, result.updated, result.failed) == (count, 0, ())
        assert fetch(database_url, _COUNT) == [(count, count)]


async def test_orders_of_other_merchants_do_not_wait_behind_a_large_import(
    ledger: Ledger, merchant: Actor, database_url: str
):
    neighbour = await register(ledger)
    server, table = place_of(database_url, merchant.merchant_id, "product")
    async with await AsyncConnection.connect(server, autocommit=True) as other:
        async with other.transaction():
            await other.execute(f"lock table {table} in exclusive mode")
            importing = asyncio.create_task(import_products(ledger, merchant, some(STREAMS_MIN)))
            await _waiting_writer(server)
            own = asyncio.create_task(create_order(ledger, merchant, an_order("own", by_card())))
            await create_order(ledger, neighbour, an_order("other", by_card()))
            assert not importing.done()
            assert not own.done()
        assert (await importing).created == STREAMS_MIN
        assert (await own).order.terms.external_id == "own"


async def test_the_loop_runs_between_the_slices_of_an_import(
    ledger: Ledger, merchant: Actor, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(slices, "SLICE_S", 0.0)
    before = ledger.slices.count
    body = msgspec.json.encode({"products": [{"id": f"p-{n}", "name": "Café", "price": n} for n in range(STREAMS_MIN)]})
    result = await import_products(ledger, merchant, await parse_import(body, ledger.slices))
    assert result.created == STREAMS_MIN
    assert ledger.slices.count - before == 3 * STREAMS_MIN, "each product is parsed, decided and encoded by itself"


async def _waiting_writer(database_url: str) -> tuple[int]:
    """Waits until a writer waits for a lock, and returns the pid of its backend."""
    async with await AsyncConnection.connect(database_url, autocommit=True) as operator, asyncio.timeout(60):
        while not (  # noqa: ASYNC110 - the condition is in the database
            waiting := await (await operator.execute(_WRITER_WAITS)).fetchall()
        ):
            await asyncio.sleep(0.01)
    return (waiting[0][0],)


async def _end_waiting_writer(database_url: str) -> None:
    """Ends the connection of the writer once it waits for a lock."""
    waiting = await _waiting_writer(database_url)
    async with await AsyncConnection.connect(database_url, autocommit=True) as operator:
        await operator.execute("select pg_terminate_backend(%s::int)", waiting)


async def test_imports_through_two_processes_end_with_one_of_them_whole(
    open_another: Open, ledger: Ledger, merchant: Actor, database_url: str
):
    named = [each for each in some(60) if each.id is not None]
    other = await open_another()
    for turn in range(10):
        first, second = [
            [
                ProductInput(index=n, id=each.id, details={"name": f"{who} {turn}", "price": Decimal(n)})
                for n, each in enumerate(named)
            ]
            for who in ("first", "second")
        ]
        results = await asyncio.gather(
            import_products(ledger, merchant, first), import_products(other, merchant, second[::-1])
        )
        assert sum(result.created for result in results) == (30 if turn == 0 else 0)
        assert sum(result.created + result.updated for result in results) == 60
        with psycopg.connect(database_url) as connection:
            names = connection.execute(
                "select distinct convert_from(doc, 'UTF8')::json ->> 'name' from product"
            ).fetchall()
        assert names in ([(f"first {turn}",)], [(f"second {turn}",)])
