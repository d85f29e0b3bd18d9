"""The tables of a ledger on Citus, which divides them among servers by merchant: where each one is, and how they are
divided.

Everything that a commit of a merchant writes is on one server: those tables are distributed by `merchant_id` and
colocated, so that the commit is a transaction of that server alone. What workers take turns at is on the coordinator:
the queue of jobs, what is due and what waits, with the cursors that move in the transactions of these.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import psycopg
from msgspec import Struct
from psycopg import sql

from ledger.postgres.migrate import LOCK
from ledger.progress import Progress, unreported
from ledger.settings import CannotRun

HEADS: Final = "merchant_head"
"""The table that the others are colocated with."""

DISTRIBUTED: Final = (
    HEADS,
    # The log, and what its readers keep beside it.
    "event", "claim", "data_key", "log_tree", "log_tile", "log_checkpoint", "archived_log", "archived_file", "tracking",
    "snapshot",
    # The read models that the commit writes.
    "merchant", "api_key", "customer", "customer_count", "product", "payment_method", "payment_order", "tally",
    "search_block", "plan", "subscription", "subscription_invoice", "global_invoice", "global_invoice_order",
    "processor_account", "webhook_endpoint",
    # What is computed from the log later, for one merchant at a time.
    "search_count", "event_feed", "public_event",
    # What documents need.
    "fiscal_issuer", "fiscal_logo", "invoice_folio",
)  # fmt: skip
"""The tables that are divided by `merchant_id`."""

LOCAL: Final = (
    # The installation itself.
    "schema_migration", "master_key_fingerprint", "service_process", "operator_command", "event_numbers",
    # Queues, and the cursors that move in the transactions that fill and empty them.
    "reaction_cursor", "reaction_progress", "due_time", "payment_name", "merchant_clock", "processor_message",
    "processor_account_read", "reconciliation", "reconciliation_waiting", "webhook_cursor", "webhook_delivery",
    "api_key_use", "api_key_lookup", "audit",
    # Cards and secrets: they are on one server alone, and workers look over all merchants for those that are unused.
    "vault_card", "payment_method_reference", "processor_account_key", "webhook_secret",
    # The records of the simulated processor and stamping provider, which stand for other companies' databases.
    "sandbox_charge", "sandbox_call", "sandbox_mode", "sandbox_authentication", "sandbox_reference", "sandbox_message",
    "sandbox_account", "sandbox_saved_card", "sandbox_stamp", "sandbox_stamping_key", "sandbox_stamping_mode",
)  # fmt: skip
"""The tables that stay whole on the coordinator."""

_PACKAGE: Final = "procrastinate\\_%"
"""The tables of the queue of jobs, which a package names. They stay on the coordinator too."""

# The tables of this schema that neither list has.
_UNLISTED: Final = """
select c.relname from pg_class c
 where c.relnamespace = current_schema()::regnamespace and c.relkind in ('r', 'p') and c.relname not like %s
   and c.relname <> all(%s)
 order by 1
"""

# Unique indexes of these tables without the column that divides them.
_UNIQUE_ELSEWHERE: Final = """
select i.indexrelid::regclass::text from pg_index i join pg_class c on c.oid = i.indrelid
  join pg_attribute a on a.attrelid = c.oid and a.attname = 'merchant_id'
 where c.relnamespace = current_schema()::regnamespace and c.relname = any(%s) and i.indisunique
   and a.attnum <> all(i.indkey::int2[])
 order by 1
"""

# The triggers of these tables. Distributed tables have none.
_TRIGGERS: Final = """
select t.tgname, c.relname from pg_trigger t join pg_class c on c.oid = t.tgrelid
 where c.relnamespace = current_schema()::regnamespace and c.relname = any(%s) and not t.tgisinternal
 order by 2, 1
"""

HAS_CITUS: Final = "select to_regclass('pg_catalog.pg_dist_partition') is not null"

# The tables of this schema that Citus already distributes.
DISTRIBUTED_NOW: Final = """
select c.relname from pg_dist_partition p join pg_class c on c.oid = p.logicalrelid
 where c.relnamespace = current_schema()::regnamespace and p.partmethod = 'h'
"""

_NODES: Final = "select count(*) from pg_dist_node where isactive and shouldhaveshards"

# What is unique among all merchants cannot be checked by a server that has some of them. A key's hash is that of a
# random number of 238 bits, so that no two merchants have the same one.
_API_KEYS: Final = """
alter table api_key drop constraint api_key_pkey;
alter table api_key add primary key (key_hash, merchant_id);
"""


# Its rows have no key: Citus moves them by all of their columns. Only `wal_level = logical` makes them longer in the
# log.
_SEARCH_BLOCKS: Final = "alter table search_block replica identity full"

# By which a writer on one server makes sure that a shard is there until its transaction ends. It takes the lock that
# Citus takes for every change, which only the owner of a shard may.
_HOLD_SHARD: Final = """
create or replace function hold_shard(shard int8) returns void
  language plpgsql security definer set search_path = pg_catalog as $$
begin
  perform lock_shard_metadata(5, array[shard]);
  if not exists (
    select from pg_dist_placement p join pg_dist_local_group g on g.groupid = p.groupid where p.shardid = shard)
  then
    raise exception 'the shard % is on another server now', shard using errcode = 'cannot_connect_now';
  end if;
