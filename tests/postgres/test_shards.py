"""Where the shards of a database are that Citus divides."""

from __future__ import annotations

from psycopg.conninfo import conninfo_to_dict

from ledger.postgres.distribution import HEADS
from ledger.postgres.shards import shards_in


def test_a_node_is_connected_to_where_it_is_however_the_coordinator_is_named() -> None:
    url = "host=coordinator hostaddr=127.0.0.1 port=6432 dbname=ledger user=ledger_app target_session_attrs=read-write"
    rows = [(HEADS, 102_008, -(1 << 31), 1, "worker1", 5432), (HEADS, 102_009, 0, 2, "worker2", 5433)]
    first, second = shards_in(rows, url)
    database = {"dbname": "ledger", "user": "ledger_app", "target_session_attrs": "read-write"}
    assert conninfo_to_dict(first.url) == database | {"host": "worker1", "port": "5432"}
    assert conninfo_to_dict(second.url) == database | {"host": "worker2", "port": "5433"}
