"""A database that is lent again equals a new one; one that cannot be restored is never lent again."""

from __future__ import annotations

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from tests.databases import Databases

MERCHANT = "insert into merchant_head (merchant_id) values (gen_random_uuid())"
NUMBER = "select nextval('public_jobs.procrastinate_jobs_id_seq')"
CONTENT = "select (select count(*) from merchant_head), (select count(*) from reaction_progress)"


def name_of(url: str) -> object:
    return conninfo_to_dict(url)["dbname"]


def test_added_rows_are_removed_and_original_rows_are_restored(databases: Databases) -> None:
    with databases.lent() as url, psycopg.connect(url, autocommit=True) as connection:
        fresh = connection.execute(CONTENT).fetchone()
        connection.execute(MERCHANT)
        first = connection.execute(NUMBER).fetchone()
        connection.execute("delete from reaction_progress")
    for _ in range(2):
        with databases.lent() as again:
            assert name_of(again) == name_of(url)
    with databases.lent() as again, psycopg.connect(again, autocommit=True) as other:
        assert other.execute(CONTENT).fetchone() == fresh
        assert other.execute(NUMBER).fetchone() == first
        with pytest.raises(psycopg.OperationalError):
            connection.execute("select 1")


@pytest.mark.parametrize(
    "change",
    [
        "alter table merchant_head add more int",
        "create index on merchant_head (merchant_id)",
        "grant select on merchant_head to public",
        "create policy everything on merchant_head",
        "create function more() returns int4 language sql immutable as 'select 1'",
        "drop table processor_message cascade",
        "truncate merchant_head cascade",
        "insert into merchant_head (merchant_id) select gen_random_uuid() from generate_series(1, 60000)",
        "do $$ begin execute format('alter database %I set work_mem = ''8MB''', current_database()); end $$",
        "do $$ begin execute format('alter database %I connection limit 9', current_database()); end $$",
    ],
)
def test_a_database_with_changed_catalogs_or_many_rows_is_not_lent_again(databases: Databases, change: str) -> None:
    with databases.lent() as url, psycopg.connect(url, autocommit=True) as connection:
        connection.execute(change)  # type: ignore[arg-type]
    with databases.lent() as other:
        assert name_of(other) != name_of(url)


def test_a_database_that_refuses_connections_is_not_lent_again(databases: Databases, postgres_url: str) -> None:
    with databases.lent() as url, psycopg.connect(postgres_url, autocommit=True) as owner:
        owner.execute(f"alter database {name_of(url)} allow_connections false")  # type: ignore[arg-type]
    with databases.lent() as other:
        assert name_of(other) != name_of(url)
