"""Where the shards of a distributed database are, and their merchants."""

from __future__ import annotations

import os
from typing import Final
from uuid import UUID

import psycopg
from campaigns.citus.cluster import CitusCluster
from psycopg.conninfo import make_conninfo
from tests.journal.small_log import fetch
from tests.operations.conftest import register

from ledger.journal.commit.shard_writers import ShardWriters
from ledger.operations.context.inputs import Actor
from ledger.operations.context.ledger import Ledger

# The workers on which something waits for a lock of Citus.
WAITING: Final = """
select nodename from run_command_on_workers($$select count(*) from pg_locks where not granted and locktype = 'advisory'$$)
 where result <> '0'
"""


_MIDDLE: Final = """
select (shardminvalue::int8 + (shardmaxvalue::int8 - shardminvalue::int8) / 2)::text from pg_dist_shard where shardid = %s
"""


def shard_to_move(url: str, merchant: UUID) -> tuple[int, int, int]:
    """Returns the shard of a merchant, its node and another one."""
    (found,) = fetch(
        url,
        """
        select p.shardid, n.nodeid, (select nodeid from pg_dist_node o where o.shouldhaveshards and o.groupid <> p.groupid)
          from pg_dist_placement p join pg_dist_node n using (groupid)
         where p.shardid = get_shard_id_for_distribution_column('event', %s)""",
        merchant,
    )
    return found


def move_for_good(url: str, merchant: UUID) -> None:
    """Moves the shard of a merchant, and removes what Citus keeps of it where it was."""
    fetch(url, "select citus_move_shard_placement(%s, %s, %s, 'block_writes')", *shard_to_move(url, merchant))
    clean_up(url)


def split_shard(url: str, merchant: UUID) -> None:
    """Makes two shards of a merchant's, on its node, and removes what Citus keeps of the former one."""
    shard, node, _ = shard_to_move(url, merchant)
    ((middle,),) = fetch(url, _MIDDLE, shard)
    split = "select citus_split_shard_by_split_points(%s, array[%s], array[%s, %s]::int4[], 'block_writes')"
    fetch(url, split, shard, middle, node, node)
    clean_up(url)


def clean_up(url: str) -> None:
    """Removes what Citus keeps of shards where they were."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("call citus_cleanup_orphaned_resources()")


def place_of(url: str, merchant: UUID, table: str) -> tuple[str, str]:
    """Returns the server that has a merchant's rows of a table, and its name there: on Citus, that of a shard."""
    if not os.environ.get("LEDGER_TEST_CITUS"):
        return url, table
    ((shard, host, port),) = fetch(
        url,
        """
        select p.shardid, n.nodename, n.nodeport from pg_dist_placement p join pg_dist_node n using (groupid)
         where p.shardid = get_shard_id_for_distribution_column(%s, %s)""",
        table,
        merchant,
    )
    options = "-c citus.enable_manual_changes_to_shards=on"
    return make_conninfo(url, host=host, port=port, options=options), f"{table}_{shard}"


async def merchants_on(cluster: CitusCluster, ledger: Ledger) -> tuple[Actor, Actor]:
    """Returns a merchant on the first worker, and one on the other."""
    assert isinstance(ledger.journal.writer, ShardWriters)
    found: dict[bool, Actor] = {}
    while len(found) < 2:
        merchant = await register(ledger)
        url = ledger.journal.writer.shards.of(merchant.merchant_id.bytes).url
        found.setdefault(str(cluster.nodes[1].cluster.sockets) in url, merchant)
    return found[True], found[False]
