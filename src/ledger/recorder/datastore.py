"""The connections behind one merchant's recorders, and psycopg's errors as the library's.

A store belongs to one merchant, and every statement that runs on it filters by that merchant: one merchant's recorder
cannot read another's log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from threading import Lock
from typing import Any, Final, TypeVar
from uuid import UUID

import psycopg
from eventsourcing import persistence
from psycopg import RawCursor
from psycopg.abc import PQGen
from psycopg.pq.abc import PGconn
from psycopg.rows import RowFactory, tuple_row
from psycopg_pool import ConnectionPool

from ledger.journal.event_archive import NO_ARCHIVE, ArchiveUnavailable, EventArchive
from ledger.postgres import arrays
from ledger.postgres.connection import SET, connect_arguments
from ledger.postgres.distribution import HEADS, is_distributed
from ledger.postgres.replication import CommitWarnings, not_replicated
from ledger.postgres.shards import HOLD, NOT_HELD, SHARDS, WRITE_TO_SHARDS, Shard, Shards, shards_in

T = TypeVar("T")

Connection = psycopg.Connection[tuple[Any, ...]]
Cursor = psycopg.Cursor[tuple[Any, ...]]

_NAME: Final = "ledger-recorder"
"""The name of the connections in the database's activity view."""
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


Commanded = tuple[str, Sequence[Any]]
"""A statement of a commit, with `$n` for its values."""


class _ReplicatedConnection(Connection):
    """A connection whose commits are acknowledged only with their synchronous standby.

    A commit that the server acknowledged without it raises an OperationalError without an SQLSTATE, and closes the
    connection: the commit is unknown.
    """

    def __init__(self, pgconn: PGconn, row_factory: RowFactory[Any] = tuple_row) -> None:
        super().__init__(pgconn, row_factory)
        self._warnings = CommitWarnings(_NAME)
        self.add_notice_handler(self._warnings)

    def wait(self, gen: PQGen[T], interval: float = 0.1, timeout: float | None = None) -> T:
        result = super().wait(gen, interval, timeout)
        if self._warnings.unreplicated:
            self.pgconn.finish()
            raise not_replicated()
        return result


def _configure(settings: Mapping[str, str], connection: Connection) -> None:
    """Prepares a new connection for arrays of values, and gives its session the settings."""
    arrays.register(connection)
    connection.execute(SET, (list(settings), list(settings.values())))


def _configure_node(settings: Mapping[str, str], connection: Connection) -> None:
    """Prepares a new connection to a node of Citus for statements to the tables of its shards."""
    _configure(settings, connection)
    connection.execute(WRITE_TO_SHARDS)


class Store:
    """Connections for one merchant's recorders, opened when they are first needed and closed with the store.

    `url` is a direct libpq connection string, `settings` are those of each session. `archive` has the contents of
    events that the ledger has archived.
    """

    def __init__(
        self, url: str, merchant_id: UUID, settings: Mapping[str, str], archive: EventArchive = NO_ARCHIVE
    ) -> None:
        self.merchant_id, self._archive = merchant_id, archive
        self._url, self._settings = url, settings
        self._pool = _pool(url, partial(_configure, settings))
        self._nodes: dict[str, ConnectionPool[Connection]] = {}
        self._is_divided: bool | None = None
        self._shard: Shard | None = None
        self._finding = Lock()

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

    def commit(self, connection: Connection, statements: Sequence[Commanded]) -> list[list[tuple[Any, ...]]]:
        """Executes statements that write to the merchant's log as one transaction, and returns the rows of each.

        `connection` is one of this store. On Citus they are executed by the node that has the merchant.
        """
        shard = self._find_shard(connection)
        if shard is None:
            return _sent(connection, statements)
        try:
            return self._commit_to(shard, statements)
        except NOT_HELD:  # nothing is written
            self._shard = None
            moved = self._find_shard(connection)
            assert moved is not None, "a log that is divided stays so"
            return self._commit_to(moved, statements)
        except psycopg.OperationalError:
            self._shard = None  # another server may be the node now
            raise

    def _commit_to(self, shard: Shard, statements: Sequence[Commanded]) -> list[list[tuple[Any, ...]]]:
        with self._finding:
            node = self._nodes.get(shard.url)
            if node is None:
                node = self._nodes[shard.url] = _pool(shard.url, partial(_configure_node, self._settings))
            node.open()
        on_shard = [(shard.statement(statement), values) for statement, values in statements]
        with node.connection() as connection:
            return _sent(connection, [(HOLD.format(shard=shard.id), ()), *on_shard])[1:]

    def _find_shard(self, connection: Connection) -> Shard | None:
        """Returns the merchant's shard, None if the log is not divided."""
        with self._finding:
            if self._is_divided is None:
                self._is_divided = is_distributed(connection)
            if self._is_divided and self._shard is None:
                shards = Shards()
                shards.replace(shards_in(connection.execute(SHARDS, (HEADS,)).fetchall(), self._url))
                self._shard = shards.of(self.merchant_id.bytes)
            return self._shard

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
        for pool in (self._pool, *self._nodes.values()):
            pool.close()

    def __del__(self) -> None:
        with suppress(AttributeError):
            self.close()  # the library drops the factory of a view without closing it


def _pool(url: str, configure: Callable[[Connection], None]) -> ConnectionPool[Connection]:
    return ConnectionPool(
        url,
        connection_class=_ReplicatedConnection,
        kwargs=connect_arguments(_NAME),
        configure=configure,
        # Finds a connection that broke while it was idle. An insert would find it too, with an unknown outcome.
        check=ConnectionPool.check_connection,
        min_size=0,
        max_size=_CONNECTIONS_MAX,
        open=False,
    )


def _sent(connection: Connection, statements: Sequence[Commanded]) -> list[list[tuple[Any, ...]]]:
    """Executes statements and returns the rows of each. They are sent in one piece, as one implicit transaction, which
    the server ends even if this process ends first.
    """
    cursors: list[RawCursor[tuple[Any, ...]]] = [RawCursor(connection) for _ in statements]
    with connection.pipeline():
        for cursor, (statement, values) in zip(cursors, statements, strict=True):
            cursor.execute(statement, values, prepare=True, binary=True)
    return [cursor.fetchall() if cursor.description else [] for cursor in cursors]


@contextmanager
def _library_errors() -> Iterator[None]:
    try:
        yield
    except psycopg.Error as error:
        ours = next(ours for theirs, ours in _ERRORS if isinstance(error, theirs))
        raise ours(str(error)) from error
