"""What an operator reads of the standbys of a real server, beside whether its commits wait."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from benchmarks.scratch import running_standby
from tests.streaming import running_primary, wait_until

from ledger.postgres.prepare import standbys_of

_COMMIT = "select pg_logical_emit_message(true, 'test', '')"
_WAITS = "select count(*) from pg_stat_activity where wait_event = 'SyncRep'"


@pytest.fixture(scope="module")
def primary(short_dir: Path) -> Iterator[psycopg.Connection]:
    """A connection to a server with one standby, whose own commits wait for none."""
    with (
        running_primary(short_dir / "one-primary") as server,
        running_standby(short_dir / "one-standby", server),
        psycopg.connect(server.url, autocommit=True) as connection,
    ):
        connection.execute("set synchronous_commit = local")
        yield connection


@pytest.mark.parametrize(
    ("names", "has_enough"),
    [
        ("{0}", True),
        ("*", True),
        ("ANY 1 ({0}, other)", True),
        ("FIRST 1 (other, {0})", True),
        ("ANY 2 ({0}, other)", False),
        ("first 2({0}, other)", False),
        ("2 (*)", False),
        ("other", False),
    ],
)
def test_a_standby_is_missing_where_every_commit_waits(
    primary: psycopg.Connection, names: str, has_enough: bool
) -> None:
    row = primary.execute("select application_name from pg_stat_replication").fetchone()
    assert row is not None
    setting = names.format(f'"{row[0]}"')
    url = primary.info.dsn
    try:
        primary.execute(f"alter system set synchronous_standby_names = '{setting}'")
        primary.execute("select pg_reload_conf()")
        wait_until(primary, "show synchronous_standby_names", setting)
        with psycopg.connect(url, autocommit=True) as other:
            commit = threading.Thread(target=other.execute, args=[_COMMIT])
            commit.start()
            if has_enough:
                commit.join(30)
                assert not commit.is_alive()
            else:
                wait_until(primary, _WAITS, 1)
            assert standbys_of(url).is_missing is not has_enough
            assert ("every commit waits" in standbys_of(url).text) is not has_enough
            primary.execute("alter system reset synchronous_standby_names")
            primary.execute("select pg_reload_conf()")
            commit.join(30)
    finally:
        primary.execute("alter system reset synchronous_standby_names")
        primary.execute("select pg_reload_conf()")
