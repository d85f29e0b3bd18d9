"""The probe of the database's disk: what it reports while there is no room, and afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import psycopg
import pytest
from tests.journal.small_log import writer_kind
from tests.metric_values import metric_value

from ledger.journal.commit import disk_probe
from ledger.journal.commit.disk_probe import DiskProbe
from ledger.journal.journal import Journal
from ledger.postgres.connection import SharedClient
from projections.inline import Inline

pytestmark = pytest.mark.anyio

FULL = "do $$ begin raise exception using errcode = 'disk_full'; end $$"
READ_ONLY = "do $$ begin raise exception using errcode = 'insufficient_privilege'; end $$"


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - no event
            await asyncio.sleep(0.01)


async def test_a_journal_without_room_is_down_until_there_is_room(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(database_url, Inline(), new_writer=writer_kind())
    await journal.start()
    try:
        async with journal.disk.probing(0.01):
            for query, refusal, up in (
                (FULL, "the database has no room to write: DiskFull", 0),
                (READ_ONLY, "the database cannot write: InsufficientPrivilege", 0),  # Postgres' word for EROFS
                ("select 1", "", 1),
            ):
                monkeypatch.setattr(disk_probe, "_PROBE", query)
                await until(lambda refusal=refusal: journal.disk.refusal == refusal)
                journal.sample_metrics()
                assert metric_value("ledger_journal_up", "api-0") == up
    finally:
        await journal.stop()


async def test_a_probe_needs_room_on_the_disk_of_the_data(database_url: str) -> None:
    async with SharedClient(database_url, "ledger-announcer") as client:
        assert await DiskProbe(client)._probe() == ""
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(disk_probe._MEMORY)
        plan = connection.execute("explain (analyze, costs off, timing off, buffers) " + disk_probe._PROBE)
        assert "written=" in str(plan.fetchall())
