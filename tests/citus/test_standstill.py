"""Commits that wait for a standby at one node of Citus, which its coordinator does not see in its own processes."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from campaigns.citus.cluster import CitusCluster
from msgspec.structs import replace
from psycopg.conninfo import conninfo_to_dict
from tests.citus.shards import merchants_on
from tests.citus.test_down_node import down
from tests.operations.conftest import an_order, by_card
from tests.standbys import without_standby

from ledger.journal.commit.shard_writers import ShardWriters
from ledger.operations.context.ledger import Ledger
from ledger.operations.orders.create import create_order
from ledger.postgres.connection import connect, held_up_commits
from ledger.service.child_process import ChildProcess
from ledger.settings import Settings

pytestmark = [pytest.mark.anyio, pytest.mark.long]

WRITE = "update merchant_head set position = position where merchant_id = %s"


async def test_commits_that_are_held_up_at_a_node_are_found(
    cluster: CitusCluster, ledger: Ledger, settings: Settings, distributed_url: str
) -> None:
    assert isinstance(ledger.journal.writer, ShardWriters)
    (merchant, _), (other, _) = [await merchants_on(cluster, ledger) for _ in range(2)]
    node = cluster.url(str(conninfo_to_dict(distributed_url)["dbname"]), 1)
    async with (
        await connect(str(settings.database_url), "test-look") as looking,
        await connect(str(settings.database_url), "test-waits") as waits,
        asyncio.timeout(60),
    ):
        assert looking.has_citus
        assert await held_up_commits(looking) == []
        async with without_standby(node):
            creating = asyncio.create_task(create_order(ledger, merchant, an_order("1", by_card())))
            while await held_up_commits(looking) != ["ledger-writer"]:  # noqa: ASYNC110 - no event
                await asyncio.sleep(0.05)
            writing = asyncio.create_task(waits.execute(WRITE, (other.merchant_id,)))
            while await held_up_commits(looking) != ["ledger-writer", "test-waits"]:  # noqa: ASYNC110 - no event
                await asyncio.sleep(0.05)
        await creating
        await writing
        while await held_up_commits(looking):  # noqa: ASYNC110 - no event
            await asyncio.sleep(0.05)


async def test_a_worker_that_is_stopped_while_a_node_is_down_leaves_it(
    cluster: CitusCluster, ledger: Ledger, settings: Settings, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    child = ChildProcess("worker", "ledger.background.worker:run").configure(replace(settings, data_dir=tmp_path))
    try:
        async with asyncio.timeout(60):
            while not child.is_ready:
                assert child.is_alive()
                await asyncio.sleep(0.01)
            with down(cluster):
                while ledger.journal.writer.alive:  # noqa: ASYNC110 - the worker notices it at the same time
                    await asyncio.sleep(0.01)
                await asyncio.sleep(1)
                child.ask_to_stop()
                while child.is_alive():  # noqa: ASYNC110 - no event
                    await asyncio.sleep(0.01)
        assert child.ending == "exited with 0"
    finally:
        child.end()
    assert '"event":"process_left_database"' in capfd.readouterr().err
