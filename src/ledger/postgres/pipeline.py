"""Transactions of prepared statements on one connection: each sent as a whole, and without waiting for those before it.

Use an open pipeline's connection for nothing else: psycopg would read the pipeline's answers.

psycopg's own pipeline sends each statement and the Sync apart, with turns of the event loop between them. A process
that is stopped there, or is only busy, keeps the locks of the statements that have arrived.
"""

from __future__ import annotations

import asyncio
import select
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, NamedTuple, TypeVar

import psycopg
from msgspec import Struct
from psycopg.abc import Buffer
from psycopg.adapt import Transformer
from psycopg.pq import ExecStatus, Format
from psycopg.pq.abc import PGresult

from ledger.postgres.connection import Connection, QueryTimeout
from ledger.postgres.replication import not_replicated

R = TypeVar("R")

Rows = Sequence[tuple[Any, ...]]

_LOST: Final = "the connection is lost"


class Statement(NamedTuple):
    """The text of a statement, with `$1`, `$2` …, and the name under which each connection prepares it, once.

    `types` are the numbers of its parameters' types. Without them, the server finds the types that the text implies.
    """

    name: bytes
    text: bytes
    types: Sequence[int] = ()


class _Transaction(Struct, Generic[R], eq=False):
    """A transaction that was sent. Its answer is one result for each of `preparing`, then one for each statement."""

    preparing: Sequence[bytes]
    read: Callable[[Sequence[Rows]], R]
    future: asyncio.Future[R]


class Pipeline:
    """libpq's pipeline on `connection`, with one reader on the event loop for as long as it is open.

    It ends with the connection; `on_lost` is then called. A server that leaves the oldest transaction unanswered for as
    long as `QueryTimeout` waits has its connection cut, and so has one that acknowledges a commit without its standby.

    libpq holds back the bytes after the last full 8 kB: a larger transaction takes two sends, the second without a turn
    of the event loop after the first. If the socket's buffer is full, further sends follow as the server reads.
    """

    def __init__(self, connection: Connection, on_lost: Callable[[], object]) -> None:
        self._connection, self._pgconn, self._on_lost = connection, connection.pgconn, on_lost
        self._transformer, self._timeout = Transformer(connection), QueryTimeout(connection)
        self._prepared: set[bytes] = set()
        self._in_flight: deque[_Transaction[Any]] = deque()
        self._results: list[PGresult] = []
        self._is_open, self._is_writing = True, False
        self._loop, self._socket = asyncio.get_running_loop(), self._pgconn.socket
        self._unread = select.poll()
        self._unread.register(self._socket, select.POLLIN)
        self._pgconn.enter_pipeline_mode()
        self._loop.add_reader(self._socket, self._receive)

    def send(
        self, statements: Sequence[tuple[Statement, Sequence[Buffer | None]]], read: Callable[[Sequence[Rows]], R]
    ) -> asyncio.Future[R]:
        """Sends statements with their parameters, in Postgres' binary format, as one transaction.

        The future resolves to the results of `read` for each statement's rows. It raises the server's error, after
        which nothing of the transaction is committed, or an OperationalError without an SQLSTATE: the connection is
        lost. Raises the latter at once, too.
        """
        if not self._is_open:
            raise psycopg.OperationalError(_LOST)
        named = {statement.name: statement for statement, _ in statements}  # a transaction may execute one repeatedly
        preparing = [statement for name, statement in named.items() if name not in self._prepared]
        try:
            for statement in preparing:
                self._pgconn.send_prepare(statement.name, statement.text, statement.types or None)
            for statement, parameters in statements:
                formats = [Format.BINARY] * len(parameters)
                self._pgconn.send_query_prepared(statement.name, parameters, formats, Format.BINARY)
            self._pgconn.pipeline_sync()
            self._flush()
        except BaseException as fault:
            self._lose(fault)  # a part of the transaction may have been sent
            raise
        transaction = _Transaction([statement.name for statement in preparing], read, self._loop.create_future())
        self._in_flight.append(transaction)
        # A transaction sent behind this one may use the statements. If preparing fails, so does that transaction.
        self._prepared.update(transaction.preparing)
        if len(self._in_flight) == 1:
            self._timeout.start()
        return transaction.future

    def close(self, fault: BaseException | None = None) -> None:
        """Stops reading and closes the connection. Unanswered transactions raise an OperationalError."""
        if self._is_open:
            self._is_open = False
            self._timeout.stop()
            self._loop.remove_reader(self._socket)
            self._loop.remove_writer(self._socket)
            self._pgconn.finish()
            if self._in_flight:
                self._connection.give_up()
            while self._in_flight:
                future = self._in_flight.popleft().future
                if not future.done():
                    lost = psycopg.OperationalError(_LOST)
                    lost.__cause__ = fault
                    future.set_exception(lost)

    def _flush(self) -> None:
        is_blocked = bool(self._pgconn.flush())
        if is_blocked and not self._is_writing:
            self._loop.add_writer(self._socket, self._send_rest)
        elif self._is_writing and not is_blocked:
            self._loop.remove_writer(self._socket)
        self._is_writing = is_blocked

    def _send_rest(self) -> None:
        try:
            self._flush()
        except Exception as fault:  # noqa: BLE001 - whatever it is, the rest cannot be sent
            self._lose(fault)

    def _receive(self) -> None:
        """Reads until nothing is left to read.

        uvloop calls a reader once for a connection that the server has reset, and never again. The first read may
        return only the server's final message; a second read then detects the closed connection.
        """
        self._read()
        while self._is_open and self._unread.poll(0):
            self._read()

    def _read(self) -> None:
        """Reads what has arrived: a transaction is over when its Sync is answered."""
        try:
            self._pgconn.consume_input()
            ended = 0  # None ends a statement's results. A second None in a row: there are no more
            while ended < 2 and not self._pgconn.is_busy():
                result = self._pgconn.get_result()
                if result is None:
                    ended += 1
                    continue
                ended = 0
                if result.status == ExecStatus.PIPELINE_SYNC:
                    self._answer()
                else:
                    self._results.append(result)
        except Exception as fault:  # noqa: BLE001 - an answer that cannot be read leaves its commit unknown
            self._lose(fault)

    def _answer(self) -> None:
        """Resolves the oldest transaction with its results."""
        self._connection.heard()
        if self._connection.is_unreplicated:
            raise not_replicated()
        results, self._results = self._results, []
        transaction = self._in_flight[0]
        if error := next((result for result in results if result.status == ExecStatus.FATAL_ERROR), None):
            for name, result in zip(transaction.preparing, results, strict=False):
                if result.status != ExecStatus.COMMAND_OK:
                    self._prepared.discard(name)
            if not transaction.future.done():
                transaction.future.set_exception(psycopg.errors.error_from_result(error))
        else:
            answer = transaction.read([self._rows(result) for result in results[len(transaction.preparing) :]])
            if not transaction.future.done():
                transaction.future.set_result(answer)
        self._in_flight.popleft()
        self._timeout.stop()
        if self._in_flight:
            self._timeout.start()

    def _rows(self, result: PGresult) -> Rows:
        self._transformer.set_pgresult(result)
        return self._transformer.load_rows(0, result.ntuples, tuple)

    def _lose(self, fault: BaseException) -> None:
        self.close(fault)
        self._on_lost()
