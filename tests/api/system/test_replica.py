"""Lists that a standby answers: each shows what was acknowledged before, or the primary answers it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from benchmarks.scratch import running_standby, start_standby
from msgspec.structs import replace
from psycopg.conninfo import conninfo_to_dict
from structlog.testing import capture_logs
from tests.api.bodies import order, paid_order
from tests.api.storefront import ORDERS, Merchant, Storefront, opened
from tests.streaming import running_primary, wait_until

from ledger import doctor
from ledger.postgres import replica
from ledger.postgres.connection import connect
from ledger.postgres.embedded.server import EmbeddedServer
from ledger.postgres.faults import DatabaseUnavailable
from ledger.postgres.migrate import migrate
from ledger.postgres.prepare import prepare
from ledger.postgres.replica import (
    WRITTEN,
    NoStandby,
    Position,
    ReplicaUse,
    connect_replica,
    replayed,
    require_replayed,
    written_in,
)
from ledger.settings import Settings
from ledger.telemetry.metrics import REPLICA_READS
from projections.lists import pool

pytestmark = pytest.mark.anyio

LISTS = (
    ORDERS,
    f"{ORDERS}?search=order",
    f"{ORDERS}?customerId=ana",
    f"{ORDERS}?email=ana@example.com",
    f"{ORDERS}?externalId=order-1",
    "/api/customers",
    "/lps/products",
    "/api/v1/plans",
    "/api/v1/subscriptions",
    "/api/v1/invoices/global",
    "/api/v1/audits",
    "/api/v1/invoices/month-end?month=2026-03",
    "/api/v1/summary",
)

SILENT = {
    "ledger-replica-pages": ORDERS,
    "ledger-replica-lists": f"{ORDERS}?customerId=ana",
    "ledger-replica-summaries": "/api/v1/summary",
}
"""The names of the connections at a replica, each with a path that is read there."""


@pytest.fixture(scope="module")
def primary(short_dir: Path) -> Iterator[EmbeddedServer]:
    with running_primary(short_dir / "replica-primary") as running:
        migrate(running.url)
        yield running


@pytest.fixture(scope="module")
def standby(short_dir: Path, primary: EmbeddedServer) -> Iterator[EmbeddedServer]:
    with running_standby(short_dir / "replica-standby", primary) as running:
        yield running


@pytest.fixture
def settings(primary: EmbeddedServer, standby: EmbeddedServer, tmp_path: Path) -> Settings:
    return Settings(database_url=primary.url, read_database_url=standby.url, data_dir=tmp_path, master_key="11" * 32)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets reads wait until the replica has caught up, however busy the machine is."""
    monkeypatch.setattr(replica, "_CATCH_UP_MAX_S", 30.0)


@asynccontextmanager
async def used(settings: Settings) -> AsyncIterator[Storefront]:
    """The application, once it uses its replica."""
    async with opened(settings) as store:
        await until(lambda: warning_of(store), "")
        yield store


async def warning_of(store: Storefront) -> str:
    warning: str = (await store.client.get("/health/ready")).json().get("warning", "")
    return warning


async def until(ask: Callable[[], Any], part: str) -> None:
    """Returns once the answer is this text, or contains it. Raises TimeoutError instead of waiting for ever."""
    async with asyncio.timeout(60):
        while not (  # noqa: ASYNC110 - no event
            (answer := await ask()) == part or (part and part in answer)
        ):
            await asyncio.sleep(0.02)


@contextlib.contextmanager
def paused(standby: EmbeddedServer) -> Iterator[None]:
    """A standby that receives the primary's log and does not show it, until the block ends."""
    with psycopg.connect(standby.url, autocommit=True) as operator:
        operator.execute("select pg_wal_replay_pause()")
        while operator.execute("select pg_get_wal_replay_pause_state()").fetchone() != ("paused",):
            pass
        try:
            yield
        finally:
            operator.execute("select pg_wal_replay_resume()")


def counted() -> dict[str, float]:
    return {
        outcome: REPLICA_READS.labels(outcome)._value.get() for outcome in ("answered", "behind", "failed", "unused")
    }


async def ids(merchant: Merchant, path: str = ORDERS) -> list[str]:
    answer = await merchant.get(path)
    assert answer.status_code == 200
    return [each["id"] for each in answer.json()["data"]]


