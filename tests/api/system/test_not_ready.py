"""What readiness says of a database that an operator makes read-only, and of a machine whose clock is wrong."""

from __future__ import annotations

import asyncio
from uuid import uuid4

import httpx
import msgspec
import psycopg
import pytest
from tests.api.bodies import order
from tests.api.storefront import Storefront, opened

from ledger.postgres import registration
from ledger.settings import Settings

pytestmark = pytest.mark.anyio


def make_read_only(url: str, *, is_on: bool) -> None:
    with psycopg.connect(url, autocommit=True) as operator:
        operator.execute(f"alter system set default_transaction_read_only = {'on' if is_on else 'off'}")  # type: ignore[arg-type]
        operator.execute("select pg_reload_conf()")


async def until_writer(store: Storefront, *, works: bool) -> httpx.Response:
    """Returns the first answer of readiness that shows whether the journal can write."""
    while True:
        answer = await store.client.get("/health/ready")
        if answer.json()["checks"]["writer"] is works:
            return answer
        await asyncio.sleep(0.02)


async def test_a_read_only_database_is_not_ready_with_that_reason(settings: Settings, postgres_url: str) -> None:
    async with opened(msgspec.structs.replace(settings, disk_probe_s=0.05)) as store, asyncio.timeout(60):
        merchant = await store.register()
        make_read_only(postgres_url, is_on=True)
        try:
            answer = await until_writer(store, works=False)
            assert answer.status_code == 503
            assert "the database takes no writes: it is a standby, or was made read-only" in answer.json()["reason"]
            assert (await merchant.create(order())).status_code == 503
        finally:
            make_read_only(postgres_url, is_on=False)
        await until_writer(store, works=True)
        assert (await merchant.create(order())).status_code == 201


async def test_a_commit_that_a_read_only_database_has_refused_is_not_in_flight(
    settings: Settings, postgres_url: str
) -> None:
    """Else the age of the oldest commit grows, and names the disk and the standby, for as long as it is read-only."""
    settings = msgspec.structs.replace(settings, disk_probe_s=60.0, commit_age_max_s=0.2)
    async with opened(settings) as store, asyncio.timeout(60):
        merchant = await store.register()
        await merchant.create(order())
        make_read_only(postgres_url, is_on=True)
        try:
            while (await merchant.create(order(externalId=uuid4().hex))).status_code != 503:
                pass
            await until_writer(store, works=False)
            await asyncio.sleep(0.4)
            assert (await store.client.get("/health/ready")).json()["checks"]["commits"]
        finally:
            make_read_only(postgres_url, is_on=False)
        await until_writer(store, works=True)


async def test_a_long_commit_of_many_streams_holds_up_no_other_one(settings: Settings) -> None:
    """Else one merchant's import makes every machine unready where the disk is slow."""
    async with opened(msgspec.structs.replace(settings, commit_age_max_s=0.2)) as store, asyncio.timeout(60):
        one, other = await store.register(), await store.register()
        with psycopg.connect(str(settings.database_url), autocommit=True) as slow:
            slow.execute(
                "create function wait() returns trigger language plpgsql as "
                "$$begin perform pg_sleep(0.01); return new; end$$;"
                "create trigger wait before insert on product for each row execute function wait()"
            )
        products = [{"id": str(n), "name": "Café", "price": 100} for n in range(200)]
        importing = asyncio.create_task(one.post("/lps/products/bulk-import", {"products": products}))
        found = list[bool]()
        while not importing.done():
            assert (await other.create(order(externalId=uuid4().hex))).status_code == 201
            found.append((await store.client.get("/health/ready")).json()["checks"]["commits"])
            await asyncio.sleep(0.02)
        assert (await importing).json()["created"] == len(products)
        assert len(found) > 10
        assert all(found)


async def test_a_machine_whose_clock_is_wrong_is_not_ready(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registration, "CLOCK", "select clock_timestamp() + interval '6 seconds'")
    async with opened(settings) as store:
        answer = await store.client.get("/health/ready")
    assert answer.status_code == 503
    assert answer.json()["checks"]["clock"] is False
    assert "this machine's clock is more than five seconds from the database's" in answer.json()["reason"]
