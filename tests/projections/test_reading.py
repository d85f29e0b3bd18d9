"""Point reads of a real database: what they find, for which merchant, and what happens while it is unavailable."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict
from tests.domain.builders import NOON, authorization_requested, declined, paid, started
from tests.projections import merchants
from tests.projections.shop import Shop
from uuid_utils.compat import uuid7

from ledger.domain.customers.events import CustomerDetailsChanged
from ledger.domain.customers.evolve import evolve as evolve_customer
from ledger.domain.merchants.events import ApiKeyRevoked, MerchantSettingsChanged
from ledger.domain.streams import ClaimKind
from ledger.journal.journal import Journal
from ledger.postgres.faults import DatabaseUnavailable
from projections.customers import render_customer
from projections.merchants import list_keys, list_merchants
from projections.orders import table
from projections.queries import Queries

pytestmark = pytest.mark.anyio


async def shown(reader: Queries, merchant_id: UUID, reference: object) -> dict[str, Any] | None:
    row = await reader.order(merchant_id, str(reference))
    return None if row is None else json.loads(row.document(NOON))


async def test_an_order_is_found_by_service_id_and_by_external_id(shop: Shop, reader: Queries) -> None:
    order = await shop.order("a/b ñ", *paid(1, 10_000))
    by_id = await shown(reader, shop.merchant_id, order.terms.order_id)
    assert by_id is not None
    assert (by_id["externalId"], by_id["status"], by_id["customer"]["externalId"]) == ("a/b ñ", "COMPLETED", "ana")
    assert by_id["payments"][0]["capturedAmount"] == "10000"
    assert await shown(reader, shop.merchant_id, "a/b ñ") == by_id
    assert await shown(reader, shop.merchant_id, str(order.terms.order_id).upper()) == by_id


async def test_a_service_id_wins_over_an_external_id_that_looks_the_same(shop: Shop, reader: Queries) -> None:
    first = await shop.order("first")
    second = await shop.order(str(first.terms.order_id))
    found = await shown(reader, shop.merchant_id, first.terms.order_id)
    assert found is not None
    assert found["id"] == str(first.terms.order_id) != str(second.terms.order_id)


async def test_an_external_id_may_look_like_a_service_id(shop: Shop, reader: Queries) -> None:
    order = await shop.order(str(UUID(int=77)))
    found = await shown(reader, shop.merchant_id, UUID(int=77))
    assert found is not None
    assert found["id"] == str(order.terms.order_id)


async def test_another_merchants_order_is_not_found(shop: Shop, journal: Journal, reader: Queries) -> None:
    order = await shop.order("mine")
    other = await Shop(journal).open()
    for reference in ("mine", str(order.terms.order_id), str(uuid7()), ""):
        assert await reader.order(other.merchant_id, reference) is None
    assert await reader.customer(other.merchant_id, shop.ana.customer_id) is None


async def test_two_merchants_may_use_the_same_external_id(shop: Shop, journal: Journal, reader: Queries) -> None:
    shops = [shop, *[await Shop(journal).open() for _ in range(4)]]
    made = [(await each.order("pedido-1")).terms.order_id for each in shops]
    found = [await shown(reader, each.merchant_id, "pedido-1") for each in shops]
    assert [order and order["id"] for order in found] == [str(order_id) for order_id in made]


async def test_a_change_is_read_at_once(shop: Shop, reader: Queries) -> None:
    order = await shop.order("live")
    order = await shop.then(order, started(1, 10_000), authorization_requested(1, 10_000))
    assert (await shown(reader, shop.merchant_id, "live") or {})["status"] == "PROCESSING"
    await shop.then(order, declined(1))
    found = await shown(reader, shop.merchant_id, "live")
    assert found is not None
    assert (found["status"], found["payments"][0]["declineCode"]) == ("FAILED", "INSUFFICIENT_FUNDS")


async def test_an_order_shows_its_current_customer(shop: Shop, reader: Queries) -> None:
    await shop.order("old")
    changed = CustomerDetailsChanged(
        customer_id=shop.ana.customer_id, at=NOON, email="ana@example.org", phone_number=None
    )
    after = evolve_customer(shop.customer, changed)
    await shop.change(shop.ana.customer_id, 1, [changed], shop.customer, after)
    customer = (await shown(reader, shop.merchant_id, "old") or {})["customer"]
    assert (customer["firstName"], customer["email"]) == ("Ana", "ana@example.org")
    assert await reader.customer(shop.merchant_id, shop.ana.customer_id) == render_customer(after)


async def test_whether_an_order_is_overdue_depends_on_the_time_of_reading(shop: Shop, reader: Queries) -> None:
    await shop.order("due", due_date=NOON)
    row = await reader.order(shop.merchant_id, "due")
    assert row is not None
    assert [json.loads(row.document(NOON + timedelta(seconds=s)))["isOverdue"] for s in (-1, 0, 1)] == [
        False,
        False,
        True,
    ]


@pytest.mark.parametrize("impossible", ["nul\0byte", "half \ud800 of a character"])
async def test_a_text_that_cannot_be_stored_finds_nothing_and_fails_no_other_read(
    shop: Shop, reader: Queries, impossible: str
) -> None:
    await shop.order("fine")
    other, fine = await asyncio.gather(
        reader.order(shop.merchant_id, impossible), reader.order(shop.merchant_id, "fine")
    )
    assert other is None
    assert fine is not None


async def test_many_reads_share_a_round_trip_and_each_gets_its_own_answer(shop: Shop, reader: Queries) -> None:
    created = [(await shop.order(f"n{n}")).terms for n in range(30)]
    round_trips = 0
    fetch = reader.points._fetch

    async def counted(*arguments: Any) -> Any:
        nonlocal round_trips
        round_trips += 1
        return await fetch(*arguments)

    reader.points._fetch = counted
    asked_for = [str(terms.order_id) if n % 2 else terms.external_id for n, terms in enumerate(created)] + ["absent"]
    answers = await asyncio.gather(
        *[shown(reader, shop.merchant_id, reference) for reference in asked_for],
        reader.customer(shop.merchant_id, shop.ana.customer_id),
        reader.find_key(b"x" * 32),
    )
    assert [answer and answer["id"] for answer in answers[:31]] == [*[str(terms.order_id) for terms in created], None]
    assert answers[31:] == [render_customer(shop.customer), None]
    assert round_trips == 1


async def test_a_key_finds_its_merchant_with_its_current_settings(journal: Journal, reader: Queries) -> None:
    merchant_id, key_hash = uuid7(), bytes(range(32))
    await journal.open_log(merchant_id)
    key = merchants.issued(merchant_id, key_hash, scopes=("orders:read",), expires_at=NOON)
    merchant = await merchants.commit(journal, None, 0, [merchants.registered(merchant_id), key])
    found = await reader.find_key(key_hash)
    assert found is not None
    assert (found.merchant_id, found.key_id, found.scopes) == (merchant_id, key.key_id, ("orders:read",))
    assert (found.expires_at, found.revoked_at, found.settings.requests_per_minute) == (NOON, None, None)
    changed = MerchantSettingsChanged(merchant_id=merchant_id, at=NOON, requests_per_minute=0)
    revoked = ApiKeyRevoked(merchant_id=merchant_id, key_id=key.key_id, at=NOON)
    await merchants.commit(journal, merchant, 2, [changed, revoked])
    found = await reader.find_key(key_hash)
    assert found is not None
    assert (found.revoked_at, found.settings.requests_per_minute) == (NOON, 0)
    assert await reader.find_key(bytes(32)) is None


async def test_operators_list_merchants_and_their_keys(journal: Journal, database_url: str) -> None:
    first, second = uuid7(), uuid7()
    for merchant_id, name in ((first, "Uno"), (second, "Dos")):
        await journal.open_log(merchant_id)
        key = merchants.issued(merchant_id, merchant_id.bytes * 2, name=name)
        await merchants.commit(journal, None, 0, [merchants.registered(merchant_id, name), key])
    async with await psycopg.AsyncConnection.connect(database_url) as connection:
        assert [merchant.name for merchant in await list_merchants(connection)] == ["Uno", "Dos"]
        [key] = await list_keys(connection, second)
        assert (key.name, key.hint, key.scopes, key.revoked_at) == ("Dos", "…abcd", (), None)


def test_the_statement_uses_the_claim_kind_of_orders() -> None:
    assert f"k.kind = {ClaimKind.ORDER_EXTERNAL_ID:d}" in table.FIND


# ---------------------------------------------------------------- the database becomes unavailable


def backends(url: str, action: str, name: str = "ledger-reads") -> int:
    """Applies a function to the server processes of the reader's connections, and returns their number."""
    with psycopg.connect(url, autocommit=True) as connection:
        query = sql.SQL(
            "select {}(pid) from pg_stat_activity where application_name = %s and datname = current_database()"
        ).format(sql.Identifier(action))
        return len(connection.execute(query, (name,)).fetchall())


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 - another process changes without an event
            await asyncio.sleep(0.01)


