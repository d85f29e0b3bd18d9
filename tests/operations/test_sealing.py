"""Personal data at rest: the log holds none of it in clear, data keys are wrapped, and sealing keys change during
operation.
"""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

import psycopg
import pytest
from msgspec import Raw
from msgspec.structs import replace
from psycopg import sql
from tests.journal.samples import ADDRESS, DEVICE, FISCAL
from tests.operations.conftest import Open, an_order, by_card, register
from tests.sealing import MASTER_KEY

from ledger.domain.streams import ClaimKind
from ledger.journal.append import KeyUnavailable, SealBroken
from ledger.journal.encryption.rewrapping import rewrap
from ledger.journal.encryption.sealing_keys import SealingKeys
from ledger.operations.context.inputs import Actor, CustomerFields, CustomerInput, OrderInput
from ledger.operations.context.ledger import Ledger
from ledger.operations.customers.change import change_customer
from ledger.operations.customers.create import create_customer
from ledger.operations.orders.create import create_order
from ledger.postgres.connection import connect
from ledger.security.secrets import load_sealing_keys
from ledger.settings import Settings
from ledger.wiring import open_ledger

pytestmark = pytest.mark.anyio

NAMES = ("Xochitl", "Quetzalli", "xochitl@example.com", "+525512345678", "XOCHITL Q")
PLACES = ("Insurgentes", "203.0.113.7", "Mozilla/5.0", "EKU9003173C9", "KEMPER", "Pachuca", "huesped")
XOCHITL = CustomerInput(
    external_id="c-7", first_name=NAMES[0], last_name=NAMES[1], email=NAMES[2], phone_number=NAMES[3]
)


def personal_order(external_id: str, **changes: Any) -> OrderInput:
    """Returns an order paid by card in which every personal field is filled."""
    payment = by_card(billing_address=ADDRESS, device_information=DEVICE, metadata=Raw(b'{"huesped":"Xochitl"}'))
    assert payment.card_summary is not None
    payment = replace(payment, card_summary=replace(payment.card_summary, cardholder_name=NAMES[4]))
    fields = {
        "customer": XOCHITL,
        "payment": payment,
        "billing_address": ADDRESS,
        "device_information": DEVICE,
        "fiscal": FISCAL,
        "metadata": Raw(b'{"huesped":"Xochitl"}'),
        **changes,
    }
    return an_order(external_id, **fields)


def places_of(url: str, words: tuple[str, ...], *tables: str) -> set[tuple[str, str]]:
    """Returns which of these words are in which of these tables (all, where none is named), in any column."""
    found = set()
    with psycopg.connect(url) as connection:
        if not tables:
            query = "select relname from pg_class where relkind = 'r' and relnamespace = current_schema()::regnamespace"
            tables = tuple(name for (name,) in connection.execute(query))
        for table in tables:
            for row in connection.cursor(binary=True).execute(
                sql.SQL("select * from {}").format(sql.Identifier(table))
            ):
                cells = b"\0".join(cell if isinstance(cell, bytes) else str(cell).encode() for cell in row).lower()
                found |= {(table, word) for word in words if word.lower().encode() in cells}
    return found


async def test_no_personal_data_is_in_the_log(ledger: Ledger, merchant: Actor, database_url: str) -> None:
    await create_order(ledger, merchant, personal_order("1"))
    changed = CustomerInput(external_id="c-7", email="otra@example.com")
    await create_order(ledger, merchant, an_order("2", customer=changed))
    words = (*NAMES, *PLACES, "otra@example.com")
    assert places_of(database_url, words, "event", "claim", "data_key") == set()
    seen = {word for _, word in places_of(database_url, words)}
    assert seen > {"Xochitl", "XOCHITL Q", "Insurgentes", "EKU9003173C9", "otra@example.com"}, (
        "the scan finds what is there"
    )


async def test_what_only_a_customers_own_request_gives_is_sealed_in_the_log_too(
    ledger: Ledger, merchant: Actor, database_url: str
) -> None:
    given = CustomerFields(
        external_id="c-7",
        first_name="Xochitl",
        metadata=Raw(b'{"a":"huesped"}'),
        preferences={"language": "en"},
        email="xochitl@example.com",
    )
    await create_customer(ledger, merchant, given)
    changed = CustomerFields(last_name="Quetzalli", metadata=Raw(b'{"b":"Pachuca"}'), preferences={"sms": False})
    await change_customer(ledger, merchant, "c-7", changed)
    words = ("Xochitl", "xochitl@example.com", "Quetzalli", "huesped", "Pachuca", "paymentReminders")
    assert places_of(database_url, words, "event", "claim", "data_key") == set()
    assert {word for _, word in places_of(database_url, words, "customer")} >= {
        "Xochitl",
        "Pachuca",
        "paymentReminders",
    }


