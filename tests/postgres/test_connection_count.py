"""The connections that a service opens at most: counted in one table, and compared with what the processes really open."""

from __future__ import annotations

import asyncio
import os
import re
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from uuid import UUID, uuid4

import psycopg
import pytest
from tests.operations.conftest import register

from api.http.dependencies import open_dependencies
from ledger.background import worker
from ledger.background.audits.requests import Audits
from ledger.domain.streams import MERCHANTS
from ledger.invoicing.providers.sandbox import SandboxProvider
from ledger.journal.commit.large_commits import STREAMS_MIN
from ledger.operations.context.inputs import Actor
from ledger.operations.products.import_products import ProductInput, import_products
from ledger.postgres.connection_count import (
    api_connections,
    connections_max,
    embedded_settings,
    fit_processes,
    replica_connections,
    require_connections,
    worker_connections,
)
from ledger.postgres.prepare import connections_allowed
from ledger.processors.sandbox.processor import SandboxProcessor
from ledger.settings import CannotRun, Settings, api_processes
from ledger.wiring import open_ledger
from projections.events.numbered import EventQuery

pytestmark = pytest.mark.anyio

SRC = Path(__file__).parents[2] / "src"
OF_OTHERS = {
    "ledger-archive", "ledger-bench", "ledger-cli", "ledger-demo", "ledger-doctor", "ledger-export", "ledger-follower",
    "ledger-open-log", "ledger-rebuild", "ledger-rebuild-snapshot", "ledger-recorder", "ledger-replay",
    "ledger-scenario", "ledger-verification",
}  # fmt: skip
"""The names of connections that no process of a service opens: those of commands, and of programs with the library."""

_NAMES = """
select application_name, count(*) from pg_stat_activity
 where datname = current_database() and application_name like 'ledger-%' group by 1
"""


@pytest.fixture
def settings(database_url: str, tmp_path: Path) -> Settings:
    return Settings(database_url=database_url, database_vault_url=database_url, data_dir=tmp_path, master_key="11" * 32)


class Seen(Counter[str]):
    """The most connections that were open at once, by their names."""

    async def look(self, url: str) -> None:
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
            for name, count in await (await connection.execute(_NAMES)).fetchall():
                self[name] = max(self[name], count)


@asynccontextmanager
async def observed(url: str) -> AsyncIterator[Seen]:
    """Looks all the time, until the block ends."""
    seen = Seen()

    async def look() -> None:
        while True:
            await seen.look(url)
            await asyncio.sleep(0.01)

    looking = asyncio.create_task(look())
    try:
        yield seen
        await seen.look(url)
    finally:
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)


def assert_counted(
    seen: Mapping[str, int], counted: Mapping[str, int], *, unseen: frozenset[str] = frozenset()
) -> None:
    assert {name: count for name, count in seen.items() if count > counted.get(name, 0)} == {}, "more than are counted"
    assert {name for name in counted if name not in seen} <= unseen, "counted and never opened"


def test_every_connection_of_a_process_is_counted() -> None:
    found = {
        name
        for path in SRC.rglob("*.py")
        if path.parts[-2] != "bench" and path.name != "connection_count.py"
        for name in re.findall(r'"(ledger-[a-z-]*[a-z])"', path.read_text())
    }
    counted = api_connections("sandbox").keys() | worker_connections("sandbox").keys() | replica_connections().keys()
    assert found - OF_OTHERS == counted


