"""Poolers between the service and its Postgres: refused unless each connection has a session of its own."""

from __future__ import annotations

from typing import Final

import psycopg

from ledger.settings import CannotRun

_BACKEND: Final = "select pg_backend_pid()"
_LOOKS: Final = 3
"""A pooler with other clients may happen to give a connection the same session twice."""


class SessionsShared(CannotRun):
    """A pooler gives the session of one connection to another one, in transaction or statement mode."""

    def __init__(self) -> None:
        super().__init__(
            "the database is behind a pooler that shares sessions between connections, which loses locks and settings: "
            "set pool_mode = session"
        )


def require_sessions(database_url: str) -> None:
    """Raises SessionsShared if two connections that are open at once can have the same server process.

    Looks also while one of them holds a transaction, which then has the process that the other one had. Raises
    psycopg.OperationalError.
    """
    with psycopg.connect(database_url, autocommit=True) as one, psycopg.connect(database_url, autocommit=True) as other:
        own = _backend(one)
        for _ in range(_LOOKS):
            if _backend(other) == own:
                raise SessionsShared
            with other.transaction():
                if _backend(other) == own or _backend(one) != own:
                    raise SessionsShared


def _backend(connection: psycopg.Connection) -> int:
    row = connection.execute(_BACKEND, prepare=False).fetchone()
    assert row is not None, "every session has a process"
    return int(row[0])