end
$$
"""


# How many shards of the log each node has, and whether it takes part.
NODES: Final = """
select n.nodename, n.nodeport, n.isactive, count(p.shardid)
  from pg_dist_node n left join pg_dist_placement p
    on p.groupid = n.groupid and p.shardid in (select shardid from pg_dist_shard where logicalrelid = %s::regclass)
 where n.noderole = 'primary' and (n.shouldhaveshards or p.shardid is not null)
 group by 1, 2, 3 order by 1, 2
"""

# How many shards are on their way to another node, or are to be.
MOVES: Final = """
select (select count(*) from get_rebalance_progress() where progress < 2)
     + (select count(*) from pg_dist_background_task where status in ('runnable', 'running', 'blocked'))
"""


# The tables that still have the rows of before they were distributed. These are in the shards, and an erasure does not
# reach the former ones.
_WITH_FORMER: Final = """
select c.relname from pg_class c
 where c.relnamespace = current_schema()::regnamespace and c.relname = any(%s) and pg_relation_size(c.oid) > 0
"""
REMOVE_FORMER: Final = "select truncate_local_data_after_distributing_table(%s)"


class CannotDistribute(CannotRun):
    """The database cannot be distributed. The message has the reason and what to do, in one line."""


class Distribution(Struct, frozen=True):
    """What `distribute` did: the tables that are distributed now, and the triggers that these no longer have."""

    tables: Sequence[str]
    triggers: Sequence[str]


def unlisted_tables(connection: psycopg.Connection) -> list[str]:
    """Returns the tables of the schema that have no place on Citus. There must be none."""
    return _names(connection, _UNLISTED, (_PACKAGE, [*DISTRIBUTED, *LOCAL]))


def is_distributed(connection: psycopg.Connection) -> bool:
    """Returns whether Citus divides the tables of this database."""
    row = connection.execute(HAS_CITUS).fetchone()
    return row == (True,) and HEADS in _names(connection, DISTRIBUTED_NOW)


def distribute(url: str, shards: int, progress: Progress = unreported) -> Distribution:
    """Distributes the tables of a migrated database that are not distributed yet, with their rows, in one transaction.

    Nothing may use the database meanwhile: it locks each table until the end. Raises CannotDistribute, after which
    nothing has changed.
    """
    with psycopg.connect(url, autocommit=True) as connection:
        _require_citus(connection)
        connection.execute(_HOLD_SHARD)
        with connection.transaction():
            connection.execute("select pg_advisory_xact_lock(%s)", [LOCK])
            waiting = _undistributed(connection)
            triggers = _drop_triggers(connection, waiting)
            if "api_key" in waiting:
                connection.execute(_API_KEYS)
            if "search_block" in waiting:
                connection.execute(_SEARCH_BLOCKS)
            _require_divisible(connection, waiting)
            # Citus would use several connections, which could not see each other's new tables.
            connection.execute("set local citus.multi_shard_modify_mode to sequential")
            # The journal commits to one server: a second copy of a shard would lack what it writes.
            connection.execute("set local citus.shard_replication_factor to 1")
            for number, table in enumerate(waiting, 1):
                _distribute(connection, table, shards)
                progress("distributing tables", number, len(waiting))
        for table in _names(connection, _WITH_FORMER, [list(DISTRIBUTED)]):  # also those of a run that ended here
            connection.execute(REMOVE_FORMER, [table])
    return Distribution(waiting, triggers)


def _require_citus(connection: psycopg.Connection) -> None:
    row = connection.execute(HAS_CITUS).fetchone()
    if row is None or not row[0]:
        raise CannotDistribute("the database has no Citus: create extension citus on each node, and add the nodes")
    nodes = connection.execute(_NODES).fetchone()
    if nodes is None or nodes[0] == 0:
        raise CannotDistribute("no node of Citus takes shards: add the workers by citus_add_node")


def _undistributed(connection: psycopg.Connection) -> list[str]:
    """Returns the tables that have to be distributed, in the order of `DISTRIBUTED`."""
    if unlisted := unlisted_tables(connection):
        raise CannotDistribute(f"{', '.join(unlisted)} has no place on Citus: use the program that created it")
    done = set(_names(connection, DISTRIBUTED_NOW))
    return [table for table in DISTRIBUTED if table not in done]


def _drop_triggers(connection: psycopg.Connection, tables: Sequence[str]) -> list[str]:
    found = connection.execute(_TRIGGERS, [tables]).fetchall()
    for trigger, table in found:
        connection.execute(sql.SQL("drop trigger {} on {}").format(sql.Identifier(trigger), sql.Identifier(table)))
    return [f"{trigger} on {table}" for trigger, table in found]


def _require_divisible(connection: psycopg.Connection, tables: Sequence[str]) -> None:
    if indexes := _names(connection, _UNIQUE_ELSEWHERE, [tables]):
        raise CannotDistribute(f"{', '.join(indexes)} is unique among all merchants, which no server can check alone")


def _distribute(connection: psycopg.Connection, table: str, shards: int) -> None:
    if table == HEADS:
        how = "select create_distributed_table(%s, 'merchant_id', colocate_with => 'none', shard_count => %s)"
        connection.execute(how, (table, shards))
    else:
        how = "select create_distributed_table(%s, 'merchant_id', colocate_with => %s)"
        connection.execute(how, (table, HEADS))


def _names(connection: psycopg.Connection, query: str, parameters: Sequence[object] = ()) -> list[str]:
    return [name for (name,) in connection.execute(query, parameters)]
