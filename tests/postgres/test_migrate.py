"""Migrations: applied in order and once, also by several processes at the same time."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from decimal import Decimal
from uuid import UUID, uuid4

import msgspec
import psycopg
import pytest
from msgspec import Raw
from psycopg import sql
from psycopg.conninfo import make_conninfo

from ledger.domain.merchants.settings import MerchantSettings
from ledger.domain.plans.state import Plan
from ledger.domain.plans.terms import Interval, PlanTerms
from ledger.postgres.migrate import LOCK, Migration, MigrationFailed, migrate, migrations
from projections.subscriptions.plans import render_plan

FIRST = Migration(number=1, name="first", sql="create table first (n int); select pg_sleep(0.1);")
SECOND = Migration(number=2, name="second", sql="insert into first values (2);")


@pytest.fixture
def empty_url(postgres_url):
    name = f"empty_{uuid4().hex}"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
        yield make_conninfo(postgres_url, dbname=name)
        connection.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


def rows(url, query):
    with psycopg.connect(url) as connection:
        return connection.execute(query).fetchall()


def test_the_files_of_the_program_are_numbered_from_one_without_a_gap():
    assert [file.number for file in migrations()] == list(range(1, len(migrations()) + 1))


def test_every_file_is_applied_once_in_order(empty_url):
    reported = []
    assert migrate(empty_url, [FIRST, SECOND], lambda *step: reported.append(step)) == [FIRST, SECOND]
    assert reported == [("applying migrations", number, 2) for number in (1, 2)]
    assert migrate(empty_url, [FIRST, SECOND]) == []
    assert rows(empty_url, "select n from first") == [(2,)]
    assert rows(empty_url, "select number, name from schema_migration order by number") == [(1, "first"), (2, "second")]


def test_the_schema_of_the_program_is_current_after_one_run(empty_url):
    assert migrate(empty_url) == migrations()
    assert migrate(empty_url) == []


def test_a_current_schema_is_recognised_without_a_lock(empty_url):
    migrate(empty_url, [FIRST, SECOND])
    with psycopg.connect(empty_url) as connection:
        connection.execute("select pg_advisory_xact_lock(%s)", [LOCK])  # until the block ends
        impatient = make_conninfo(empty_url, options="-c lock_timeout=1s")
        assert migrate(impatient, [FIRST, SECOND]) == []
        with pytest.raises(psycopg.errors.LockNotAvailable):
            migrate(impatient, [FIRST, SECOND, Migration(number=3, name="third", sql="select 1")])


def test_a_merchant_of_an_earlier_release_gets_the_default_of_a_new_setting(empty_url):
    files = migrations()
    at = next(number for number, file in enumerate(files) if file.name == "pue_refund")
    migrate(empty_url, files[:at])
    stored, later, _ = msgspec.json.encode(MerchantSettings(reminder_days=(7,))).partition(b',"pueRefund"')
    assert later, "settings since then are the last ones"
    stored += b"}"
    with psycopg.connect(empty_url) as connection:
        connection.execute(
            "insert into merchant (merchant_id, version, name, settings, created_at, updated_at)"
            " values (gen_random_uuid(), 1, 'Café', %s, now(), now())",
            [stored],
        )
    migrate(empty_url, files)
    assert rows(empty_url, "select settings from merchant") == [
        (msgspec.json.encode(MerchantSettings(reminder_days=(7,))),)
    ]


def test_a_plan_of_an_earlier_release_gets_the_members_that_it_lacks(empty_url):
    files = migrations()
    at = next(number for number, file in enumerate(files) if file.name == "fiscal_data_of_customers")
    migrate(empty_url, files[:at])
    text = 'Un "status":"ACTIVE" en el nombre'
    plan = Plan(
        plan_id=UUID(int=1),
        name=text,
        description=f',"status":"{text}',
        terms=PlanTerms(amount=Decimal(100), currency="MXN", interval=Interval.MONTH),
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
        updated_at=datetime(2026, 1, 1, tzinfo=UTC),
        metadata=Raw(b'{"a":1,"status":"x","metadata":{"status":"y"}}'),
    )
    now = render_plan(plan)
    stored = now.replace(b',"productKey":null,"unitKey":null,"taxes":null', b"")
    assert stored != now
    with psycopg.connect(empty_url) as connection:
        connection.execute(
            "insert into plan (merchant_id, plan_id, version, status, created_at, summary, doc)"
            " values (gen_random_uuid(), %s, 1, 'ACTIVE', now(), '', %s)",
            [plan.plan_id, stored],
        )
    migrate(empty_url, files)
    assert rows(empty_url, "select doc from plan") == [(now,)]


def test_migrations_at_once_apply_every_file_exactly_once(empty_url):
    with ThreadPoolExecutor(8) as pool:
        applied = list(pool.map(lambda _: migrate(empty_url, [FIRST, SECOND]), range(8)))
    assert sorted(file.number for files in applied for file in files) == [1, 2]
    assert rows(empty_url, "select n from first") == [(2,)]


def test_a_file_that_was_edited_after_it_was_applied_stops_everything(empty_url):
    migrate(empty_url, [FIRST])
    edited = Migration(number=1, name="first", sql="create table other (n int)")
    with pytest.raises(MigrationFailed, match="0001 first was edited"):
        migrate(empty_url, [edited, SECOND])
    assert rows(empty_url, "select count(*) from first") == [(0,)]


def test_a_file_that_fails_leaves_nothing_behind_and_earlier_files_stay_applied(empty_url):
    broken = Migration(number=2, name="broken", sql="create table half (n int); select 1 / 0;")
    with pytest.raises(MigrationFailed, match="0002 broken: division by zero"):
        migrate(empty_url, [FIRST, broken])
    assert rows(empty_url, "select to_regclass('half'), to_regclass('first') is null") == [(None, False)]
    assert migrate(empty_url, [FIRST, SECOND]) == [SECOND]


def test_an_older_release_leaves_the_files_of_a_newer_one_alone(empty_url):
    migrate(empty_url, [FIRST, SECOND])
    assert migrate(empty_url, [FIRST]) == []
    assert rows(empty_url, "select n from first") == [(2,)]


def test_the_queue_of_jobs_has_its_own_schema_named_after_the_ledgers(empty_url):
    migrate(empty_url)
    assert rows(empty_url, "select nspname::text from pg_namespace where nspname like '%_jobs'") == [("public_jobs",)]
    assert rows(empty_url, "select to_regclass('public.procrastinate_jobs')") == [(None,)]


def test_the_queue_is_in_the_ledgers_schema_if_the_owner_may_not_create_schemas(postgres_url, empty_url):
    role = f"owner_{uuid4().hex}"
    with psycopg.connect(empty_url, autocommit=True) as connection:
        connection.execute(sql.SQL("create role {} login password 'x'").format(sql.Identifier(role)))
        connection.execute(sql.SQL("create schema shop authorization {}").format(sql.Identifier(role)))
        connection.execute(sql.SQL("alter role {} set search_path = shop").format(sql.Identifier(role)))
    migrate(make_conninfo(empty_url, user=role, password="x"))
    found = rows(empty_url, "select to_regclass('shop.procrastinate_jobs') is null, to_regnamespace('shop_jobs')")
    assert found == [(False, None)]
    with psycopg.connect(empty_url, autocommit=True) as connection:
        connection.execute("drop schema shop cascade")
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(sql.SQL("drop role {}").format(sql.Identifier(role)))


def test_a_process_of_the_release_before_moves_clocks_beside_this_one(empty_url):
    """Its statements know no holder of a lease: they leave it null, and the leases of this release alone."""
    migrate(empty_url)
    old_lease = """insert into merchant_clock as c (merchant_id, ahead_us, moving_until) values (%s, 0, now() + interval '30 seconds')
        on conflict (merchant_id) do update set moving_until = excluded.moving_until
        where coalesce(c.moving_until, '-infinity') <= now() returning xmax = 0"""
    with psycopg.connect(empty_url, autocommit=True) as connection:
        merchant = uuid4()
        assert connection.execute(old_lease, (merchant,)).fetchone() == (True,)
        connection.execute(
            "update merchant_clock set ahead_us = 5, moving_until = null where merchant_id = %s", (merchant,)
        )
        connection.execute(
            "update merchant_clock set moving_until = now() + interval '30 seconds', holder = %s", (uuid4(),)
        )
        assert connection.execute(old_lease, (merchant,)).fetchone() is None
