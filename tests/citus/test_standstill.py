"""Commits that wait for a standby at one node of Citus, which its coordinator does not see in its own processes."""

from __future__ import annotations

import asyncio

import pytest
from campaigns.citus.cluster import CitusCluster
from psycopg.conninfo import conninfo_to_dict
from tests.citus.test_down_node import merchants_on
from tests.operations.conftest import an_order, by_card
from tests.standbys import without_standby

from ledger.journal.commit.shard_writers import ShardWriters
from ledger.operations.context.ledger import Ledger
from ledger.operations.orders.create import create_order
from ledger.postgres.connection import connect, held_up_commits
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
