"""Poolers between the service and its Postgres: refused unless each connection has a session of its own.

How many connections a pooler has room for is in its own settings, which no statement to the database shows. pgbouncer
shows them to the roles of its `stats_users`, in a database that it names after itself.

Ask there only if an operator wants it. A pgbouncer before 1.19 ends, with all its connections, as soon as a role asks
that it has from `auth_query` and not from its `auth_file` (pgbouncer's pull request 817).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import dict_row

from ledger.postgres.primary_search import connect_now
from ledger.settings import CannotRun

_BACKEND: Final = "select pg_backend_pid()"
# Leaves something in a session: a statement, and a setting, whose name may be any with a dot.
_LEAVE: Final = ("prepare ledger_kept as select 1", "set ledger.kept = 'here'")
# Whether anything of it is there.
_LEFT: Final = """
select coalesce(current_setting('ledger.kept', true), '') <> ''
       or exists (select from pg_prepared_statements where name = 'ledger_kept')
"""
_CONSOLE: Final = "pgbouncer"
_UNLIMITED: Final = "0"

_LOOKS: Final = 3
"""A pooler with other clients may happen to give a connection the same session twice."""


class SessionsShared(CannotRun):
    """A pooler gives the session of one connection to another one, in transaction or statement mode."""

    def __init__(self) -> None:
        super().__init__(
            "the database is behind a pooler that shares sessions between connections, which loses locks and settings: "
            "set pool_mode = session"
        )


class SessionsKept(SessionsShared):
    """A pooler gives a session to its next client as the last one has left it: with its settings and statements."""

    def __init__(self) -> None:
        CannotRun.__init__(
            self,
            "the database is behind a pooler that gives a session as the last connection has left it to the next one, "
            "such as one that may only read to one that writes: set server_reset_query = DISCARD ALL",
        )


def require_sessions(database_url: str) -> None:
    """Raises SessionsShared if two connections that are open at once can have the same server process.

    Looks also while one of them holds a transaction, which then has the process that the other one had. Raises
    SessionsKept if a connection gets a session that another one has left, as that left it. Raises
    psycopg.OperationalError.
    """
    with connect_now(database_url, autocommit=True) as one, connect_now(database_url, autocommit=True) as other:
        own = _backend(one)
        for _ in range(_LOOKS):
            if _backend(other) == own:
                raise SessionsShared
            with other.transaction():
                if _backend(other) == own or _backend(one) != own:
                    raise SessionsShared
        if one.info.backend_pid == own:
            return
        for each in (one, other):
            _require_nothing_left(each)
            for statement in _LEAVE:
                each.execute(statement, prepare=False)
    with connect_now(database_url, autocommit=True) as next_one:  # a pooler gives it the session that was left last
        _require_nothing_left(next_one)


def _require_nothing_left(connection: psycopg.Connection) -> None:
    if connection.execute(_LEFT, prepare=False).fetchone() == (True,):
        raise SessionsKept


def _backend(connection: psycopg.Connection) -> int:
    row = connection.execute(_BACKEND, prepare=False).fetchone()
    assert row is not None, "every session has a process"
    return int(row[0])


def is_pooled(connection: psycopg.AsyncConnection[object], server_pid: int) -> bool:
    """Returns whether a pooler is between a connection and its server process: it gives its clients pids of its own."""
    return connection.pgconn.backend_pid != server_pid


def pooler_limits(database_url: str) -> Mapping[str, int] | None:
    """Returns the limits of a pgbouncer that concern this database, by the names of its settings: each is a number of
    connections, of one role or of all. None if the role may not see them, or if the pooler is another program.
    """
    try:
        with psycopg.connect(
            make_conninfo(database_url, dbname=_CONSOLE, connect_timeout=5), autocommit=True, row_factory=dict_row
        ) as console:
            own = conninfo_to_dict(database_url).get("dbname")
            (pool,) = [row for row in console.execute("show databases").fetchall() if row["name"] == own]
            settings = {row["key"]: row["value"] for row in console.execute("show config").fetchall()}
    except (psycopg.Error, ValueError, KeyError):
        return None
    limits = {
        "default_pool_size": pool["pool_size"],
        "max_db_connections": pool["max_connections"],
        **{name: settings[name] for name in ("max_user_connections", "max_client_conn") if name in settings},
    }
    return {name: int(limit) for name, limit in limits.items() if str(limit) != _UNLIMITED}
