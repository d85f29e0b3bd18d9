"""Preparing a database: the application cannot rewrite the log, and production requires durable commits."""

import asyncio
import re
from contextlib import nullcontext
from uuid import uuid4

import psycopg
import pytest
from msgspec import structs
from tests.standbys import without_standby

from ledger.postgres.embedded import cluster, server
from ledger.postgres.embedded.data_dir import make_data_dir
from ledger.postgres.migrate import migrations
from ledger.postgres.prepare import (
    NoPrimary,
    prepare,
    ready_database,
    replica_url,
    require_archived_events,
    require_durability,
)
from ledger.postgres.replication import Standbys
from ledger.security.secrets import Purpose, load_secrets
from ledger.settings import CannotRun, Settings, SettingWrong


@pytest.fixture(scope="module")
def forgetful_url(short_dir):
    """A real server that runs with fsync and full_page_writes off."""
    off = {"fsync": "off", "full_page_writes": "off"}
    running = server.start(cluster.open_cluster(make_data_dir(short_dir / "forgetful")), settings=off)
    yield running.url
    running.stop()


@pytest.fixture
def settings(tmp_path):
    return Settings(data_dir=tmp_path, master_key="00" * 32)


def test_the_application_may_only_insert_and_read_events(settings, database_url):
    ready = prepare(settings, database_url)
    event = [uuid4(), uuid4(), 1, 1, uuid4(), "2026-01-01", "t", b"{}", b"{}"]
    with psycopg.connect(ready.database_url, autocommit=True) as connection:
        connection.execute("insert into event values (%s, %s, %s, %s, %s, %s, %s, %s, %s)", event)
        assert connection.execute("select count(*) from event").fetchone() == (1,)
        for change in (
            "update event set data = '{}'",
            "delete from event",
            "truncate event",
            "delete from claim",
            "update schema_migration set name = 'x'",
            "drop table event",
            "create table mine (n int)",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(change)


def test_a_role_that_does_not_own_the_database_is_refused_in_one_line(settings, database_url):
    prepare(settings, database_url)
    name = f"other_{uuid4().hex[:8]}"
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(f"create role {name} login")
        with pytest.raises(
            CannotRun, match=r"permission denied .*; LEDGER_DATABASE_URL has to name the role that owns"
        ):
            prepare(settings, psycopg.conninfo.make_conninfo(database_url, user=name))
        connection.execute(f"drop role {name}")


def test_preparing_twice_changes_nothing(settings, database_url):
    assert prepare(settings, database_url) == prepare(settings, database_url)


@pytest.mark.anyio
async def test_a_start_at_a_primary_without_its_standby_waits_for_none(settings, database_url):
    """Else no process can be restarted meanwhile, to answer reads, and no command that only reads ends."""
    prepared = prepare(settings, database_url)
    async with without_standby(database_url):
        assert await asyncio.wait_for(asyncio.to_thread(prepare, settings, database_url), 20) == prepared


def test_an_owner_who_may_not_create_roles_is_used_with_a_warning(settings, database_url, capfd):
    with psycopg.connect(database_url, autocommit=True) as connection:
        name = f"modest_{uuid4().hex[:8]}"
        connection.execute(f"create role {name} login")
        connection.execute(f"create schema {name} authorization {name}")
    try:
        modest = psycopg.conninfo.make_conninfo(database_url, user=name)
        assert prepare(settings, modest).database_url == modest
        assert "set LEDGER_DATABASE_APP_URL" in capfd.readouterr().err
    finally:
        with psycopg.connect(database_url, autocommit=True) as connection:
            connection.execute(f"drop owned by {name} cascade")
            connection.execute(f"drop role {name}")


def test_production_does_not_run_as_the_owner_because_its_own_role_cannot_log_in(settings, database_url, capfd):
    own = prepare(settings, database_url).database_url
    role = psycopg.conninfo.conninfo_to_dict(own)["user"]
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(f"alter role {role} connection limit 0")
    assert prepare(settings, database_url).database_url == database_url, "the sandbox warns"
    assert f"the role {role} cannot log in, so the application runs as the owner" in capfd.readouterr().err
    production = structs.replace(settings, environment="production")
    with pytest.raises(NoPrimary, match=f"^the role {role} cannot log in, and production does not run"):
        prepare(production, database_url)


def test_production_refuses_a_database_that_may_lose_commits(forgetful_url, tmp_path):
    production = Settings(environment="production", data_dir=tmp_path, master_key="00" * 32)
    with pytest.raises(CannotRun, match=r"fsync and full_page_writes are off on this database: .*; production refuses"):
        prepare(production, forgetful_url)


def test_every_setting_that_a_durable_commit_needs_is_checked(forgetful_url):
    with psycopg.connect(forgetful_url, autocommit=True) as connection:
        connection.execute("create role hasty login")
        connection.execute("alter role hasty set synchronous_commit = off")  # the application's own role counts
    url = psycopg.conninfo.make_conninfo(forgetful_url, user="hasty")
    with pytest.raises(CannotRun, match=r"^fsync and full_page_writes and synchronous_commit are off"):
        require_durability(url, "production")


def test_a_commit_must_wait_for_the_disk_of_the_standby(database_url, capfd):
    for level, is_sure in (("local", False), ("remote_write", False), ("on", True), ("remote_apply", True)):
        url = psycopg.conninfo.make_conninfo(database_url, options=f"-c synchronous_commit={level}")
        with nullcontext() if is_sure else pytest.raises(CannotRun, match=f"synchronous_commit is {level} .*on or rem"):
            require_durability(url, "production")
    require_durability(psycopg.conninfo.make_conninfo(database_url, options="-c synchronous_commit=local"), "sandbox")
    assert "warning: synchronous_commit is local" in capfd.readouterr().err


def test_production_names_the_store_of_its_archived_events(settings, database_url):
    production = structs.replace(settings, environment="production")
    require_archived_events(database_url, production)
    with psycopg.connect(database_url, autocommit=True) as connection:
        file = [uuid4(), b"0" * 16, b"0" * 32, 1, 1]
        connection.execute("insert into archived_file values (%s, %s, %s, %s, %s)", file)
    with pytest.raises(CannotRun, match=r"in 1 files of an object store: name that store in LEDGER_FILES_URL"):
        require_archived_events(database_url, production)
    require_archived_events(database_url, structs.replace(production, files_url="s3://bucket/tax"))
    require_archived_events(database_url, settings)


def test_a_role_that_cannot_confirm_commits_is_refused_with_what_to_grant(database_url):
    name = f"mute_{uuid4().hex[:8]}"
    function = "pg_logical_emit_message(boolean,text,text"
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(f"create role {name} login")
        try:
            own = psycopg.conninfo.make_conninfo(database_url, user=name)
            require_durability(own, "production")
            ((signature,),) = connection.execute(
                "select oid::regprocedure::text from pg_proc where oid::regprocedure::text like %s", [f"{function}%"]
            ).fetchall()
            connection.execute(f"revoke execute on function {signature} from public")
            with pytest.raises(CannotRun, match=r"may not execute pg_logical_emit_message\(boolean,text,text"):
                require_durability(own, "sandbox")
        finally:
            connection.execute(f"drop role {name}")


def test_a_database_that_was_made_read_only_is_refused_in_one_line(settings, database_url):
    url = psycopg.conninfo.make_conninfo(database_url, options="-c default_transaction_read_only=on")
    with pytest.raises(CannotRun, match=r"^the database is read-only: set default_transaction_read_only to off"):
        prepare(settings, url)


@pytest.mark.parametrize(
    ("names", "rows", "is_missing", "text"),
    [
        ("", [], False, "none is synchronous"),
        ("", [(1, "b", "async")], False, "not synchronous: b"),
        ("first", [], True, "'first' is connected, so every commit waits"),
        ("first", [(1, "b", "async")], True, "every commit waits: bring one back; not synchronous: b"),
        ("*", [(1, "b", "quorum"), (2, "a", "sync"), (3, "c", "potential")], False, "synchronous: a, b; not sync.*: c"),
        ("FIRST 2 (a, b, c)", [(1, "b", "sync"), (2, "a", "sync"), (3, "c", "potential")], False, "synchronous: a, b;"),
        ("ANY 2 (*)", [(1, "a", "quorum"), (2, "a", "quorum")], False, "synchronous: a$"),
        (
            "2 (a, b)",
            [(1, "a", "sync")],
            True,
            r"1 of the 2 standbys .* needs are connected \(a\), so every commit waits",
        ),
        ("first", [(1, None, None)], False, "1 connected; grant pg_monitor"),
    ],
)
def test_an_operator_reads_which_standbys_are_synchronous(names, rows, is_missing, text):
    found = Standbys.of([(names, *row) for row in rows] or [(names, None, None, None)])
    assert found.is_missing == is_missing
    assert re.search(text, found.text)


def test_the_sandbox_only_warns(forgetful_url, settings, capfd):
    assert prepare(settings, forgetful_url).database_url
    assert "warning: fsync and full_page_writes are off" in capfd.readouterr().err


def test_production_accepts_a_durable_database(database_url, tmp_path):
    production = Settings(environment="production", data_dir=tmp_path, master_key="00" * 32)
    assert prepare(production, database_url).database_url


def test_a_database_that_does_not_answer_is_reported_in_one_line(settings):
    nowhere = Settings(
        data_dir=settings.data_dir, master_key="00" * 32, database_url="host=127.0.0.1 port=1 user=u password=hush"
    )
    with (
        pytest.raises(CannotRun, match=r"^the database does not answer: .*refused") as refusal,
        ready_database(nowhere),
    ):
        pass
    assert "\n" not in str(refusal.value)
    assert "hush" not in str(refusal.value)


def test_the_vaults_role_may_read_card_numbers_and_nothing_else(settings, database_url):
    ready = prepare(settings, database_url)
    password = load_secrets(settings).key(Purpose.DATABASE_VAULT_ROLE).hex()
    assert psycopg.conninfo.conninfo_to_dict(ready.database_vault_url)["password"] == password
    with psycopg.connect(ready.database_vault_url, autocommit=True) as connection:
        tables = {name for (name,) in connection.execute("select tablename from pg_tables where schemaname = 'public'")}
        assert connection.execute("select count(*) from vault_card").fetchone() == (0,)
        assert "data_key" in tables
        for table in tables - {"vault_card"}:
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(f"select * from {table}")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("create table cards (n int)")


def test_the_application_can_empty_a_data_key_but_not_delete_it(settings, database_url):
    ready = prepare(settings, database_url)
    with psycopg.connect(ready.database_url, autocommit=True) as connection:
        connection.execute("update data_key set wrapped = null, sealing_key_id = null, destroyed_at = now()")
        for change in ("delete from data_key", "truncate data_key"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(change)


def test_the_application_adds_to_trees_and_takes_nothing_from_them(settings, database_url):
    ready = prepare(settings, database_url)
    with psycopg.connect(ready.database_url, autocommit=True) as connection:
        connection.execute("update log_tree set size = 1")
        for change in (
            "update log_tile set root = hashes",
            "delete from log_tile",
            "update api_key_lookup set merchant_id = gen_random_uuid()",
            "update operator_command set operator = 'another'",
            "delete from operator_command",
            "delete from log_tree",
            "truncate log_tree",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(change)


def test_the_application_cannot_touch_card_numbers(settings, database_url):
    ready = prepare(settings, database_url)
    with psycopg.connect(ready.database_url, autocommit=True) as connection:
        for attempt in (
            "select * from vault_card",
            "select count(*) from vault_card",
            "insert into vault_card default values",
            "update vault_card set settled = true",
            "delete from vault_card",
            "truncate vault_card",
            "copy vault_card to stdout",
            "grant select on vault_card to current_user",
            "alter table vault_card add column x int",
            "create view cards as select * from vault_card",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(attempt)


def test_an_owner_without_superuser_cannot_read_card_numbers_and_names_both_roles_by_settings(
    settings, database_url, capfd
):
    with psycopg.connect(database_url, autocommit=True) as connection:
        names = [f"{name}_{uuid4().hex[:8]}" for name in ("modest", "app", "vault")]
        modest, application, _ = names
        for name in names:
            connection.execute(f"create role {name} login")
        connection.execute(f"create schema {modest} authorization {modest}")
        for name in names[1:]:
            connection.execute(f"grant usage on schema {modest} to {name}")
            connection.execute(f"alter role {name} set search_path = {modest}")
    urls = [psycopg.conninfo.make_conninfo(database_url, user=name) for name in names]
    try:
        prepare(settings, urls[0])
        assert "so no card can be saved: set LEDGER_DATABASE_VAULT_URL" in capfd.readouterr().err
        with psycopg.connect(urls[0], autocommit=True) as connection:
            connection.execute(f"grant select on all tables in schema {modest} to {application}")  # as a page advises
        named = structs.replace(settings, database_app_url=urls[1], database_vault_url=urls[2])
        ready = prepare(named, urls[0])
        assert (ready.database_url, ready.database_vault_url) == (urls[1], urls[2])
        assert capfd.readouterr().err == ""
        for url, may_read in zip(urls, (False, False, True), strict=True):
            with psycopg.connect(url, autocommit=True) as connection:
                query = (
                    "select has_table_privilege('vault_card', 'select'), has_table_privilege('vault_card', 'delete')"
                )
                assert connection.execute(query).fetchone() == (may_read, may_read), url
    finally:
        with psycopg.connect(database_url, autocommit=True) as connection:
            for name in names:
                connection.execute(f"drop owned by {name} cascade")
                connection.execute(f"drop role {name}")


def test_production_refuses_an_application_that_can_read_card_numbers(database_url, tmp_path):
    production = Settings(
        environment="production", data_dir=tmp_path, master_key="00" * 32, database_url=database_url,
        database_app_url=database_url,
    )  # fmt: skip
    with pytest.raises(CannotRun, match="the application's role can read vault_card"):
        prepare(production, database_url)


def other(settings, **given):
    return structs.replace(settings, **{"master_key": None, **given})


def fingerprint_of(settings):
    return load_secrets(settings).fingerprint


def test_a_wrong_master_key_stops_the_start_before_anything_is_written_under_it(settings, database_url):
    ready = prepare(settings, database_url)
    wrong = other(settings, master_key="01" * 32)
    with pytest.raises(CannotRun) as refusal:
        prepare(wrong, database_url)
    assert str(refusal.value) == (
        f"LEDGER_MASTER_KEY is the wrong master key: its fingerprint is {fingerprint_of(wrong)}. The database belongs "
        f"to the master key with the fingerprint {fingerprint_of(settings)}: set LEDGER_MASTER_KEY or "
        f"LEDGER_MASTER_KEY_FILE to that key, or put it into {settings.data_dir / 'master.key'}"
    )
    psycopg.connect(ready.database_url).close()  # the role's password is still derived from the first key
    assert prepare(settings, database_url) == ready


def test_a_wrong_master_key_migrates_nothing(settings, database_url):
    prepare(settings, database_url)
    newest = migrations()[-1]
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("delete from schema_migration where number = %s", [newest.number])
        tables = connection.execute("select count(*) from pg_class").fetchone()
        with pytest.raises(CannotRun, match="is the wrong master key"):
            prepare(other(settings, master_key="01" * 32), database_url)
        lost = other(settings, master_key=None)
        with pytest.raises(CannotRun, match="is missing"):
            prepare(lost, database_url)
        recorded = connection.execute("select max(number) from schema_migration").fetchone()
        assert (recorded, connection.execute("select count(*) from pg_class").fetchone()) == (
            (newest.number - 1,),
            tables,
        )


def test_a_sandbox_that_has_lost_its_master_key_gets_no_new_one(settings, database_url):
    own = other(settings, data_dir=settings.data_dir / "own")
    prepare(own, database_url)
    key = own.data_dir / "master.key"
    kept = key.read_text()
    key.unlink()
    with pytest.raises(CannotRun, match=r"master\.key, the sandbox's own master key, is missing\. .* put it into"):
        prepare(own, database_url)
    assert not key.exists()
    key.write_text(kept)
    assert prepare(own, database_url).database_url


def test_the_first_start_records_the_fingerprint_and_a_change_of_sealing_keys_leaves_it(settings, database_url):
    prepare(settings, database_url)
    prepare(other(settings, master_key="00" * 32, sealing_keys="0b" * 32 + ",master"), database_url)
    with psycopg.connect(database_url) as connection:
        ((recorded,),) = connection.execute("select fingerprint from master_key_fingerprint").fetchall()
    assert recorded == fingerprint_of(settings)
    assert len(recorded) == 16


def test_a_replica_is_not_read_as_the_owner_where_the_application_has_a_role_of_its_own():
    owner, application, other = [f"postgresql://{user}:x@db/ledger" for user in ("owner", "app", "reader")]
    settings = Settings(database_url=owner, database_app_url=application, read_database_url=owner)
    with pytest.raises(SettingWrong, match=r"LEDGER_READ_DATABASE_URL.*names the owner"):
        replica_url(settings, application, owner)
    for url in (application, other):
        assert replica_url(structs.replace(settings, read_database_url=url), application, owner) == url
    assert replica_url(structs.replace(settings, database_app_url=owner), owner, owner) == owner
