"""Connections that all see the database as it was at one moment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from itertools import count
from typing import Any, Final, LiteralString
from uuid import UUID

import psycopg
from msgspec import Struct
from psycopg import sql
from psycopg.types.numeric import Int4BinaryLoader, Int8BinaryLoader
from psycopg.types.string import ByteaBinaryLoader

from ledger.postgres.connection import connect_arguments, session_settings
from ledger.postgres.distribution import is_distributed

Connection = psycopg.Connection[tuple[Any, ...]]

_PAGE: Final = 1000

_SETTINGS: Final = session_settings(
    statement_timeout="0",
    idle_in_transaction_session_timeout="0",
    cursor_tuple_fraction="1",  # a cursor is read to its end
    plan_cache_mode="auto",
)
_SET: Final = "select set_config(name, value, false) from unnest(%s::text[], %s::text[]) as s(name, value)"
# One transaction on each node of Citus, so that what is read of a merchant is of one moment.
_ONE_TRANSACTION_A_NODE: Final = "set citus.max_adaptive_executor_pool_size = 1"
_BEGIN: Final = "begin isolation level repeatable read read only"
_EXPORT: Final = "select pg_export_snapshot(), now()"
_JOIN: Final = sql.SQL("set transaction snapshot {}")

# Values as Postgres sends them, which is the form in which rows are rendered.
_AS_SENT: Final[dict[str, Any]] = {
    "uuid": ByteaBinaryLoader,
    "text": ByteaBinaryLoader,
    "bytea": ByteaBinaryLoader,
    "date": Int4BinaryLoader,
    "timestamptz": Int8BinaryLoader,
}

_names: Final = count()


class Snapshot(Struct, frozen=True):
    """One moment of a database: the name under which other connections join it, and its time.

    If Citus divides the database, each merchant is seen at one moment, soon after that time, and `is_divided`: no other
    connection sees the same.
    """

    name: str
    at: datetime
    is_divided: bool


@contextmanager
def take_snapshot(url: str) -> Iterator[tuple[Connection, Snapshot]]:
    """Yields a connection, and the snapshot that it sees, which others can join meanwhile.

    Raises psycopg.OperationalError.
    """
    with _connected(url) as connection:
        row = connection.execute(_EXPORT).fetchone()
        assert row is not None, "a snapshot has a name"
        name, at = row
        yield connection, Snapshot(name, at, is_distributed(connection))


@contextmanager
def join_snapshot(url: str, snapshot: Snapshot) -> Iterator[Connection]:
    """Yields a connection that sees a snapshot. Raises psycopg.OperationalError."""
    with _connected(url) as connection:
        connection.execute(_JOIN.format(sql.Literal(snapshot.name)))
        yield connection


@contextmanager
def _connected(url: str) -> Iterator[Connection]:
    with psycopg.connect(url, **connect_arguments("ledger-audit")) as connection:
        connection.execute(_SET, (list(_SETTINGS), list(_SETTINGS.values())))
        if is_distributed(connection):
            connection.execute(_ONE_TRANSACTION_A_NODE)
        connection.execute(_BEGIN)
        yield connection
        connection.execute("rollback")


def pages(
    connection: Connection,
    query: LiteralString | sql.SQL | sql.Composed,
    parameters: Sequence[Any] | Mapping[str, Any],
    size: int = _PAGE,
) -> Iterator[list[tuple[Any, ...]]]:
    """Yields the rows of a query in pages, by a cursor of the server. Texts, bytes and UUIDs are bytes, times are
    microseconds since 2000-01-01 UTC, dates are days since then.
    """
    with connection.cursor(f"audit_{next(_names)}", binary=True) as cursor:
        for type_name, loader in _AS_SENT.items():
            cursor.adapters.register_loader(type_name, loader)
        cursor.execute(query, parameters)
        while page := cursor.fetchmany(size):
            yield page


class MerchantRows:
    """The rows of a query in the order of merchants, read once from the first to the last.

    The query begins with the merchant, takes the first and the last one, and orders by merchant. `passed` are the
    merchants whose rows were not asked for.
    """

    def __init__(
        self, connection: Connection, query: LiteralString, first: UUID, last: UUID, size: int = _PAGE
    ) -> None:
        self._rows = (row for page in pages(connection, query, (first, last), size) for row in page)
        self._next = next(self._rows, None)
        self.passed: set[UUID] = set()

    def of(self, merchant_id: UUID) -> Iterator[tuple[Any, ...]]:
        """Yields the rows of a merchant, who comes behind the one before, without the merchant. Take all of them."""
        key = merchant_id.bytes
        while self._next is not None and self._next[0] <= key:
            row, self._next = self._next, next(self._rows, None)
            if row[0] == key:
                yield row[1:]
            else:
                self.passed.add(UUID(bytes=row[0]))

    def end(self) -> None:
        """Reads to the end."""
        while self._next is not None:
            self.passed.add(UUID(bytes=self._next[0]))
            self._next = next(self._rows, None)


def key_of(merchant_id: UUID, stream_id: UUID) -> bytes:
    """Returns a stream's place in the order in which streams are read."""
    return merchant_id.bytes + stream_id.bytes
