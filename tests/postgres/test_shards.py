"""The shards of a process: what is kept for one stays as long as the shard does."""

from __future__ import annotations

from ledger.postgres.distribution import HEADS
from ledger.postgres.shards import Shards, shards_in

URL = "host=coordinator dbname=ledger"


def rows(*nodes: int) -> list[tuple[object, ...]]:
    """Returns the rows of shards on these nodes, in the order of their hashes."""
    return [
        (table, shard_id + number, number, node, f"worker{node}", 5432)
        for number, node in enumerate(nodes)
        for table, shard_id in ((HEADS, 100), ("event", 200))
    ]


def test_only_a_shard_that_has_changed_is_another_object() -> None:
    shards = Shards(shards_in(rows(1, 2), URL))
    first, second = shards._all
    shards.replace(shards_in(rows(1, 1), URL))
    assert shards._all[0] is first
    assert shards._all[1] is not second
    assert shards._all[1].node == 1
    assert shards.servers.keys() == {1}
