"""A primary that has lost its standby, and the standby's promotion: what was answered is there, and no more was called."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from benchmarks.scratch import running_standby, start_standby
from tests.api.bodies import paid_order
from tests.api.storefront import opened
from tests.streaming import running_primary, wait_until

from ledger.journal.commit import group_commit
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
def primary(short_dir: Path) -> Iterator[EmbeddedServer]:
    with running_primary(short_dir / "primary") as running:
        yield running


@pytest.fixture
def standby(short_dir: Path, primary: EmbeddedServer) -> Iterator[EmbeddedServer]:
    """A synchronous standby of the primary."""
    with running_standby(short_dir / "standby", primary) as running:
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