async def test_reads_continue_after_their_connection_was_ended(shop: Shop, reader: Queries, database_url: str) -> None:
    await shop.order("still")
    for _ in range(3):
        assert backends(database_url, "pg_terminate_backend") == 1
        assert await shown(reader, shop.merchant_id, "still") is not None


async def test_a_read_in_flight_when_the_connection_breaks_is_repeated(
    shop: Shop, reader: Queries, database_url: str
) -> None:
    await shop.order("flying")
    async with await psycopg.AsyncConnection.connect(database_url) as holder:
        await holder.execute("lock table payment_order in access exclusive mode")
        reading = asyncio.create_task(shown(reader, shop.merchant_id, "flying"))
        await asyncio.sleep(0.1)
        assert not reading.done()
        backends(database_url, "pg_terminate_backend")
        await holder.rollback()
    assert (await reading or {})["externalId"] == "flying"


async def test_reads_fail_while_the_database_is_unavailable_and_succeed_afterwards(
    shop: Shop, reader: Queries, database_url: str, postgres_url: str
) -> None:
    await shop.order("patient")
    name = sql.Identifier(str(conninfo_to_dict(database_url)["dbname"]))
    with psycopg.connect(postgres_url, autocommit=True) as owner:
        owner.execute(sql.SQL("alter database {} allow_connections false").format(name))
        owner.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where application_name = 'ledger-reads' and datname = %s",
            (conninfo_to_dict(database_url)["dbname"],),
        )
        in_flight = asyncio.create_task(reader.order(shop.merchant_id, "patient"))
        await until(lambda: not reader.alive)
        with pytest.raises(DatabaseUnavailable):
            await reader.order(shop.merchant_id, "patient")
        with pytest.raises(DatabaseUnavailable):  # it does not wait until the database is available
            await asyncio.wait_for(in_flight, 30)
        owner.execute(sql.SQL("alter database {} allow_connections true").format(name))
    await until(lambda: reader.alive)
    assert await reader.order(shop.merchant_id, "patient") is not None
