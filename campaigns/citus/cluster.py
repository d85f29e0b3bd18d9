"""A coordinator and two workers with Citus on Unix sockets, and databases that exist on all three.

Citus connects from node to node by the name of the node, which is the directory of its socket here: nothing listens on
the network. Each node trusts every user that can enter its directory.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import Final, Self

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from campaigns.citus.build import build
from ledger.postgres.distribution import distribute
from ledger.postgres.embedded import server
from ledger.postgres.embedded.account import server_account
from ledger.postgres.embedded.cluster import PORT, Cluster, initialise
from ledger.postgres.embedded.ownership import own_directory
from ledger.postgres.embedded.server import EmbeddedServer
from ledger.postgres.migrate import migrate

WORKERS: Final = 2
_TRIES_MAX: Final = 50

_SMALL: Final = {"shared_buffers": "48MB", "wal_init_zero": "off"}
"""The settings of nodes that many tests start."""

_SETTINGS: Final = {
    "shared_preload_libraries": "citus",
    "wal_level": "logical",  # a shard is moved by logical replication
    "max_connections": "300",
    "max_prepared_transactions": "100",
    "citus.node_conn_info": "sslmode=disable",  # a Unix socket has no TLS
    # A database is created on each node by its own statement, so that it can be a copy of another one there.
    "citus.enable_create_database_propagation": "off",
}


@contextmanager
def divided_database(shards: int, settings: Mapping[str, str] = _SMALL) -> Iterator[tuple[CitusCluster, str]]:
    """Yields a cluster of its own, and the coordinator's connection string of a divided database of the ledger on it.

    The servers have these `settings`. Builds Citus if it was not built here. Raises CannotBuild.
    """
    binaries = build()
    home = Path(tempfile.mkdtemp(prefix="ledger-citus-", dir="/tmp"))
    try:
        home.chmod(0o711)
        with CitusCluster(home, binaries, settings) as cluster:
            url = cluster.create_database("ledger")
            migrate(url)
            distribute(url, shards)
            yield cluster, url
    finally:
        shutil.rmtree(home, ignore_errors=True)


class CitusCluster:
    """The nodes, in a `with` block, below `home`. `binaries` are those that `campaigns.citus.build` returns. The servers
    have these `settings` beside the usual ones and those that Citus needs.
    """

    def __init__(self, home: Path, binaries: Path, settings: Mapping[str, str] = _SMALL) -> None:
        self.home, self._binaries, self._settings = home, binaries, settings
        self._account = server_account()
        self.nodes: list[EmbeddedServer] = []
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        try:
            for name in ("coordinator", *(f"worker{n + 1}" for n in range(WORKERS))):
                self.nodes.append(self._start(name))
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def url(self, database: str, node: int = 0) -> str:
        """Returns the superuser's connection string of a database on a node; 0 is the coordinator."""
        return make_conninfo(self.nodes[node].url, dbname=database)

    def create_database(self, name: str) -> str:
        """Creates an empty database with Citus on every node. Returns the coordinator's connection string of it."""
        self._on_each_node(sql.SQL("create database {}").format(sql.Identifier(name)))
        for node in range(len(self.nodes)):
            with psycopg.connect(self.url(name, node), autocommit=True) as connection:
                connection.execute("create extension citus")
        with psycopg.connect(self.url(name), autocommit=True) as connection:
            connection.execute("select citus_set_coordinator_host(%s, %s)", self._address(0))
            for node in range(1, len(self.nodes)):
                connection.execute("select citus_add_node(%s, %s)", self._address(node))
        return self.url(name)

    def copy_database(self, template: str, name: str) -> str:
        """Creates a copy of a database on every node: the metadata of Citus name no database, so that they hold for it.

        Nothing may be connected to the template. Returns the coordinator's connection string of the copy.
        """
        clone = sql.SQL("create database {} template {} strategy wal_log")
        self._on_each_node(clone.format(sql.Identifier(name), sql.Identifier(template)))
        return self.url(name)

    def close_database(self, name: str) -> None:
        """Ends every connection to a database on every node, those of Citus' own daemon too, and allows no new one."""
        self._on_each_node(sql.SQL("alter database {} allow_connections false").format(sql.Identifier(name)))
        for node in range(len(self.nodes)):
            with psycopg.connect(self.url("postgres", node), autocommit=True) as connection:
                connection.execute(
                    "select pg_terminate_backend(pid, 10000) from pg_stat_activity where datname = %s", (name,)
                )

    def drop_database(self, name: str) -> None:
        """Drops a database on every node, as soon as no process of Citus is about to connect to it."""
        drop = sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name))
        for tries in count(1):
            try:
                self._on_each_node(drop)
            except psycopg.errors.ObjectInUse:
                if tries == _TRIES_MAX:
                    raise
                time.sleep(0.1)
            else:
                return

    def _on_each_node(self, statement: sql.Composed) -> None:
        for node in range(len(self.nodes)):
            with psycopg.connect(self.url("postgres", node), autocommit=True) as connection:
                connection.execute(statement)

    def _address(self, node: int) -> tuple[str, int]:
        return str(self.nodes[node].cluster.sockets), PORT

    def _start(self, name: str) -> EmbeddedServer:
        cluster = self._created(self.home / name)
        rules = cluster.home / "trust.conf"
        rules.write_text("local all all trust\nlocal replication all trust\n")
        rules.chmod(0o644)
        own = {"hba_file": str(rules), "citus.local_hostname": str(cluster.sockets)}
        started = server.start(cluster, settings={**self._settings, **_SETTINGS, **own})
        self._stack.callback(shutil.rmtree, cluster.home, ignore_errors=True)
        self._stack.callback(started.stop, at_once=True)
        return started

    def _created(self, home: Path) -> Cluster:
        home.mkdir()
        sockets = home / "run"
        for place in (home, sockets):
            own_directory(place, self._account)
        cluster = Cluster(
            binaries=self._binaries, home=home, log=home / "postgres.log", sockets=sockets, account=self._account
        )
        initialise(cluster)
        return cluster
