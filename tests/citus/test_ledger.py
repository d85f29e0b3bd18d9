"""The ledger on a distributed database: under the application's role, and with what triggers do on an ordinary one."""

from __future__ import annotations

import asyncio

import psycopg
import pytest
from msgspec import structs
from tests.journal.small_log import fetch
from tests.operations.conftest import an_order, by_card, register
from tests.sealing import MASTER_KEY
from tests.tlog.logs import sealer_of

from ledger.audit.auditor import audit
from ledger.backup.rebuild import rebuild
from ledger.doctor import examine
from ledger.domain.orders.statuses import OrderStatus
from ledger.journal.encryption.rewrapping import rewrap
from ledger.journal.encryption.sealing_keys import SealingKeys
from ledger.operations.context.inputs import Actor, CustomerInput
from ledger.operations.context.ledger import Ledger
from ledger.operations.erasure.erase_customer import delete_customer
from ledger.operations.merchants.api_keys import issue_key, revoke_key
from ledger.operations.merchants.registration import rename_merchant
from ledger.operations.orders.create import create_order
from ledger.postgres.connection import connect
from ledger.security.api_keys import new_key
from ledger.security.secrets import load_checkpoint_keys, load_sealing_keys
from ledger.settings import Settings, log_origin
from ledger.tlog.keys import LogKeys
from projections.erasures import Erasures

pytestmark = [pytest.mark.anyio, pytest.mark.long]


@pytest.fixture
def application_url(settings: Settings) -> str:
    """The connection string of the application's role."""
    assert settings.database_url is not None
    return settings.database_url


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


async def test_wrong_rows_are_corrected_and_a_corrected_merchant_is_announced(
    ledger: Ledger, merchant: Actor, distributed_url: str, application_url: str
) -> None:
    for name in ("1", "2"):
        await create_order(ledger, merchant, an_order(name, by_card()))
    before = fetch(distributed_url, "select status, head, payments from payment_order order by external_id")
    fetch(distributed_url, "update payment_order set status = 'x', head = '' returning true")
    fetch(distributed_url, "update customer_count set n = 7 returning true")
    fetch(distributed_url, "update merchant set name = 'x' returning true")
    fetch(distributed_url, "insert into tally values (gen_random_uuid(), '2026-01-01', 'COMPLETED', 1) returning true")
    async with await psycopg.AsyncConnection.connect(distributed_url, autocommit=True) as connection:
        await connection.execute("listen ledger_merchant")
        found = await rebuild(application_url, ledger.journal.reader)
        announced = [notice.payload async for notice in connection.notifies(timeout=5, stop_after=1)]
    assert announced == [str(merchant.merchant_id)]
    differing = {table.table: table.differing for table in found.tables if table.differing}
    assert differing == {"customer_count": 1, "merchant": 1, "payment_order": 2, "tally": 1}
    assert fetch(distributed_url, "select status, head, payments from payment_order order by external_id") == before
    assert not (await rebuild(application_url, ledger.journal.reader, writes=False)).differs


async def test_the_logs_of_all_shards_are_sealed_and_the_audit_names_what_was_changed(
    ledger: Ledger, merchant: Actor, settings: Settings, distributed_url: str, application_url: str
) -> None:
    merchants = [merchant.merchant_id, *[(await register(ledger)).merchant_id for _ in range(7)]]
    for each in merchants:
        await create_order(ledger, Actor(merchant_id=each), an_order("1", by_card()))
    keys = LogKeys(log_origin(settings), load_checkpoint_keys(settings))
    async with sealer_of(application_url, keys) as sealer:
        assert {each.merchant_id for each in await sealer.seal(asyncio.Event())} == {*merchants}
        await create_order(ledger, merchant, an_order("2", by_card()))
        assert [each.merchant_id for each in await sealer.seal(asyncio.Event())] == [merchant.merchant_id]
    audited = structs.replace(settings, database_vault_url=None)
    report = await asyncio.to_thread(audit, audited, application_url)
    assert report.is_clean
    assert {one.merchant_id for one in report.sealed_to} == {*merchants}
    fetch(distributed_url, "update payment_order set amount = amount + 1 where external_id = '2' returning true")
    changed = await asyncio.to_thread(audit, audited, application_url)
    assert changed.violations_total == 1


async def test_every_key_comes_under_the_newest_sealing_key(
    ledger: Ledger, merchant: Actor, settings: Settings, distributed_url: str, application_url: str
) -> None:
    others = [await register(ledger) for _ in range(4)]
    for each in (merchant, *others):
        for name in ("ana", "luz"):
            await create_order(ledger, each, an_order(name, customer=CustomerInput(external_id=name)))
    keys = SealingKeys(load_sealing_keys(structs.replace(settings, sealing_keys="9e" * 32)))
    async with await connect(application_url, "test-rewrap") as connection:
        assert await rewrap(connection, keys) == 10
        assert await rewrap(connection, keys) == 0
    assert fetch(distributed_url, "select distinct sealing_key_id from data_key") == [(keys.newest,)]


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
