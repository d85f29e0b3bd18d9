"""Where the shards of a distributed database are."""

from __future__ import annotations

import os
from typing import Final
from uuid import UUID

from psycopg.conninfo import make_conninfo
from tests.journal.small_log import fetch

# The workers on which something waits for a lock of Citus.
WAITING: Final = """
select nodename from run_command_on_workers($$select count(*) from pg_locks where not granted and locktype = 'advisory'$$)
 where result <> '0'
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
