"""Synchronous standbys: how a commit is known to be on them, and how the server reports one that may not be.

A commit that waits for its standby is not visible yet. If that wait is cancelled, by `pg_terminate_backend`,
`pg_cancel_backend` or the end of the server, the commit is visible on the primary, and a promoted standby may lack it.
Never answer a commit that was only found: call `wait_for_standbys` after it was found.
"""

from __future__ import annotations

from typing import Any, Final

import psycopg
import structlog
from psycopg.errors import Diagnostic

_log = structlog.get_logger()

# Commits a message that no program reads: its transaction changes no table, and waits for the standbys as every other.
# The first eight digits of a file's name in the write-ahead log are the timeline, which each promotion increases.
COMMIT_A_MESSAGE: Final = """
select pg_logical_emit_message(true, 'ledger', '') is not null, left(pg_walfile_name(pg_current_wal_insert_lsn()), 8)
"""

_WAITS: Final = "SyncRepWaitForLSN"
"""The server's function that waits for a standby. The text of its warnings depends on the server's language."""


async def wait_for_standbys(connection: psycopg.AsyncConnection[Any]) -> str:
    """Returns once the synchronous standbys have everything that was committed before, with the timeline of the server.

    The write-ahead log is in the order of commits, so one commit that waits confirms all those before it. Inside a
    transaction it is that transaction's commit that waits. Raises psycopg.Error: nothing is confirmed.
    """
    row = await (await connection.execute(COMMIT_A_MESSAGE)).fetchone()
    assert row is not None, "a select without from has one row"
    return str(row[1])


def takes_no_writes(connection: psycopg.AsyncConnection[Any], fault: psycopg.Error) -> bool:
    """Returns whether the server that raised `fault` is a standby, or was made read-only by an operator."""
    is_standby = connection.pgconn.parameter_status(b"in_hot_standby") == b"on"
    return is_standby or isinstance(fault, psycopg.errors.ReadOnlySqlTransaction)


class CommitWarnings:
    """The server's warnings about the commits of one connection. `unreplicated` is whether there was one that a standby
    may lack.
    """

    __slots__ = ("_of", "unreplicated")

    def __init__(self, of: str) -> None:
        self._of = of
        self.unreplicated = False

    def __call__(self, warning: Diagnostic) -> None:
        """Takes a message that the server sent beside its answers."""
        if warning.source_function == _WAITS:
            self.unreplicated = True
            is_end = warning.sqlstate == psycopg.errors.AdminShutdown.sqlstate
            reason = "its backend was ended" if is_end else "its statement was cancelled"
            _log.error("database_commit_unreplicated", of=self._of, reason=reason)


def not_replicated() -> psycopg.OperationalError:
    """Returns the error of a commit that the server acknowledged without its standby: as after a lost connection, it
    is unknown whether it lasts.
    """
    return psycopg.OperationalError("the commit was acknowledged without the synchronous standby")
