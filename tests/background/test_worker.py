"""The worker where one of its parts fails."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest
from campaigns.chaos.proxy import proxied
from tests.background.conftest import rows
from tests.operations.conftest import register
from tests.standbys import waiting_backends, without_standby

from ledger.background import periodic
from ledger.background.erasure import ErasureSweep
from ledger.background.reactions.runner import ReactionRunner
from ledger.background.worker import run
from ledger.operations.context.ledger import Ledger
from ledger.service.child_process import ChildProcess
from ledger.settings import Settings

pytestmark = pytest.mark.anyio

PERIODIC = 16
"""The parts of a worker, and of its parts, that do something again and again."""


async def test_the_other_parts_end_before_their_connections_where_one_fails(
    database_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ended: list[str] = []

    async def fail(_: ErasureSweep, __: asyncio.Event) -> None:
        raise LookupError("a fault of the program")

    async def wait(_: ReactionRunner, stop: asyncio.Event) -> None:
        await stop.wait()
        ended.append("reactions")

    monkeypatch.setattr(ErasureSweep, "run", fail)
    monkeypatch.setattr(ReactionRunner, "run", wait)
    settings = Settings(
        database_url=database_url, database_app_url=database_url, master_key="11" * 32, data_dir=tmp_path
    )
    with pytest.raises(LookupError):
        await asyncio.wait_for(run(settings, lambda: None, asyncio.Event()), 60)
    assert ended == ["reactions"]


async def test_every_part_outlives_a_time_without_the_database(
    database_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rounds, pause = Counter[asyncio.Task[None] | None](), periodic.pause

    async def pause_shortly(stop: asyncio.Event, _: float) -> None:
        rounds[asyncio.current_task()] += 1
        await pause(stop, 0.05)

    monkeypatch.setattr(periodic, "pause", pause_shortly)
    stop, ready = asyncio.Event(), asyncio.Event()
    async with proxied(database_url) as proxy, asyncio.timeout(60):
        settings = Settings(
            database_url=proxy.url, database_app_url=proxy.url, master_key="11" * 32, data_dir=tmp_path, seal_s=0.05
        )
        working = asyncio.create_task(run(settings, ready.set, stop))
        await ready.wait()
        while len(rounds) < PERIODIC:  # noqa: ASYNC110 - no event
            await asyncio.sleep(0.05)
        proxy.go_away()
        rounds.clear()
        while not working.done() and (len(rounds) < PERIODIC or min(rounds.values()) < 3):  # noqa: ASYNC110 - no event
            await asyncio.sleep(0.05)
        proxy.is_away = False
        stop.set()
        await working


async def test_a_worker_seals_the_logs(database_url: str, ledger: Ledger, tmp_path: Path) -> None:
    await register(ledger)
    settings = Settings(
        database_url=database_url,
        database_app_url=database_url,
        master_key="11" * 32,
        seal_s=0.05,
        data_dir=tmp_path,
    )
    stop = asyncio.Event()
    working = asyncio.create_task(run(settings, lambda: None, stop))
    sealed = "select 1 from merchant_head h join log_checkpoint c using (merchant_id) where c.size = h.position"
    while not rows(database_url, sealed) and not working.done():  # noqa: ASYNC110 - of the database
        await asyncio.sleep(0.05)
    stop.set()
    await working
    assert rows(database_url, "select size = position from log_tree join merchant_head using (merchant_id)") == [
        (True,)
    ]


async def test_a_worker_that_is_stopped_leaves_the_commits_that_wait_for_the_standby_waiting(
    database_url: str, tmp_path: Path
) -> None:
    settings = Settings(
        database_url=database_url, database_app_url=database_url, master_key="11" * 32, data_dir=tmp_path
    )
    child = ChildProcess("worker", "ledger.background.worker:run").configure(settings)
    named = """select pid from pg_stat_activity where datname = current_database() and wait_event = 'SyncRep'
                and application_name = 'ledger-jobs'"""
    try:
        async with asyncio.timeout(60):
            while not child.is_ready:
                assert child.is_alive()
                await asyncio.sleep(0.01)
            async with without_standby(database_url):
                while not (waiting := rows(database_url, named)):  # noqa: ASYNC110 - the heartbeat of its jobs
                    await asyncio.sleep(0.01)
                child.ask_to_stop()
                while child.is_alive():  # noqa: ASYNC110 - no event
                    await asyncio.sleep(0.01)
                assert child.ending == "exited with 0"
                assert {pid for (pid,) in waiting} <= {*await waiting_backends(database_url)}
    finally:
        child.end()


async def test_a_worker_that_is_stopped_while_its_database_is_away_ends(
    database_url: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    async with proxied(database_url) as proxy:
        settings = Settings(database_url=proxy.url, database_app_url=proxy.url, master_key="11" * 32, data_dir=tmp_path)
        child = ChildProcess("worker", "ledger.background.worker:run").configure(settings)
        try:
            async with asyncio.timeout(60):
                while not child.is_ready:
                    assert child.is_alive()
                    await asyncio.sleep(0.01)
                proxy.go_away()
                child.ask_to_stop()
                while child.is_alive():  # noqa: ASYNC110 - no event
                    await asyncio.sleep(0.01)
            assert child.ending == "exited with 0"
        finally:
            child.end()
    assert '"event":"process_left_database"' in capfd.readouterr().err
