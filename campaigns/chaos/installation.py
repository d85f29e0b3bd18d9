"""A database of a test, and the environment with which the ledger's programs use it.

The programs run under a role of their own, as they do everywhere. The role belongs to the whole server, so it is dropped with
the database.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from uuid import uuid4

import psycopg
from msgspec import Struct
from psycopg import sql
from psycopg.conninfo import make_conninfo
from tests.sealing import MASTER_KEY

from campaigns.chaos.running import environ
from campaigns.chaos.service import WINDOWS


class Installation(Struct, frozen=True, kw_only=True):
    """`url` is the owner's connection string, `environment` what programs are started with."""

    url: str
    environment: Mapping[str, str]


@contextmanager
def installed(server_url: str, template: str, settings: Mapping[str, str]) -> Iterator[Installation]:
    """Creates a database from the migrated `template`, dropped afterwards. `settings` are added to `WINDOWS`."""
    name = f"chaos_{uuid4().hex}"
    with psycopg.connect(server_url, autocommit=True) as connection:
        clone = sql.SQL("create database {} template {} strategy wal_log")
        connection.execute(clone.format(sql.Identifier(name), sql.Identifier(template)))
        row = connection.execute("select oid from pg_database where datname = %s", (name,)).fetchone()
        assert row is not None, "it has just been made"
        url = make_conninfo(server_url, dbname=name)
        variables = {"LEDGER_DATABASE_URL": url, "LEDGER_MASTER_KEY": MASTER_KEY, **WINDOWS, **settings}
        try:
            yield Installation(url=url, environment=environ(variables))
        finally:
            connection.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))
            for role in ("app", "vault"):
                drop = sql.SQL("drop role if exists {}")
                connection.execute(drop.format(sql.Identifier(f"ledger_{role}_{row[0]}")))
