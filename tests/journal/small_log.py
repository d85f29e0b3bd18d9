"""A journal reduced to its mechanics: one event type's bytes, one small read model, no domain.

The writer under test is the product's own; only the tables beside it are small.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import psycopg
from uuid_utils.compat import uuid7

from ledger.journal.append import Append, Claim, EncodedEvent, StreamWrite
from ledger.journal.commit.shard_writers import ShardWriters
from ledger.journal.commit.writer import Writer
from ledger.journal.inline import InlineTable

SEEN = InlineTable(
    "seen",
    (("merchant_id", "uuid"), ("stream_id", "uuid"), ("version", "int4")),
    "insert into seen select merchant_id, stream_id, version from {rows} "
    "on conflict (merchant_id, stream_id) do update set version = excluded.version",
)
SEEN_DDL = (
    "create table seen (merchant_id uuid, stream_id uuid, version int4 not null, primary key (merchant_id, stream_id))"
)

DISTRIBUTE_SEEN = "select create_distributed_table('seen', 'merchant_id', colocate_with => 'merchant_head')"


def open_writer(url: str, *tables: InlineTable, **bounds: int) -> Writer | ShardWriters:
    """Returns a writer that is not started: the one of distributed logs if the tests run on Citus."""
    return writer_kind()(url, tables or (SEEN,), **bounds)


def writer_kind() -> type[Writer | ShardWriters]:
    """Returns the class of writers: the one for distributed logs if the tests run on Citus."""
    return ShardWriters if os.environ.get("LEDGER_TEST_CITUS") else Writer


def end_sessions(name: str) -> str:
    """Returns the statement that ends the sessions of this name, on every node if the tests run on Citus. Its row is
    how many there were.
    """
    end = (
        "select count(pg_terminate_backend(pid)) from pg_stat_activity"
        f" where application_name = '{name}' and datname = current_database()"
    )
    if not os.environ.get("LEDGER_TEST_CITUS"):
        return end
    return f"select sum(result::int)::int from run_command_on_all_nodes($${end}$$)"


def create_seen(url: str) -> None:
    """Creates the small read model, distributed as the log is if the tests run on Citus."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(SEEN_DDL)
        if os.environ.get("LEDGER_TEST_CITUS"):
            connection.execute(DISTRIBUTE_SEEN)


def open_log(url: str) -> UUID:
    """Creates a merchant with an empty log, and returns its id."""
    merchant = uuid7()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("insert into merchant_head (merchant_id) values (%s)", (merchant,))
    return merchant


def command(
    merchant: UUID,
    *streams: tuple[UUID, int, int],
    claims: Sequence[Claim] = (),
    data: bytes = b"{}",
    topic: bytes = b"test.v1",
) -> Append:
    """Returns a command that writes `count` events to each `(stream, expected, count)`, with a `seen` row for each."""
    writes = [
        StreamWrite(stream.bytes, expected, [EncodedEvent(topic, data, 0)] * count)
        for stream, expected, count in streams
    ]
    rows = [(merchant.bytes, stream.bytes, expected + count) for stream, expected, count in streams if count]
    return Append(merchant.bytes, uuid7().bytes, b"{}", writes, claims, {"seen": rows})


def fetch(url: str, query: str, *parameters: Any) -> list[tuple[Any, ...]]:
    """Returns the rows of a query."""
    with psycopg.connect(url, autocommit=True) as connection:
        return connection.execute(query, parameters).fetchall()  # type: ignore[arg-type]


def assert_log_is_whole(url: str) -> None:
    """Asserts that positions and versions are gap-free, heads are the last positions, and views match the log."""
    assert (
        fetch(
            url,
            """
        select merchant_id from event group by 1
        having min(position) <> 1 or max(position) <> count(*)""",
        )
        == []
    )
    assert (
        fetch(
            url,
            """
        select h.merchant_id from merchant_head h left join (select merchant_id, count(*) n from event group by 1) e
         using (merchant_id) where h.position <> coalesce(e.n, 0)""",
        )
        == []
    )
    assert (
        fetch(
            url,
            """
        select stream_id from event group by merchant_id, stream_id
        having min(version) <> 1 or max(version) <> count(*)""",
        )
        == []
    )
    assert (
        fetch(
            url,
            """
        select coalesce(s.stream_id, e.stream_id)
          from seen s full join (select merchant_id, stream_id, max(version) v from event group by 1, 2) e
               on e.merchant_id = s.merchant_id and e.stream_id = s.stream_id
         where s.version is distinct from e.v""",
        )
        == []
    )
