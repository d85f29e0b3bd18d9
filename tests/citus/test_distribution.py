"""A database that is divided among the nodes of Citus, with what it held before."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from campaigns.citus.cluster import CitusCluster
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from tests.journal.small_log import fetch, open_log
from tests.sealing import MASTER_KEY

from ledger.postgres.distribution import DISTRIBUTED, LOCAL, distribute
from ledger.postgres.migrate import migrate
from ledger.postgres.prepare import prepare
from ledger.settings import CannotRun, Settings

pytestmark = pytest.mark.long


@pytest.fixture
def migrated_url(cluster: CitusCluster) -> Iterator[str]:
    """A database of the cluster with the current schema, which is not distributed."""
    name = f"whole_{uuid4().hex}"
    url = cluster.create_database(name)
    migrate(url)
    yield url
    cluster.drop_database(name)


def places(url: str) -> dict[str, tuple[Any, ...]]:
    """Returns how each table is divided: its method and the group of tables that it is colocated with."""
    query = """
    select c.relname, p.partmethod, p.colocationid from pg_dist_partition p join pg_class c on c.oid = p.logicalrelid"""
    return {table: (method, group) for table, method, group in fetch(url, query)}


def test_the_tables_of_merchants_are_divided_together_and_the_others_stay(distributed_url: str) -> None:
    found = places(distributed_url)
    assert {*found} == {*DISTRIBUTED}
    assert len({*found.values()}) == 1
    assert found.keys().isdisjoint(LOCAL)


def test_what_a_database_holds_is_kept_and_a_second_time_changes_nothing(migrated_url: str) -> None:
    merchants = sorted(open_log(migrated_url) for _ in range(20))
    first = distribute(migrated_url, 4)
    assert list(first.tables) == list(DISTRIBUTED)
    assert "count_erased on customer" in first.triggers
    assert fetch(migrated_url, "select merchant_id from merchant_head order by 1") == [(one,) for one in merchants]
    assert distribute(migrated_url, 4).tables == []


def test_a_table_that_a_newer_release_has_added_joins_the_others(migrated_url: str) -> None:
    distribute(migrated_url, 4)
    fetch_nothing(migrated_url, "select undistribute_table('tally')")
    assert list(distribute(migrated_url, 4).tables) == ["tally"]
    assert len({*places(migrated_url).values()}) == 1


def test_a_run_that_ended_before_the_former_rows_were_removed_is_completed(
    migrated_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(20):
        open_log(migrated_url)
    with monkeypatch.context() as ended:
        ended.setattr("ledger.postgres.distribution.REMOVE_FORMER", "select 1 / 0, %s")
        with pytest.raises(psycopg.errors.DivisionByZero):
            distribute(migrated_url, 4)
    size = "select pg_relation_size('merchant_head')"
    assert fetch(migrated_url, size) != [(0,)]
    assert distribute(migrated_url, 4).tables == []
    assert fetch(migrated_url, size) == [(0,)]
    assert fetch(migrated_url, "select count(*) from merchant_head") == [(20,)]


def test_each_shard_is_on_one_node_whatever_the_server_would_do(migrated_url: str) -> None:
    name = conninfo_to_dict(migrated_url)["dbname"]
    fetch_nothing(migrated_url, f"alter database {name} set citus.shard_replication_factor to 2")
    distribute(migrated_url, 4)
    placements = "select count(*), count(distinct shardid) from pg_dist_placement where groupid > 0"
    shards = 4 * len(DISTRIBUTED)
    assert fetch(migrated_url, placements) == [(shards, shards)]


def fetch_nothing(url: str, statement: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement)  # type: ignore[arg-type]


def test_production_refuses_a_distributed_database(distributed_url: str) -> None:
    settings = Settings(database_url=distributed_url, environment="production", master_key=MASTER_KEY)
    with pytest.raises(CannotRun, match="production does not run on Citus yet"):
        prepare(settings, distributed_url)


@pytest.mark.anyio
@pytest.mark.parametrize("node", range(3))
async def test_the_vaults_role_reads_card_numbers_on_the_coordinator_and_nothing_on_any_node(
    cluster: CitusCluster, settings: Settings, distributed_url: str, node: int
) -> None:
    owner = conninfo_to_dict(distributed_url)
    role = conninfo_to_dict(str(settings.database_vault_url))
    url = make_conninfo(cluster.url(str(owner["dbname"]), node), user=role["user"], password=role["password"])
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("set citus.override_table_visibility to off")  # else a node hides its shards
        tables = connection.execute(
            "select relname from pg_class where relnamespace = 'public'::regnamespace and relkind in ('r', 'p')"
        )
        readable = set()
        names = {name for (name,) in tables}
        for name in names:
            try:
                connection.execute(f"select * from {name}")
            except psycopg.errors.InsufficientPrivilege:
                continue
            readable.add(name)
    assert readable == (set() if node else {"vault_card"})
    assert names >= {"event", "payment_order"}
    assert any(name.startswith("event_1") for name in names) == bool(node)