@pytest.mark.usefixtures("patient")
async def test_the_replica_answers_every_list_as_the_primary_does(settings: Settings) -> None:
    async with used(settings) as store:
        merchant = await store.register()
        created = await merchant.create(paid_order())
        assert created.status_code == 201
        by_replica = []
        for path in LISTS:
            before = counted()
            by_replica.append(await merchant.get(path))
            after = counted()
            assert by_replica[-1].status_code == 200, path
            assert after["answered"] > before["answered"], path
            assert {**after, "answered": 0} == {**before, "answered": 0}, path
    async with opened(Settings(**{**as_dict(settings), "read_database_url": None})) as store:
        merchant = Merchant(merchant.merchant_id, merchant.secret, store.client)
        for path, answer in zip(LISTS, by_replica, strict=True):
            if path.endswith("/summary"):  # of another moment
                assert (await merchant.get(path)).json()["orders"] == answer.json()["orders"]
            else:
                assert (await merchant.get(path)).content == answer.content, path


def as_dict(settings: Settings) -> dict[str, Any]:
    return {name: getattr(settings, name) for name in settings.__struct_fields__}


@pytest.mark.usefixtures("patient")
async def test_a_list_shows_every_order_that_was_acknowledged_before(settings: Settings) -> None:
    async with used(settings) as store:
        merchant = await store.register()
        before = counted()
        for n in range(20):
            created = (await merchant.create(order(externalId=f"own-{n}"))).json()["id"]
            assert created in await ids(merchant)
            assert created in await ids(merchant, f"{ORDERS}?customerId=ana&limit=50")
        assert counted()["answered"] == before["answered"] + 20 * 2