async def test_an_api_process_opens_no_more_connections_than_are_counted(settings: Settings, database_url: str) -> None:
    async with AsyncExitStack() as stack:
        deps = await stack.enter_async_context(open_dependencies(settings))
        merchants: list[UUID] = [(await register(deps.ledger)).merchant_id for _ in range(5)]
        seen, now = await stack.enter_async_context(observed(database_url)), datetime.now(UTC)
        await deps.ledger.order_numbers.take()
        many = [ProductInput(index=n, details={"name": "Café", "price": Decimal(1)}) for n in range(STREAMS_MIN)]
        await import_products(deps.ledger, Actor(merchant_id=merchants[0]), many)
        invoicing = deps.ledger.invoicing
        assert invoicing is not None
        assert isinstance(invoicing.provider, SandboxProvider)
        await asyncio.gather(*[deps.feed.catch_up(merchant) for merchant in merchants])
        await asyncio.gather(*[deps.events.page(merchant, EventQuery()) for merchant in merchants])
        await asyncio.gather(*[deps.past.is_recorded(merchant, now) for merchant in merchants])
        await asyncio.gather(*[deps.histories.find(merchant, MERCHANTS, str(merchant)) for merchant in merchants])
        await asyncio.gather(*[deps.summaries.summary(merchant, None, now) for merchant in merchants])
        await asyncio.gather(*[deps.trees.place(merchant) for merchant in merchants])
        await asyncio.gather(*[deps.audits.request(merchant) for merchant in merchants])
        await asyncio.gather(*[deps.repeats.redeliver(merchant, uuid4(), [uuid4()]) for merchant in merchants])
        await asyncio.gather(*[invoicing.issuers.find(merchants[0]) for _ in range(3)])
        await asyncio.gather(*[invoicing.provider.set_mode(merchant, "OK") for merchant in merchants])
        assert deps.ledger.accounts is not None
        await asyncio.gather(*[deps.ledger.accounts.keys.open(merchant, uuid4()) for merchant in merchants])
        assert deps.ledger.webhooks is not None
        await asyncio.gather(*[deps.ledger.webhooks.count(merchant) for merchant in merchants])
        processor, clock_control = deps.ledger.processors.sandbox, deps.clock_control
        assert isinstance(processor, SandboxProcessor)
        assert clock_control is not None

        async def call() -> None:
            async with processor._executor.connection() as connection:
                await connection.execute("select pg_sleep(0.2)")

        await asyncio.gather(
            *[call() for _ in range(12)],
            *[deps.queries._lists.rows("select pg_sleep(0.2)", {}) for _ in range(12)],
            *[clock_control.advance(merchant, "x", lambda now: now + timedelta(hours=1)) for merchant in merchants],
        )
        await asyncio.sleep(0.3)  # the notifier gathers what has grown
    counted = api_connections("sandbox")
    assert_counted(seen, counted, unseen=frozenset({"ledger-jobs"}))  # which no move needed
    full = ("ledger-sandbox-calls", "ledger-lists", "ledger-clock")
    assert [seen[name] for name in full] == [counted[name] for name in full], "the load filled every pool"


async def test_a_worker_opens_no_more_connections_than_are_counted(settings: Settings, database_url: str) -> None:
    unused = {
        "ledger-issuers",
        "ledger-stamping",
        "ledger-account-keys",
        "ledger-webhook-secrets",
        "ledger-feed",
        "ledger-delivery-outcomes",
        "ledger-delivery-persons",
    }
    async with open_ledger(settings) as ledger:
        merchants = [await register(ledger) for _ in range(20)]
    audits = Audits(database_url)
    for merchant in merchants:  # one after another, because a look may come too late for the short audit of one
        await audits.request(merchant.merchant_id)
    await audits.stop()
    ready, stop = asyncio.Event(), asyncio.Event()
    async with observed(database_url) as seen, asyncio.timeout(120):
        running = asyncio.create_task(worker.run(settings, ready.set, stop))
        await ready.wait()
        expected = worker_connections("sandbox").keys() - {"ledger-ordinals"} - unused
        while not seen.keys() >= expected:  # noqa: ASYNC110 - no event
            await asyncio.sleep(0.02)
        stop.set()
        await running
    assert_counted(seen, worker_connections("sandbox"), unseen=frozenset(unused))


def test_the_embedded_server_accepts_the_service_and_some_more() -> None:
    for workers in (1, 6, 64):
        settings = Settings(workers=workers)
        limit = int(embedded_settings(settings)["max_connections"])
        assert limit >= max(100, connections_max(settings) + 3 + 10)
    api, both = sum(api_connections("sandbox").values()), connections_max(Settings(workers=2))
    assert connections_max(Settings(workers=3)) - both == api
    assert sum(api_connections("production").values()) < api


def test_a_server_that_accepts_too_few_ends_the_start_with_one_line() -> None:
    settings = Settings(workers=6)
    needed = connections_max(settings)
    require_connections(settings, needed)
    with pytest.raises(CannotRun) as refusal:
        require_connections(settings, needed - 5)
    assert str(refusal.value) == (
        f"6 API processes (LEDGER_WORKERS) and a worker may open {needed} connections, and the database allows this role {needed - 5}: "
        "raise max_connections by 5, or start fewer API processes"
    )


@pytest.mark.parametrize(("spare", "processes"), [(0, 4), (-1, 3), (-1_000, 1)])
def test_as_many_api_processes_start_by_themselves_as_the_database_accepts(
    spare: int, processes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    allowed = connections_max(Settings()) + spare
    assert api_processes(fit_processes(Settings(), allowed)) == processes
    assert fit_processes(Settings(workers=6), allowed) == Settings(workers=6)


def test_the_limit_of_a_role_counts_too(database_url: str) -> None:
    role = "few_connections"
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(f"create role {role} login connection limit 7")
        try:
            url = psycopg.conninfo.make_conninfo(database_url, user=role)
            assert connections_allowed(url) == 7 < connections_allowed(database_url)
        finally:
            connection.execute(f"drop role {role}")
