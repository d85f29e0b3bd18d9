"""The sealing of logs on nodes of Citus: none is sealed on a server that was not compared with what is outside."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final
from uuid import uuid4

import pytest
from campaigns.citus.cluster import CitusCluster
from tests.citus.shards import merchants_on, shard_to_move
from tests.citus.test_shard_writers import name_server
from tests.journal.small_log import fetch
from tests.metric_values import metric_value
from tests.operations.conftest import an_order, register
from tests.tlog.logs import sealer_of

from ledger.background import log_sealing
from ledger.operations.context.inputs import Actor
from ledger.operations.context.ledger import Ledger
from ledger.operations.orders.create import create_order
from ledger.postgres.connection import Connection
from ledger.postgres.faults import DatabaseUnavailable
from ledger.settings import Settings
from ledger.tlog.store import begin_trees

pytestmark = [pytest.mark.anyio, pytest.mark.long]

NOON: Final = datetime(2026, 3, 1, 12, tzinfo=UTC)
SIZES: Final = "select size from log_checkpoint where merchant_id = %s order by size"
END: Final = """
select run_command_on_workers($$select count(pg_terminate_backend(pid, 10000)) from pg_stat_activity
 where application_name = 'ledger-log-sealing'$$)
"""


def lose_connections(_: CitusCluster, url: str, __: int) -> None:
    """Ends the connections of sealers to the nodes, which are those of another server when they are opened again."""
    fetch(url, END)


def name_another(cluster: CitusCluster, url: str, node: int) -> None:
    """Names another address by which a node is found from now on. No connection to the former one is lost."""
    ((host,),) = fetch(url, "select nodename from pg_dist_node where nodeid = %s", node)
    other = Path(host).parent.parent / uuid4().hex[:8]
    other.symlink_to(host)
    assert cluster.nodes
    name_server(url, node, other)


@pytest.mark.parametrize("changes", [lose_connections, name_another])
async def test_a_node_that_became_an_older_server_is_compared_before_it_is_sealed(
    changes: Callable[[CitusCluster, str, int], None],
    cluster: CitusCluster,
    ledger: Ledger,
    settings: Settings,
    distributed_url: str,
    tmp_path: Path,
) -> None:
    """A standby may have been promoted that lacks what another worker has signed."""
    merchant = await register(ledger)
    url = settings.database_url or ""
    async with sealer_of(url, folder=tmp_path) as sealer, sealer_of(url, folder=tmp_path) as other:
        await ordered(ledger, merchant, "1")
        await sealer.round(asyncio.Event(), NOON)
        (tree,) = fetch(distributed_url, "select size, edge from log_tree where merchant_id = %s", merchant.merchant_id)
        await ordered(ledger, merchant, "2")
        await other.round(asyncio.Event(), NOON)
        assert [size for (size,) in fetch(distributed_url, SIZES, merchant.merchant_id)][-1] > tree[0]
        set_back(distributed_url, merchant, *tree)
        _, node, _ = shard_to_move(distributed_url, merchant.merchant_id)
        await asyncio.to_thread(changes, cluster, distributed_url, node)
        for name in ("3", "4", "5"):
            await ordered(ledger, merchant, name)
        await sealer.round(asyncio.Event(), NOON)
        assert [size for (size,) in fetch(distributed_url, SIZES, merchant.merchant_id)] == [tree[0]]


async def test_a_round_does_not_go_on_on_another_connection_to_a_node(
    ledger: Ledger, settings: Settings, distributed_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be one to a server that was not compared."""
    merchant = await register(ledger)
    url = settings.database_url or ""
    async with sealer_of(url, folder=tmp_path) as sealer, sealer_of(url, folder=tmp_path) as other:
        await ordered(ledger, merchant, "1")
        await sealer.round(asyncio.Event(), NOON)
        (tree,) = fetch(distributed_url, "select size, edge from log_tree where merchant_id = %s", merchant.merchant_id)
        await ordered(ledger, merchant, "2")
        await other.round(asyncio.Event(), NOON)

        async def lost(connection: Connection) -> None:
            """The nodes are older servers from here on."""
            await begin_trees(connection)
            if not has_lost:
                has_lost.append(True)
                set_back(distributed_url, merchant, *tree)
                await asyncio.to_thread(fetch, distributed_url, END)
                for name in ("3", "4", "5"):
                    await ordered(ledger, merchant, name)

        has_lost: list[bool] = []
        monkeypatch.setattr(log_sealing, "begin_trees", lost)
        for _ in range(2):
            with suppress(DatabaseUnavailable):
                await sealer.round(asyncio.Event(), NOON)
        assert [size for (size,) in fetch(distributed_url, SIZES, merchant.merchant_id)] == [tree[0]]


async def test_a_lost_connection_to_a_node_ends_the_round_and_the_next_one_seals(
    ledger: Ledger, settings: Settings, distributed_url: str, tmp_path: Path
) -> None:
    merchant = await register(ledger)
    async with sealer_of(settings.database_url or "", folder=tmp_path) as sealer:
        for name in ("1", "2"):
            await ordered(ledger, merchant, name)
            await sealer.round(asyncio.Event(), NOON)
            await asyncio.to_thread(fetch, distributed_url, END)
        ((head,),) = fetch(
            distributed_url, "select position from merchant_head where merchant_id = %s", merchant.merchant_id
        )
        assert [size for (size,) in fetch(distributed_url, SIZES, merchant.merchant_id)][-1] == head


async def test_logs_of_two_nodes_that_contradict_their_checkpoints_are_both_reported(
    cluster: CitusCluster, ledger: Ledger, settings: Settings, distributed_url: str, tmp_path: Path
) -> None:
    url, merchants = settings.database_url or "", await merchants_on(cluster, ledger)
    async with sealer_of(url, folder=tmp_path) as sealer:
        for name in ("1", "2"):
            for merchant in merchants:
                await ordered(ledger, merchant, name)
            await sealer.round(asyncio.Event(), NOON)
    before = [
        fetch(distributed_url, "select min(size) from log_checkpoint where merchant_id = %s", merchant.merchant_id)
        for merchant in merchants
    ]
    for merchant, ((size,),) in zip(merchants, before, strict=True):
        edge = "select edge from log_tree where merchant_id = %s"
        set_back(distributed_url, merchant, size, fetch(distributed_url, edge, merchant.merchant_id)[0][0])
    async with sealer_of(url, folder=tmp_path) as beginning:
        await beginning.round(asyncio.Event(), NOON)
        beginning.sample()
        assert metric_value("ledger_log_changed_merchants", "api-0") == 2


async def ordered(ledger: Ledger, merchant: Actor, name: str) -> None:
    await create_order(ledger, merchant, an_order(name))


def set_back(url: str, merchant: Actor, size: int, edge: bytes) -> None:
    """Sets a log back to what it was at a size, as a standby has it that lacks the newest commits."""
    merchant_id = merchant.merchant_id
    for statement, values in (
        ("delete from event where merchant_id = %s and position > %s returning true", (merchant_id, size)),
        ("update merchant_head set position = %s where merchant_id = %s returning true", (size, merchant_id)),
        ("delete from log_checkpoint where merchant_id = %s and size > %s returning true", (merchant_id, size)),
        ("update log_tree set size = %s, edge = %s where merchant_id = %s returning true", (size, edge, merchant_id)),
    ):
        fetch(url, statement, *values)
