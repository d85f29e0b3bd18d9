"""Where the tables are on Citus, checked against the catalogue of an ordinary Postgres."""

from __future__ import annotations

import re
from collections.abc import Iterator

import psycopg
import pytest

from ledger.journal.encryption import data_keys
from ledger.postgres.distribution import DISTRIBUTED, LOCAL, CannotDistribute, distribute, unlisted_tables
from projections.inline import TABLES

Connection = psycopg.Connection[tuple[object, ...]]

_TABLES = """
select relname from pg_class
 where relnamespace = current_schema()::regnamespace and relkind in ('r', 'p') and relname not like 'procrastinate%%'
"""
_NOT_DIVISIBLE = """
select t.name from unnest(%s::text[]) as t(name) where not exists (
  select from pg_attribute a where a.attrelid = t.name::regclass and a.attname = 'merchant_id'
     and a.atttypid = 'uuid'::regtype and a.attnotnull)
"""
_UNIQUE = """
select i.indexrelid::regclass::text from pg_index i
  join pg_attribute a on a.attrelid = i.indrelid and a.attname = 'merchant_id'
 where i.indrelid = any(%s::regclass[]) and i.indisunique and a.attnum <> all(i.indkey::int2[])
"""


@pytest.fixture
def connection(database_url: str) -> Iterator[Connection]:
    with psycopg.connect(database_url, autocommit=True) as connection:
        yield connection


def names(connection: Connection, query: str, *parameters: object) -> set[object]:
    return {name for (name,) in connection.execute(query, parameters)}  # type: ignore[arg-type]


def test_every_table_of_the_schema_has_one_place(connection: Connection) -> None:
    assert len({*DISTRIBUTED, *LOCAL}) == len(DISTRIBUTED) + len(LOCAL)
    assert names(connection, _TABLES) == {*DISTRIBUTED, *LOCAL}
    assert unlisted_tables(connection) == []


def test_a_table_without_a_place_is_found(connection: Connection) -> None:
    connection.execute("create table stray (merchant_id uuid primary key)")
    assert unlisted_tables(connection) == ["stray"]
    connection.execute("drop table stray")


def test_a_distributed_table_can_be_divided_by_merchant(connection: Connection) -> None:
    assert names(connection, _NOT_DIVISIBLE, list(DISTRIBUTED)) == set()


def test_only_the_hash_of_an_api_key_is_unique_among_all_merchants(connection: Connection) -> None:
    assert names(connection, _UNIQUE, list(DISTRIBUTED)) == {"api_key_pkey"}


def test_a_commit_writes_to_distributed_tables_only() -> None:
    statements = [table.write for table in (*TABLES, data_keys.TABLE)]
    written = {
        table for write in statements for table in re.findall(r"\b(?:insert into|update|delete from) (\w+)", write)
    }
    written.discard("set")  # of `do update set`
    assert written
    assert written <= {*DISTRIBUTED}


def test_a_database_without_citus_is_not_distributed(database_url: str, connection: Connection) -> None:
    with pytest.raises(CannotDistribute, match="create extension citus on each node"):
        distribute(database_url, 32)
    assert names(connection, _UNIQUE, ["api_key"]) == {"api_key_pkey"}