async def test_another_process_reads_what_one_has_sealed(ledger: Ledger, merchant: Actor, open_another: Open) -> None:
    first = await create_order(ledger, merchant, personal_order("1"))
    other = await open_another()
    again = await create_order(other, merchant, personal_order("1"))
    assert again.replayed
    assert (again.order, again.customer) == (first.order, first.customer)
    assert again.order.terms.fiscal == FISCAL


async def test_a_customer_older_than_data_keys_gets_one_with_the_next_order(
    ledger: Ledger, merchant: Actor, open_another: Open, database_url: str
) -> None:
    await create_order(ledger, merchant, an_order("1", customer=CustomerInput(external_id="bare")))
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("delete from data_key")
    others = [await open_another() for _ in range(2)]
    customer = CustomerInput(external_id="bare")
    await asyncio.gather(
        *[create_order(at, merchant, personal_order(f"{n}", customer=customer)) for n, at in enumerate(others, 2)]
    )
    fresh = await open_another()
    for name in ("2", "3"):
        assert (
            await create_order(fresh, merchant, personal_order(name, customer=customer))
        ).order.terms.fiscal == FISCAL


async def copied(database_url: str, sealed_from: int, to: int) -> None:
    """Overwrites the bytes of the customer event at one position with those at another, as only the database's owner
    could.
    """
    with psycopg.connect(database_url, autocommit=True) as connection:
        query = """update event e set data = f.data from event f
                    where f.merchant_id = e.merchant_id and f.topic = 'customer-created.v1' and e.topic = f.topic
                      and f.position = %s and e.position = %s"""
        assert connection.execute(query, (sealed_from, to)).rowcount == 1


async def test_one_customers_sealed_data_does_not_open_as_anothers(
    ledger: Ledger, merchant: Actor, open_another: Open, database_url: str
) -> None:
    ana = await create_order(ledger, merchant, an_order("1"))
    xochitl = await create_order(ledger, merchant, an_order("2", customer=XOCHITL))
    with psycopg.connect(database_url) as connection:
        query = "select position from event where topic = 'customer-created.v1' order by position"
        first, second = (position for (position,) in connection.execute(query))
    await copied(database_url, first, second)
    other = await open_another()
    with pytest.raises(SealBroken):
        await other.customers.by_id(merchant.merchant_id, xochitl.customer.customer_id)
    assert await other.customers.by_id(merchant.merchant_id, ana.customer.customer_id) is not None


async def test_a_data_key_that_is_moved_to_another_customer_does_not_open(
    ledger: Ledger, merchant: Actor, open_another: Open, database_url: str
) -> None:
    ana = await create_order(ledger, merchant, an_order("1"))
    await create_order(ledger, merchant, an_order("2", customer=XOCHITL))
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(
            "update data_key d set wrapped = o.wrapped from data_key o"
            " where o.merchant_id = d.merchant_id and o.customer_id <> d.customer_id"
        )
    other = await open_another()
    with pytest.raises(SealBroken):
        await other.customers.by_id(merchant.merchant_id, ana.customer.customer_id)


OLD, NEW = "0d" * 32, "4e" * 32


def with_keys(url: str, *keys: str) -> Settings:
    """Returns settings with these sealing keys, the newest first, besides the one of the master key."""
    return Settings(database_url=url, master_key=MASTER_KEY, sealing_keys=",".join(keys))


async def rewrapped(settings: Settings) -> int:
    assert settings.database_url is not None
    async with await connect(settings.database_url, "test-rewrap") as connection:
        return await rewrap(connection, SealingKeys(load_sealing_keys(settings)))


async def test_an_unknown_sealing_key_is_a_fault_that_names_it(merchant: Actor, database_url: str) -> None:
    async with open_ledger(with_keys(database_url, NEW)) as first:
        await create_order(first, merchant, personal_order("1"))
    newest = SealingKeys(load_sealing_keys(with_keys(database_url, NEW))).newest
    async with open_ledger(with_keys(database_url, OLD)) as other:
        for _ in range(2):
            with pytest.raises(KeyUnavailable, match=newest):
                await create_order(other, merchant, personal_order("1"))
        customer = CustomerInput(external_id="somebody", first_name="Else")
        assert (await create_order(other, merchant, an_order("2", customer=customer))).created, "others are served"
    async with open_ledger(with_keys(database_url, OLD, NEW)) as again:
        assert (await create_order(again, merchant, personal_order("1"))).replayed


