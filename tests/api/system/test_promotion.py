"""A primary that has lost its standby, and the standby's promotion: what was answered is there, and no more was called."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from benchmarks.scratch import running_standby, start_standby
from campaigns.chaos.service import children_of
from structlog.testing import capture_logs
from tests.api.bodies import paid_order
from tests.api.storefront import opened
from tests.servers import address_of, naming
from tests.streaming import running_primary, wait_until

from ledger.journal.commit import group_commit
from ledger.postgres import connection as connections
from ledger.postgres import silent_servers
from ledger.postgres.connection import QueryTimeout, TakesNoWrites, connect
from ledger.postgres.embedded.server import EmbeddedServer
from ledger.postgres.migrate import migrate
from ledger.postgres.prepare import prepare, standbys_of
from ledger.processors.sandbox.processor import SandboxProcessor
from ledger.settings import CannotRun, Settings

pytestmark = [pytest.mark.anyio, pytest.mark.long]

ANSWER_S = 1.0
END = "select pg_terminate_backend(pid) from pg_stat_activity where wait_event = 'SyncRep'"


@pytest.fixture
def home(short_dir: Path) -> Path:
    """A new directory for the servers of one test."""
    made = short_dir / uuid4().hex[:8]
    made.mkdir()
    return made


@pytest.fixture
def primary(home: Path) -> Iterator[EmbeddedServer]:
    with running_primary(home / "primary") as running:
        yield running


@pytest.fixture
def standby(home: Path, primary: EmbeddedServer) -> Iterator[EmbeddedServer]:
    """A synchronous standby of the primary."""
    with running_standby(home / "standby", primary) as running:
        with psycopg.connect(primary.url, autocommit=True) as connection:
            connection.execute("alter system set synchronous_standby_names = 'second'")
            connection.execute("select pg_reload_conf()")
            wait_until(connection, "select sync_state from pg_stat_replication", "sync")
        yield running


async def test_a_primary_without_its_standby_answers_nothing_that_a_promotion_loses(
    primary: EmbeddedServer, standby: EmbeddedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(QueryTimeout.__init__, "__defaults__", (ANSWER_S,))
    for name in ("ANSWER_MAX_S", "UNKNOWN_MAX_S", "START_MAX_S"):
        monkeypatch.setattr(group_commit, name, ANSWER_S)
    calls: list[object] = []
    authorize = SandboxProcessor.authorize

    async def counted(self: SandboxProcessor, *args: object, **options: object) -> object:
        calls.append(args)
        return await authorize(self, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(SandboxProcessor, "authorize", counted)
    migrate(primary.url)
    with pytest.raises(CannotRun, match=r"^the database is a standby, which takes no writes: name the primary"):
        prepare(Settings(data_dir=tmp_path, master_key="11" * 32), standby.url)
    with pytest.raises(TakesNoWrites):
        await connect(standby.url, "test")
    settings = Settings(database_url=primary.url, data_dir=tmp_path, master_key="11" * 32, request_timeout_s=20.0)
    assert standbys_of(primary.url).connected == {"second": True}
    async with opened(settings) as store:
        merchant = await store.register()
        answered = [await merchant.create(paid_order(externalId=f"a-{n}")) for n in range(3)]
        assert [answer.status_code for answer in answered] == [201] * 3
        assert len(calls) == 3
        standby.stop(at_once=True)
        lone = [asyncio.create_task(merchant.create(paid_order(externalId=f"b-{n}"))) for n in range(2)]
        await asyncio.sleep(ANSWER_S / 2)
        with psycopg.connect(primary.url, autocommit=True) as operator:
            operator.execute(END)
            refused = [await answer for answer in lone]
            refused.append(await merchant.create(paid_order(externalId="b-0")))
            operator.execute(END)
            refused.append(await merchant.create(paid_order(externalId="b-0")))
        assert [answer.status_code for answer in refused] == [503] * 4
        assert len(calls) == 3
        primary.stop(at_once=True)
    start_standby(standby)
    with psycopg.connect(standby.url, autocommit=True) as promoted:
        promoted.execute("select pg_promote()")
        wait_until(promoted, "select pg_is_in_recovery()", value=False)
        ids = {answer.json()["id"] for answer in answered}
        kept = promoted.execute(
            "select distinct stream_id::text from event where stream_id = any(%s::uuid[])", [list(ids)]
        )
        assert {stream_id for (stream_id,) in kept} == ids


@contextmanager
def frozen(running: EmbeddedServer) -> Iterator[None]:
    """A server all of whose processes are stopped: its connections stay open, and new ones are accepted."""
    postmaster = int((running.cluster.directory / "postmaster.pid").read_text().split()[0])
    pids = [postmaster, *children_of(postmaster)]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


async def test_writes_go_on_at_the_new_primary_while_the_former_one_is_frozen(
    primary: EmbeddedServer, standby: EmbeddedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (connections, silent_servers):
        monkeypatch.setattr(module, "SILENT_S", ANSWER_S)
    migrate(primary.url)
    url = naming(primary.url, address_of(primary.url), address_of(standby.url))
    settings = Settings(database_url=url, data_dir=tmp_path, master_key="11" * 32, request_timeout_s=30.0)
    with ExitStack() as until_stopped:
        async with opened(settings) as store:
            merchant = await store.register()
            answered = [await merchant.create(paid_order(externalId=f"a-{n}")) for n in range(3)]
            assert [answer.status_code for answer in answered] == [201] * 3
            until_stopped.enter_context(frozen(primary))  # thawed, it would be a second primary
            with capture_logs() as lines:
                unknown = await merchant.create(paid_order(externalId="b-0"))
                assert unknown.status_code == 503
                assert [line["event"] for line in lines].count("database_silent") == 1
                with psycopg.connect(standby.url, autocommit=True) as promoted:
                    promoted.execute("select pg_promote()")
                async with asyncio.timeout(60):
                    while (answer := await merchant.create(paid_order(externalId="b-0"))).status_code == 503:  # noqa: ASYNC110 - no event
                        await asyncio.sleep(0.1)
                    # The reader looks for the primary itself, and on a busy machine longer than the second that a read waits.
                    while (page := await merchant.get("/api/v2/payment-orders")).status_code == 503:  # noqa: ASYNC110 - no event
                        await asyncio.sleep(0.1)
                assert (answer.status_code, page.status_code) == (201, 200)
                answered.append(answer)
                former = address_of(primary.url)[0].encode()
                assert not [each for each in silent_servers._open if each.server[0] == former and not each.closed]
    with psycopg.connect(standby.url) as after:
        kept = after.execute("select count(distinct stream_id) from event where topic like 'order-created%'")
        assert kept.fetchone() == (len(answered),)
