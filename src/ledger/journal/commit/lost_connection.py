"""What became of a batch that was not answered: said by the server, or asked of the log with the ids that only this batch has.

The rule a stranger would break: ask only after the old backend is gone. Until then it may still commit what it was sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import psycopg

from ledger.journal.append import Append
from ledger.postgres.arrays import ENCODE_ARRAY
from ledger.postgres.connection import Backend, Connection, QueryTimeout, backend_of, end_backend, reconnect

# Which of these commands are in the log: asked with each command's last event after a connection was lost.
_FATE: Final = """
select c.n, e.position
  from unnest(%s::int4[], %s::uuid[], %s::uuid[], %s::int4[], %s::uuid[]) as c(n, m, o, v, command_id)
  join event e on e.merchant_id = c.m and e.stream_id = c.o and e.version = c.v and e.command_id = c.command_id
"""


def is_rolled_back(fault: Exception) -> bool:
    """Whether nothing of the batch was written, for certain: the server has said so, or it never got it.

    The server's word is an ERROR: it has rolled back. A FATAL may follow a commit, and what psycopg says of a socket by
    itself, without an SQLSTATE, may come while the connection still counts as a good one.
    """
    if not isinstance(fault, psycopg.OperationalError | psycopg.InterfaceError | psycopg.InternalError):
        return True  # somebody's data, refused by the server or before it was sent
    return fault.sqlstate is not None and fault.diag.severity_nonlocalized == "ERROR"


async def committed_commands(connection: Connection, batch: Sequence[Append]) -> dict[int, int]:
    """The commands of the batch that had been committed, by their number in it, with the position of their last event."""
    if not batch:
        return {}
    rows = []
    for n, append in enumerate(batch):
        last = [stream for stream in append.streams if stream.events][-1]
        rows.append((n, append.merchant_id, last.stream_id, last.expected + len(last.events), append.command_id))
    columns = zip(*rows, strict=True)
    packed = [
        ENCODE_ARRAY[type_](column)
        for type_, column in zip(("int4", "uuid", "uuid", "int4", "uuid"), columns, strict=True)
    ]
    found = await connection.cursor(binary=True).execute(_FATE, packed)
    return {int(n): int(position) for n, position in await found.fetchall()}


async def resolve_unknown_commit(
    url: str, name: str, lock_timeout: str, old: Backend, batch: Sequence[Append]
) -> tuple[Connection, Backend, dict[int, int]]:
    """A connection instead of the one to the `old` backend, and what `which_landed` says there. Takes as long as it takes."""
    while True:
        connection = await reconnect(url, name, lock_timeout=lock_timeout)
        try:
            with QueryTimeout(connection):
                await end_backend(connection, old)
                return connection, await backend_of(connection), await committed_commands(connection, batch)
        except BaseException as fault:
            await connection.close()
            if not isinstance(fault, psycopg.OperationalError):
                raise
