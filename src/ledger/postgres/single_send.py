"""A transaction of several prepared statements that the client sends as a whole, with the Sync that commits it.

psycopg's own pipeline sends each statement and the Sync apart, with turns of the event loop between them. A process
that is stopped there, or is only busy, keeps the locks of the statements that have arrived.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import psycopg
from psycopg import generators
from psycopg.abc import PQGen
from psycopg.adapt import Transformer
from psycopg.pq import ConnStatus, ExecStatus, Format
from psycopg.pq.abc import PGconn, PGresult

from ledger.postgres.arrays import Array
from ledger.postgres.connection import Connection

Rows = Sequence[tuple[Any, ...]]

_LOST: Final = "the connection is lost"


class SingleSend:
    """The statements of one transaction, on one connection. Their parameters are `$1`, `$2` …, all of them arrays.

    libpq keeps back what follows the last full 8 kB: a larger transaction takes two sends, the second without a turn of
    the event loop after the first. Where the socket's buffer is full, further sends follow as the server reads.
    """

    def __init__(self, connection: Connection, **statements: str) -> None:
        self._connection = connection
        self._unprepared = statements
        self._names = [_name(name) for name in statements]

    async def execute(self, *parameters: Sequence[Array]) -> list[Rows]:
        """Runs the statements with the parameters of each, in one transaction, and returns the rows of each.

        Raises the first psycopg.Error. The first call on a connection prepares the statements in requests of their own.
        """
        connection = self._connection
        for name, statement in list(self._unprepared.items()):
            await connection.execute(f"prepare {_name(name).decode()} as {statement}".encode(), prepare=False)
            del self._unprepared[name]
        async with connection.lock:
            results = await connection.wait(_exchange(connection.pgconn, self._names, parameters))
        for result in results:
            if result.status == ExecStatus.FATAL_ERROR:
                raise psycopg.errors.error_from_result(result)
        if connection.pgconn.status != ConnStatus.OK:
            raise psycopg.OperationalError(_LOST)
        return [self._rows(result) for result in results]

    def _rows(self, result: PGresult) -> Rows:
        transformer = Transformer(self._connection)
        transformer.set_pgresult(result)
        return transformer.load_rows(0, result.ntuples, tuple)


def _name(name: str) -> bytes:
    return b"ledger_" + name.encode()


def _exchange(pgconn: PGconn, names: Sequence[bytes], parameters: Sequence[Sequence[Array]]) -> PQGen[list[PGresult]]:
    """Sends all statements before it waits for anything. Returns the results, fewer where the connection is lost."""
    pgconn.enter_pipeline_mode()
    for name, values in zip(names, parameters, strict=True):
        pgconn.send_query_prepared(name, values, [Format.BINARY] * len(values), Format.BINARY)
    pgconn.pipeline_sync()
    yield from generators.send(pgconn)
    results: list[PGresult] = []
    while pgconn.status == ConnStatus.OK:
        for result in (yield from generators.fetch_many(pgconn)):
            if result.status == ExecStatus.PIPELINE_SYNC:
                pgconn.exit_pipeline_mode()
                return results
            results.append(result)
    return results
