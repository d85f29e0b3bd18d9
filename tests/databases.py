"""Migrated databases that tests borrow: emptying one takes a hundredth of the time that making and dropping another does.

The rule a stranger would break: a database is lent again only if its catalogs are as they were made and little was written
to it. Nobody has to say that a test changed a table, a grant or a setting; whatever cannot be emptied is dropped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final
from uuid import uuid4

import psycopg
from msgspec import Struct
from psycopg import sql
from psycopg.conninfo import make_conninfo

Connection = psycopg.Connection[tuple[Any, ...]]

_BYTES_MAX: Final = 4 << 20

# A row that DDL, GRANT or TRUNCATE has touched is another row version; what vacuum and analyze note is written in place.
_CATALOGS: Final = """
select array[(select (count(*), max(xmin::text::int8))::text from pg_class), (select (count(*), max(xmin::text::int8))::text from pg_attribute),
             (select (count(*), max(xmin::text::int8))::text from pg_proc), (select (count(*), max(xmin::text::int8))::text from pg_trigger),
             (select (count(*), max(xmin::text::int8))::text from pg_constraint), (select (count(*), max(xmin::text::int8))::text from pg_type),
             (select (count(*), max(xmin::text::int8))::text from pg_namespace), (select (count(*), max(xmin::text::int8))::text from pg_policy),
             (select (datallowconn, datconnlimit, datacl)::text from pg_database where datname = current_database()),
             (select count(*)::text from pg_db_role_setting s join pg_database d on d.oid = s.setdatabase where d.datname = current_database())]
"""
_TABLES: Final = """
select format('%I.%I', n.nspname, c.relname), pg_relation_size(c.oid), c.relkind
  from pg_class c join pg_namespace n on n.oid = c.relnamespace
 where c.relkind in ('r', 'S') and n.nspname not in ('pg_catalog', 'information_schema')
"""
_END: Final = (
    "select pg_terminate_backend(pid, 10000) from pg_stat_activity where datname = %s and pid <> pg_backend_pid()"
)


class _Fresh(Struct, frozen=True):
    """A database as it was made: its catalogs, and the rows of the tables that have any."""

    catalogs: list[str]
    rows: Mapping[str, bytes]


class Databases:
    """Clones of one migrated database. `server_url` is its owner's, who may do everything there."""

    def __init__(self, server_url: str, template: str) -> None:
        self._server_url, self._template = server_url, template
        self._idle: list[str] = []
        self._fresh: _Fresh | None = None

    @contextmanager
    def lent(self) -> Iterator[str]:
        """The owner's connection string of an empty database that nobody else uses until the block ends."""
        name = self._idle.pop() if self._idle else self._made()
        try:
            yield self._url(name)
        finally:
            if self._emptied(name):
                self._idle.append(name)
            else:
                self._drop(name)

    def drop(self) -> None:
        """Drop those that wait to be lent."""
        while self._idle:
            self._drop(self._idle.pop())

    def _url(self, name: str) -> str:
        return make_conninfo(self._server_url, dbname=name)

    def _made(self) -> str:
        name = f"test_{uuid4().hex}"
        with psycopg.connect(self._server_url, autocommit=True) as connection:
            clone = sql.SQL("create database {} template {} strategy wal_log")
            connection.execute(clone.format(sql.Identifier(name), sql.Identifier(self._template)))
        if self._fresh is None:
            with psycopg.connect(self._url(name), autocommit=True) as connection:
                tables = [table for table, size, kind in connection.execute(_TABLES) if size and kind == "r"]
                self._fresh = _Fresh(_catalogs(connection), {table: _copied(connection, table) for table in tables})
        return name

    def _emptied(self, name: str) -> bool:
        """Whether the database is as it was made again, with nobody connected."""
        assert self._fresh is not None, "it was lent"
        try:
            with psycopg.connect(self._url(name), autocommit=True) as connection:
                connection.execute(_END, (name,))
                tables = connection.execute(_TABLES).fetchall()
                if sum(size for _, size, _ in tables) > _BYTES_MAX or _catalogs(connection) != self._fresh.catalogs:
                    return False
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
        except psycopg.Error:
            return False
        return True

    def _drop(self, name: str) -> None:
        with psycopg.connect(self._server_url, autocommit=True) as connection:
            connection.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


def _catalogs(connection: Connection) -> list[str]:
    row = connection.execute(_CATALOGS).fetchone()
    assert row is not None
    return list(row[0])


def _copied(connection: Connection, table: str) -> bytes:
    with connection.cursor().copy(f"copy {table} to stdout") as copy:  # type: ignore[arg-type]
        return b"".join(bytes(piece) for piece in copy)
