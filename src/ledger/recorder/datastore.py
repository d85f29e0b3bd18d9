"""The connections behind one merchant's recorders, speaking of failures in the library's words.

The rule a stranger would break: a store belongs to one merchant, and every statement that runs on it says so. There is no
way from one merchant's recorder to another's log.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final
from uuid import UUID

import psycopg
from eventsourcing import persistence
from psycopg_pool import ConnectionPool

from ledger.postgres import arrays
from ledger.postgres.connection import KEEP_ALIVE

Connection = psycopg.Connection[tuple[Any, ...]]
Cursor = psycopg.Cursor[tuple[Any, ...]]

_CONNECTIONS_MAX: Final = 16
_CONNECT_TIMEOUT_S: Final = 5

# The library names its exceptions after those of the Python database interface, as psycopg does.
_WORDS: Final[tuple[tuple[type[psycopg.Error], type[persistence.PersistenceError]], ...]] = (
    (psycopg.InterfaceError, persistence.InterfaceError),
    (psycopg.OperationalError, persistence.OperationalError),
    (psycopg.DataError, persistence.DataError),
    (psycopg.IntegrityError, persistence.IntegrityError),
    (psycopg.InternalError, persistence.InternalError),
    (psycopg.ProgrammingError, persistence.ProgrammingError),
    (psycopg.NotSupportedError, persistence.NotSupportedError),
    (psycopg.DatabaseError, persistence.DatabaseError),
    (psycopg.Error, persistence.PersistenceError),
)


class Store:
    """Connections for one merchant's recorders, opened when they are first needed and closed with the store.

    `url` is a direct libpq connection string, `options` are libpq's.
    """

    def __init__(self, url: str, merchant_id: UUID, options: str) -> None:
        self.merchant_id = merchant_id
        self._url = url
        self._pool: ConnectionPool[Connection] = ConnectionPool(
            url,
            kwargs={
                "autocommit": True,
                "application_name": "ledger-recorder",
                "connect_timeout": _CONNECT_TIMEOUT_S,
                "options": options,
                **KEEP_ALIVE,
            },
            configure=arrays.register,
            # A connection that broke while it lay idle must not be found out by an insert, whose fate would be unknown.
            check=ConnectionPool.check_connection,
            min_size=0,
            max_size=_CONNECTIONS_MAX,
            open=False,
        )

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """A connection in autocommit. Raises the library's PersistenceErrors for psycopg's, also out of the block."""
        with _in_the_librarys_words():
            self._pool.open()
            with self._pool.connection() as connection:
                yield connection

    @contextmanager
    def transaction(self) -> Iterator[Cursor]:
        """A cursor in a transaction that commits when the block ends and is rolled back where it raises."""
        with self.connection() as connection, connection.transaction():
            yield connection.cursor()

    def listener(self) -> Connection:
        """A connection outside the pool, for notifications. Raises psycopg.OperationalError."""
        return psycopg.connect(
            self._url,
            autocommit=True,
            application_name="ledger-follower",
            connect_timeout=_CONNECT_TIMEOUT_S,
            **KEEP_ALIVE,
        )

    def close(self) -> None:
        self._pool.close()

    def __del__(self) -> None:
        with suppress(AttributeError):
            self.close()  # the library drops the factory of a view without closing it


@contextmanager
def _in_the_librarys_words() -> Iterator[None]:
    try:
        yield
    except psycopg.Error as error:
        ours = next(ours for theirs, ours in _WORDS if isinstance(error, theirs))
        raise ours(str(error)) from error