async def test_the_sealing_key_changes_under_load_and_no_request_fails(merchant: Actor, database_url: str) -> None:
    """Every process gets the new key, then gets it as the newest, then it wraps everything; then the old key is
    removed.
    """
    made, stop = [], asyncio.Event()

    async def client(of: list[Ledger], name: int) -> None:
        n = 0
        while not stop.is_set():
            at, n = of[-1], n + 1
            customer = CustomerInput(external_id=f"c-{name}-{n % 7}", first_name=NAMES[0], email=f"{n}@example.com")
            receipt = await create_order(at, merchant, personal_order(f"{name}-{n}", customer=customer))
            made.append((receipt.order.terms.external_id, receipt.order))
            await shown_again(at, merchant, receipt.order.terms.external_id, customer)

    stages = [(OLD,), (OLD, NEW), (NEW, OLD)]
    contexts = []
    processes: list[list[Ledger]] = [[], []]

    async def restart(keys: tuple[str, ...], process: list[Ledger]) -> None:
        context = open_ledger(with_keys(database_url, *keys))
        contexts.append(context)
        process.append(await context.__aenter__())

    for process in processes:
        await restart(stages[0], process)
    running = [asyncio.create_task(client(process, n)) for n, process in enumerate(processes * 2)]
    for keys in stages[1:]:
        for process in processes:
            await asyncio.sleep(0.2)
            await restart(keys, process)
    await asyncio.sleep(0.2)
    assert await rewrapped(with_keys(database_url, NEW, OLD)) > 0
    await asyncio.sleep(0.2)
    stop.set()
    await asyncio.gather(*running)
    assert await rewrapped(with_keys(database_url, NEW, OLD)) == 0, (
        "a process that has the newest key wraps with it alone"
    )
    for context in reversed(contexts):
        await context.__aexit__(None, None, None)
    assert len(made) > 8, "each of four clients has made orders"
    async with open_ledger(with_keys(database_url, NEW)) as alone:
        for external_id, order in made:
            owner = await alone.journal.claim_owner(merchant.merchant_id, ClaimKind.ORDER_EXTERNAL_ID, external_id)
            assert owner == order.terms.order_id
            events = await alone.journal.reader.stream(merchant.merchant_id, owner)
            assert events[0] == order.terms


async def shown_again(ledger: Ledger, merchant: Actor, external_id: str, customer: CustomerInput) -> None:
    again = await create_order(ledger, merchant, personal_order(external_id, customer=customer))
    assert again.replayed
    assert again.order.terms.fiscal == FISCAL


async def test_a_copy_from_before_the_change_opens_with_the_old_key(merchant: Actor, database_url: str) -> None:
    async with open_ledger(with_keys(database_url, OLD)) as before:
        await create_order(before, merchant, personal_order("1"))
    backup = fetch(database_url, "select merchant_id, customer_id, sealing_key_id, wrapped from data_key")
    assert await rewrapped(with_keys(database_url, NEW, OLD)) == len(backup) == 1
    assert await rewrapped(with_keys(database_url, NEW, OLD)) == 0
    with psycopg.connect(database_url, autocommit=True) as connection:
        for row in backup:
            query = "update data_key set sealing_key_id = %s, wrapped = %s where merchant_id = %s and customer_id = %s"
            connection.execute(query, (*row[2:], *row[:2]))
    async with open_ledger(with_keys(database_url, NEW, OLD)) as restored:
        assert (await create_order(restored, merchant, personal_order("1"))).order.terms.fiscal == FISCAL


def fetch(url: str, query: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(url) as connection:
        return connection.execute(query).fetchall()


async def test_a_key_that_is_destroyed_during_the_change_stays_destroyed(merchant: Actor, database_url: str) -> None:
    async with open_ledger(with_keys(database_url, OLD)) as before:
        for n in range(3):
            customer = CustomerInput(external_id=f"c{n}", email="a@b.mx")
            await create_order(before, merchant, an_order(f"{n}", customer=customer))

    class DestroysOneBetweenReadingAndWriting(SealingKeys):
        def unwrap(self, sealing_key: str, merchant_id: UUID, customer_id: UUID, wrapped: bytes) -> bytes:
            with psycopg.connect(database_url, autocommit=True) as connection:
                connection.execute(
                    "update data_key set wrapped = null, sealing_key_id = null, destroyed_at = now()"
                    " where customer_id = (select min(customer_id::text)::uuid from data_key)"
                )
            return super().unwrap(sealing_key, merchant_id, customer_id, wrapped)

    keys = DestroysOneBetweenReadingAndWriting(load_sealing_keys(with_keys(database_url, NEW, OLD)))
    async with await connect(database_url, "test-rewrap") as connection:
        assert await rewrap(connection, keys) == 2
    assert fetch(database_url, "select count(*) from data_key where wrapped is null") == [(1,)]


async def test_the_same_external_id_of_two_merchants_has_two_keys(
    ledger: Ledger, merchant: Actor, database_url: str
) -> None:
    other = await register(ledger)
    for actor in (merchant, other):
        await create_order(ledger, actor, personal_order("1"))
    assert len({row[0] for row in fetch(database_url, "select customer_id from data_key")}) == 2
