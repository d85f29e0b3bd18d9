"""The connections behind one merchant's recorders, and psycopg's errors as the library's.

A store belongs to one merchant, and every statement that runs on it filters by that merchant: one merchant's recorder
cannot read another's log.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Final
from uuid import UUID

import psycopg
from eventsourcing import persistence
from psycopg_pool import ConnectionPool

from ledger.journal.event_archive import NO_ARCHIVE, ArchiveUnavailable, EventArchive
from ledger.postgres import arrays
from ledger.postgres.connection import SET, connect_arguments

Connection = psycopg.Connection[tuple[Any, ...]]
Cursor = psycopg.Cursor[tuple[Any, ...]]

_CONNECTIONS_MAX: Final = 16

# The library names its exceptions after those of the Python database interface, as psycopg does.
_ERRORS: Final[tuple[tuple[type[psycopg.Error], type[persistence.PersistenceError]], ...]] = (
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


def _configure(settings: Mapping[str, str], connection: Connection) -> None:
    """Prepares a new connection for arrays of values, and gives its session the settings."""
    arrays.register(connection)
    connection.execute(SET, (list(settings), list(settings.values())))


class Store:
    """Connections for one merchant's recorders, opened when they are first needed and closed with the store.

    `url` is a direct libpq connection string, `settings` are those of each session. `archive` has the contents of
    events that the ledger has archived.
    """

    def __init__(
        self, url: str, merchant_id: UUID, settings: Mapping[str, str], archive: EventArchive = NO_ARCHIVE
    ) -> None:
        self.merchant_id, self._archive = merchant_id, archive
        self._url = url
        self._pool: ConnectionPool[Connection] = ConnectionPool(
            url,
            kwargs=connect_arguments("ledger-recorder"),
            configure=partial(_configure, settings),
            # Finds a connection that broke while it was idle. An insert would find it too, with an unknown outcome.
            check=ConnectionPool.check_connection,
            min_size=0,
            max_size=_CONNECTIONS_MAX,
            open=False,
        )

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """Yields a connection in autocommit. Raises the library's errors for psycopg's, also in the block."""
        with _library_errors():
            self._pool.open()
            with self._pool.connection() as connection:
                yield connection

    @contextmanager
    def transaction(self) -> Iterator[Cursor]:
        """Yields a cursor in a transaction that commits after the block and is rolled back if the block raises."""
        with self.connection() as connection, connection.transaction():
            yield connection.cursor()

    def with_contents(self, rows: Sequence[tuple[Any, ...]], column: int) -> Sequence[tuple[Any, ...]]:
        """Returns rows of events with the contents, in this column, of those that are archived.

        Raises the library's OperationalError if one cannot be read.
        """
        merchant = self.merchant_id.bytes
        archived = [(merchant, row[column]) for row in rows if row[column][:1] == b"\0"]
        if not archived:
            return rows
        try:
            contents = self._archive.read(archived)
            return [
                (*row[:column], self._archive.content(contents, merchant, row[column]), *row[column + 1 :])
                for row in rows
            ]
        except ArchiveUnavailable as fault:
            raise persistence.OperationalError(str(fault)) from fault

    def listener(self) -> Connection:
        """Opens a connection outside the pool, for notifications. Raises psycopg.OperationalError."""
        return psycopg.connect(self._url, **connect_arguments("ledger-follower"))

    def close(self) -> None:
        self._pool.close()

    def __del__(self) -> None:
        with suppress(AttributeError):
            self.close()  # the library drops the factory of a view without closing it


@contextmanager
def _library_errors() -> Iterator[None]:
    try:
        yield
    except psycopg.Error as error:
        ours = next(ours for theirs, ours in _ERRORS if isinstance(error, theirs))
        raise ours(str(error)) from error