async def test_a_replica_that_is_behind_answers_nothing(
    settings: Settings, standby: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with used(settings) as store, used(settings) as other_machine:
        merchant, neighbour = await store.register(), await store.register()
        elsewhere = Merchant(merchant.merchant_id, merchant.secret, other_machine.client)
        first = (await merchant.create(order())).json()["id"]
        assert await ids(elsewhere) == [first]
        with paused(standby):
            before = counted()
            second = (await merchant.create(order(externalId="order-2"))).json()["id"]
            for asked in (elsewhere, merchant):
                assert await ids(asked) == [second, first]
                assert await ids(asked, f"{ORDERS}?customerId=ana") == [second, first]
                (sums,) = (await asked.get("/api/v1/summary")).json()["orders"]
                assert sums["orders"] == 2
            assert await ids(neighbour) == []
            after = counted()
            assert after["answered"] == before["answered"]
            assert after["behind"] > before["behind"]
            assert "it is behind the primary" in await warning_of(store)
            assert (await store.client.get("/health/ready")).status_code == 200
        for machine in (store, other_machine):
            await until(lambda machine=machine: warning_of(machine), "")  # type: ignore[misc]
        monkeypatch.setattr(replica, "_CATCH_UP_MAX_S", 30.0)
        before = counted()
        assert await ids(elsewhere) == [second, first]
        assert counted()["answered"] == before["answered"] + 1


@pytest.mark.usefixtures("patient")
async def test_the_primary_answers_while_the_replica_is_away(settings: Settings, standby: EmbeddedServer) -> None:
    with capture_logs() as logs:
        async with used(settings) as store:
            merchant = await store.register()
            created = (await merchant.create(order())).json()["id"]
            assert await ids(merchant) == [created]
            assert await ids(merchant, f"{ORDERS}?search=order") == [created]
            before = counted()
            standby.stop(at_once=True)
            try:
                assert await ids(merchant) == [created]
                assert await ids(merchant, f"{ORDERS}?search=order") == [created]
                await until(lambda: warning_of(store), "it does not answer")
                assert await ids(merchant) == [created]
                after = counted()
                assert after["answered"] == before["answered"]
                assert after["failed"] > before["failed"]
                assert after["unused"] > before["unused"]
            finally:
                start_standby(standby)
            await until(lambda: warning_of(store), "")
            before = counted()
            assert await ids(merchant) == [created]
            assert await ids(merchant, f"{ORDERS}?search=order") == [created]
            assert counted()["answered"] == before["answered"] + 2
    told = [line["event"] for line in logs if line["event"].startswith("replica_")]
    assert told == ["replica_used", "replica_unused", "replica_used"]


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize(("name", "path"), SILENT.items(), ids=SILENT)
async def test_no_read_waits_for_a_replica_that_is_silent(
    settings: Settings, standby: EmbeddedServer, monkeypatch: pytest.MonkeyPatch, name: str, path: str
) -> None:
    monkeypatch.setattr(replica, "ANSWER_MAX_S", 1.0)
    monkeypatch.setattr(pool, "_ANSWER_MAX_S", 1.0)
    async with used(settings) as store:
        merchant = await store.register()
        assert (await merchant.get(path)).status_code == 200
        with psycopg.connect(standby.url) as operator:
            found = operator.execute("select pid from pg_stat_activity where application_name = %s", (name,))
            [(pid,)] = found.fetchall()
        os.kill(pid, signal.SIGSTOP)
        try:
            assert (await merchant.get(path)).status_code == 200
        finally:
            os.kill(pid, signal.SIGCONT)


async def test_an_application_starts_without_its_replica(primary: EmbeddedServer, tmp_path: Path) -> None:
    nowhere = f"host={tmp_path} dbname=ledger user=ledger password=secret"
    settings = Settings(database_url=primary.url, read_database_url=nowhere, data_dir=tmp_path, master_key="11" * 32)
    async with opened(settings) as store:
        merchant = await store.register()
        created = (await merchant.create(order())).json()["id"]
        assert await ids(merchant) == [created]
        await until(lambda: warning_of(store), "it does not answer: OperationalError")


async def test_a_server_that_was_promoted_is_no_replica(primary: EmbeddedServer) -> None:
    with pytest.raises(NoStandby):
        await connect_replica(primary.url, "test")
    connection = await connect(primary.url, "test")  # as one that was opened before the promotion
    with pytest.raises(NoStandby):
        await replayed(connection)
    assert connection.closed

    async def written() -> int:
        raise AssertionError("the primary is not asked for a replica that is not used")

    use = ReplicaUse(primary.url, written)
    await use.look()
    assert use.reason == "the server is no standby: it was promoted, or is the primary itself"
    assert await use.ask(lambda _: asyncio.sleep(0, "read")) is None


@pytest.mark.usefixtures("patient")
async def test_the_primary_answers_once_its_replica_was_promoted(
    primary: EmbeddedServer, short_dir: Path, tmp_path: Path
) -> None:
    with running_standby(short_dir / "promoted", primary) as standby:
        settings = Settings(
            database_url=primary.url, read_database_url=standby.url, data_dir=tmp_path, master_key="11" * 32
        )
        async with used(settings) as store:
            merchant = await store.register()
            first = (await merchant.create(order())).json()["id"]
            for path in (ORDERS, f"{ORDERS}?customerId=ana"):
                assert await ids(merchant, path) == [first]
            with psycopg.connect(standby.url, autocommit=True) as operator:
                operator.execute("select pg_promote()")
            second = (await merchant.create(order(externalId="order-2"))).json()["id"]
            for path in (ORDERS, f"{ORDERS}?customerId=ana"):
                assert await ids(merchant, path) == [second, first]
            await until(lambda: warning_of(store), "it was promoted")


@pytest.mark.usefixtures("patient")
async def test_a_standby_of_the_old_timeline_answers_nothing(
    primary: EmbeddedServer, standby: EmbeddedServer, short_dir: Path, tmp_path: Path
) -> None:
    """Loses the first primary: one standby is promoted, and the other one has more of the old log than that."""
    with (
        running_standby(short_dir / "fork", primary) as promoted,
        running_standby(short_dir / "follower", promoted) as follower,
    ):
        with psycopg.connect(promoted.url, autocommit=True) as operator:
            operator.execute("select pg_promote()")
        with psycopg.connect(primary.url, autocommit=True) as operator:
            operator.execute("select pg_logical_emit_message(true, 'test', repeat('x', 8_000_000))")
            row = operator.execute("select pg_current_wal_flush_lsn()").fetchone()
            assert row is not None
        with psycopg.connect(standby.url, autocommit=True) as operator:
            wait_until(operator, f"select pg_last_wal_replay_lsn() >= '{row[0]}'", value=True)
        settings = Settings(database_url=promoted.url, data_dir=tmp_path, master_key="11" * 32)
        async with opened(replace(settings, read_database_url=standby.url)) as store:
            await until(lambda: warning_of(store), "")
            merchant = await store.register()
            created = (await merchant.create(order())).json()["id"]
            for path in (ORDERS, f"{ORDERS}?customerId=ana"):
                assert await ids(merchant, path) == [created]
            await until(lambda: warning_of(store), "it follows another timeline")
            with psycopg.connect(promoted.url) as operator:
                shows_as_much = operator.execute(f"select pg_current_wal_insert_lsn() < '{row[0]}'").fetchone()
            assert shows_as_much == (True,), "the bytes alone would not tell the two logs apart"
        async with used(replace(settings, read_database_url=follower.url)) as store:
            merchant = Merchant(merchant.merchant_id, merchant.secret, store.client)
            before = counted()
            for path in (ORDERS, f"{ORDERS}?customerId=ana"):
                assert await ids(merchant, path) == [created]
            assert counted()["answered"] == before["answered"] + 2


@pytest.mark.usefixtures("patient")
def test_doctor_reports_what_becomes_of_the_replica(
    settings: Settings,
    primary: EmbeddedServer,
    standby: EmbeddedServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    prepare(settings, primary.url)

    def found(url: str) -> tuple[str, str]:
        variables = {
            "LEDGER_DATABASE_URL": primary.url,
            "LEDGER_READ_DATABASE_URL": url,
            "LEDGER_DATA_DIR": str(tmp_path),
            "LEDGER_MASTER_KEY": "11" * 32,
        }
        return next((each.state, each.text) for each in doctor.examine(variables) if each.check == "replica")

    assert found(standby.url) == ("ok", "it answers lists, searches and reports")
    state, text = found(primary.url)
    assert (state, "it was promoted, or is the primary itself" in text) == ("warn", True)
    state, text = found(f"host={tmp_path} dbname=ledger user=ledger password=secret")
    assert (state, "it does not answer: connection " in text, "secret" in text) == ("warn", True, False)
    with monkeypatch.context() as patch:
        patch.setattr(doctor, "connections_allowed", lambda _: 3)
        state, text = found(standby.url)
        assert (state, text.partition(",")[0]) == ("warn", "it allows 3 connections")
    monkeypatch.undo()
    with paused(standby):
        with psycopg.connect(primary.url, autocommit=True) as operator:
            operator.execute("select pg_logical_emit_message(true, 'test', '')")
        state, text = found(standby.url)
        assert (state, "bytes of log behind" in text) == ("warn", True)


@pytest.mark.usefixtures("patient")
async def test_the_application_reads_the_replica_as_its_own_role(settings: Settings, primary: EmbeddedServer) -> None:
    ready = await asyncio.to_thread(prepare, settings, primary.url)
    own, at_replica = [conninfo_to_dict(str(url)) for url in (ready.database_url, ready.read_database_url)]
    assert str(own["user"]).startswith("ledger_app_")
    assert (at_replica["user"], at_replica["password"]) == (own["user"], own["password"])
    assert at_replica["host"] == conninfo_to_dict(str(settings.read_database_url))["host"]
    async with await connect(str(ready.database_url), "test") as connection:
        (row,) = await (await connection.execute(WRITTEN, binary=True)).fetchall()
    await until(lambda: is_role_replayed(str(own["user"]), settings), "yes")
    async with await connect_replica(str(ready.read_database_url), "test") as connection:
        await require_replayed(connection, written_in(row))


async def is_role_replayed(role: str, settings: Settings) -> str:
    async with await connect_replica(str(settings.read_database_url), "test") as connection:
        found = await connection.execute("select from pg_roles where rolname = %s", (role,))
        return "yes" if await found.fetchone() is not None else "no"


async def test_a_read_that_takes_too_long_at_the_replica_is_not_asked_of_the_primary_too() -> None:
    async def written() -> Position:
        return Position(1, 1)

    use = ReplicaUse("", written)
    for cause, is_refused in ((psycopg.errors.QueryCanceled(), True), (psycopg.OperationalError(), False)):
        use.reason = ""

        async def read(_: Position, cause: psycopg.Error = cause) -> None:
            raise DatabaseUnavailable from cause

        with pytest.raises(DatabaseUnavailable) if is_refused else contextlib.nullcontext():
            assert await use.ask(read) is None
        assert bool(use.reason) is not is_refused


async def test_the_sessions_at_a_replica_have_their_settings(standby: EmbeddedServer) -> None:
    connection = await connect_replica(standby.url, "test")
    names = "select current_setting('statement_timeout'), current_setting('default_transaction_read_only')"
    assert await (await connection.execute(names)).fetchone() == ("5s", "on")
    await connection.close()
