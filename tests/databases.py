"""Migrated databases that tests borrow: emptying one takes a hundredth of the time of creating and dropping another.

A database is lent again only if its catalogs are unchanged and little was written to it. A test need not declare that
it changed a table, a grant or a setting: a database that cannot be emptied is dropped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final
from uuid import uuid4

import psycopg
from campaigns.citus.cluster import CitusCluster
from msgspec import Struct
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from ledger.postgres.distribution import DISTRIBUTED

Connection = psycopg.Connection[tuple[Any, ...]]

_BYTES_MAX: Final = 4 << 20

# The state of the catalogs. DDL, GRANT and TRUNCATE write new versions of rows; vacuum and analyze write in place.
_CATALOG_TABLES: Final = (
    "pg_class", "pg_attribute", "pg_proc", "pg_trigger", "pg_constraint", "pg_type", "pg_namespace", "pg_policy",
)  # fmt: skip
_CATALOGS: Final = f"""
select array[{", ".join(f"(select (count(*), max(xmin::text::int8))::text from {name})" for name in _CATALOG_TABLES)},
             (select (datallowconn, datconnlimit, datacl)::text from pg_database where datname = current_database()),
             (select count(*)::text from pg_db_role_setting s join pg_database d on d.oid = s.setdatabase
               where d.datname = current_database())]
"""

# The tables and sequences, with their sizes.
_TABLES: Final = """
select format('%I.%I', n.nspname, c.relname), pg_relation_size(c.oid), c.relkind
  from pg_class c join pg_namespace n on n.oid = c.relnamespace
 where c.relkind in ('r', 'S') and n.nspname not in ('pg_catalog', 'information_schema')
"""
# Ends all other connections of a database.
_END: Final = (
    "select pg_terminate_backend(pid, 10000) from pg_stat_activity where datname = %s and pid <> pg_backend_pid()"
)


class _Fresh(Struct, frozen=True):
    """A new database: its catalogs, and the rows of the tables that have any."""

    catalogs: list[str]
    rows: Mapping[str, bytes]


class Databases:
    """Clones of one migrated database. `server_url` is the connection string of its owner, a superuser."""

    def __init__(self, server_url: str, template: str) -> None:
        self._server_url, self._template = server_url, template
        self._idle: list[str] = []
        self._open: dict[str, Connection] = {}
        self._fresh: _Fresh | None = None

    @contextmanager
    def lent(self) -> Iterator[str]:
        """Yields the owner's connection string of an empty database, for exclusive use until the block ends."""
        name = self._idle.pop() if self._idle else self._created()
        try:
            yield self._url(name)
        finally:
            if self._emptied(name):
                self._idle.append(name)
            else:
                self._drop(name)

    def drop(self) -> None:
        """Drops the idle databases."""
        while self._idle:
            self._drop(self._idle.pop())

    def _connection(self, name: str) -> Connection:
        """Returns our connection to a database, which stays open: a new one reads the catalogs for a while.

        A test may have ended it.
        """
        connection = self._open.get(name)
        if connection is not None:
            try:
                connection.execute("")
            except psycopg.Error:
                connection.close()
            else:
                return connection
        self._open[name] = connection = psycopg.connect(self._url(name), autocommit=True)
        return connection

    def _url(self, name: str) -> str:
        return make_conninfo(self._server_url, dbname=name)

    def _created(self) -> str:
        name = f"test_{uuid4().hex}"
        with psycopg.connect(self._server_url, autocommit=True) as connection:
            clone = sql.SQL("create database {} template {} strategy wal_log")
            connection.execute(clone.format(sql.Identifier(name), sql.Identifier(self._template)))
        if self._fresh is None:
            self._fresh = self._seen(name)
        return name

    def _seen(self, name: str) -> _Fresh:
        with psycopg.connect(self._url(name), autocommit=True) as connection:
            tables = [table for table, size, kind in connection.execute(_TABLES) if size and kind == "r"]
            return _Fresh(_catalogs(connection), {table: _copied(connection, table) for table in tables})

    def empty(self, url: str) -> None:
        """Restores the tables of a lent database. Its connections stay, and its sequences go on: a ledger holds blocks.

        Fails if a test has changed the catalogs: such a test needs a database of its own.
        """
        assert self._fresh is not None, "it was lent"
        connection = self._connection(str(conninfo_to_dict(url)["dbname"]))
        assert _catalogs(connection) == self._fresh.catalogs, "the test changes the catalogs: lend it a database"
        self._restore(connection, [row for row in connection.execute(_TABLES) if row[2] == "r"])

    def _emptied(self, name: str) -> bool:
        """Restores the database to its first state, without connections, and returns whether that succeeded."""
        assert self._fresh is not None, "it was lent"
        try:
            connection = self._connection(name)
            connection.execute(_END, (name,))
            tables = connection.execute(_TABLES).fetchall()
            if sum(size for _, size, _ in tables) > _BYTES_MAX or _catalogs(connection) != self._fresh.catalogs:
                return False
            self._restore(connection, tables)
        except psycopg.Error:
            return False
        return True

    def _restore(self, connection: Connection, tables: list[tuple[Any, ...]]) -> None:
        assert self._fresh is not None, "it was lent"
        statements = ["set session_replication_role = replica"]
        statements += [
            f"delete from {table}" if kind == "r" else f"select setval('{table}', 1, false)"
            for table, size, kind in tables
            if size
        ]
        connection.execute("; ".join(statements))  # type: ignore[arg-type]
        for table, rows in self._fresh.rows.items():
            with connection.cursor().copy(f"copy {table} from stdin") as copy:  # type: ignore[arg-type]
                copy.write(rows)

    def _drop(self, name: str) -> None:
        if name in self._open:
            self._open.pop(name).close()
        with psycopg.connect(self._server_url, autocommit=True) as connection:
            connection.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


class DistributedDatabases(Databases):
    """Copies of one distributed database of a cluster with Citus. Each is lent once, because it exists on every node."""

    def __init__(self, cluster: CitusCluster, template: str) -> None:
        super().__init__(cluster.url("postgres"), template)
        self._cluster = cluster

    def _created(self) -> str:
        name = f"test_{uuid4().hex}"
        self._cluster.copy_database(self._template, name)
        if self._fresh is None:
            self._fresh = self._seen(name)
        return name

    def _emptied(self, name: str) -> bool:
        del name
        return False

    def empty(self, url: str) -> None:
        """Restores the tables of a lent database, whatever a test has changed in the catalogs."""
        connection = self._connection(str(conninfo_to_dict(url)["dbname"]))
        connection.execute("set session_replication_role = origin")  # Citus truncates shards by a trigger
        connection.execute(f"truncate {', '.join(DISTRIBUTED)}")  # type: ignore[arg-type]
        self._restore(connection, [row for row in connection.execute(_TABLES) if row[2] == "r"])

    def _drop(self, name: str) -> None:
        if name in self._open:
            self._open.pop(name).close()
        self._cluster.drop_database(name)


def _catalogs(connection: Connection) -> list[str]:
    row = connection.execute(_CATALOGS).fetchone()
    assert row is not None
    return list(row[0])


def _copied(connection: Connection, table: str) -> bytes:
    with connection.cursor().copy(f"copy {table} to stdout") as copy:  # type: ignore[arg-type]
        return b"".join(bytes(piece) for piece in copy)
