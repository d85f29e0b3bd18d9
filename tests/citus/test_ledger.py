"""The ledger on a distributed database: under the application's role, and with what triggers do on an ordinary one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import psycopg
import pytest
from msgspec import structs
from tests.journal.small_log import fetch
from tests.operations.conftest import an_order, by_card, register
from tests.sealing import MASTER_KEY

from ledger.doctor import examine
from ledger.domain.orders.statuses import OrderStatus
from ledger.operations.context.inputs import Actor, CustomerInput
from ledger.operations.context.ledger import Ledger
from ledger.operations.erasure.erase_customer import delete_customer
from ledger.operations.merchants.api_keys import issue_key, revoke_key
from ledger.operations.merchants.registration import rename_merchant
from ledger.operations.orders.create import create_order
from ledger.postgres.prepare import prepare
from ledger.security.api_keys import new_key
from ledger.settings import Settings
from ledger.wiring import open_ledger
from projections.erasures import Erasures

pytestmark = [pytest.mark.anyio, pytest.mark.long]


@pytest.fixture
async def ledger(distributed_url: str) -> AsyncIterator[Ledger]:
    """A ledger under the application's role, which Citus has created on every node."""
    settings = Settings(database_url=distributed_url, master_key=MASTER_KEY, sandbox_deadline_s=5.0)
    ready = await asyncio.to_thread(prepare, settings, distributed_url)
    assert ready.database_url != distributed_url
    async with open_ledger(ready) as ledger:
        yield ledger


@pytest.fixture
async def merchant(ledger: Ledger) -> Actor:
    return await register(ledger)


async def test_an_order_is_paid_by_card(ledger: Ledger, merchant: Actor, distributed_url: str) -> None:
    receipt = await create_order(ledger, merchant, an_order("1", by_card()))
    assert receipt.order.status is OrderStatus.COMPLETED
    rows = fetch(distributed_url, "select external_id, status from payment_order")
    assert rows == [("1", "COMPLETED")]
    again = await create_order(ledger, merchant, an_order("1", by_card()))
    assert again.replayed


async def test_customers_are_counted_and_the_erased_ones_are_forgotten(
    ledger: Ledger, merchant: Actor, distributed_url: str
) -> None:
    customers = []
    for name in ("ana", "luz", "eva"):
        receipt = await create_order(ledger, merchant, an_order(name, customer=CustomerInput(external_id=name)))
        customers.append(receipt.customer.customer_id)
    await create_order(ledger, merchant, an_order("again", customer=CustomerInput(external_id="ana")))
    assert fetch(distributed_url, "select n from customer_count") == [(3,)]
    subscribe = """
    insert into subscription (merchant_id, subscription_id, version, customer_id, plan_id, status, created_at, doc, metadata)
    values (%s, gen_random_uuid(), 1, %s, gen_random_uuid(), 'ACTIVE', now(), '{}', '{"seat": 7}') returning true"""
    for customer in customers:
        fetch(distributed_url, subscribe, merchant.merchant_id, customer)
    async with Erasures(distributed_url) as payers:
        await delete_customer(ledger, merchant, "ana", payers.orders_of)
    assert fetch(distributed_url, "select n from customer_count") == [(2,)]
    forgotten = fetch(distributed_url, "select customer_id from subscription where metadata is null")
    assert forgotten == [(customers[0],)]


async def test_a_changed_merchant_is_announced(ledger: Ledger, merchant: Actor, distributed_url: str) -> None:
    async with await psycopg.AsyncConnection.connect(distributed_url, autocommit=True) as connection:
        await connection.execute("listen ledger_merchant")
        async for _ in connection.notifies(timeout=1):  # its creation is announced after the commit, perhaps only now
            pass
        await rename_merchant(ledger, merchant, "Café de Tacuba")
        announced = [notice.payload async for notice in connection.notifies(timeout=5, stop_after=1)]
    assert announced == [str(merchant.merchant_id)]


async def test_a_key_is_issued_and_revoked(ledger: Ledger, merchant: Actor, distributed_url: str) -> None:
    key = new_key("sandbox", b"pepper")
    operator = Actor(merchant_id=merchant.merchant_id)
    issued = await issue_key(ledger, operator, key)
    other = await issue_key(ledger, operator, new_key("sandbox", b"pepper"))
    await revoke_key(ledger, structs.replace(merchant, key_id=other.key.key_id), issued.key.key_id)
    found = fetch(
        distributed_url, "select revoked_at is not null from api_key where key_hash = decode(%s, 'hex')", key.key_hash
    )
    assert found == [(True,)]


def test_the_doctor_names_shards_and_nodes(distributed_url: str) -> None:
    environ = {"LEDGER_DATABASE_URL": distributed_url, "LEDGER_MASTER_KEY": MASTER_KEY}
    (shards,) = [finding for finding in examine(environ) if finding.check == "shards"]
    assert shards.state == "ok"
    assert shards.text.startswith("4 shards: 2 on /")
    assert shards.text.endswith("none to be moved")
