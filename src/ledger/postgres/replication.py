"""Synchronous standbys: how a commit is known to be on them, and how the server reports one that may not be.

A commit that waits for its standby is not visible yet. If that wait is cancelled, by `pg_terminate_backend`,
`pg_cancel_backend` or the end of the server, the commit is visible on the primary, and a promoted standby may lack it.
Never answer a commit that was only found: call `wait_for_standbys` after it was found.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, Self

import psycopg
import structlog
from msgspec import Struct
from psycopg.errors import Diagnostic

_log = structlog.get_logger()

# Commits a message that no program reads: its transaction changes no table, and waits for the standbys as every other.
# The first eight digits of a file's name in the write-ahead log are the timeline, which each promotion increases.
COMMIT_A_MESSAGE: Final = """
select pg_logical_emit_message(true, 'ledger', '') is not null, left(pg_walfile_name(pg_current_wal_insert_lsn()), 8)
"""

STANDBYS: Final = """
select current_setting('synchronous_standby_names'), r.pid, r.application_name, r.sync_state
  from (select) as one left join pg_stat_replication r on r.state is distinct from 'backup'
"""
"""The setting, and the connected standbys: the name and the state of one are null for a role without `pg_monitor`."""

SURE: Final = ("on", "remote_apply")
"""The values of `synchronous_commit` under which an acknowledged commit is on the disk of the synchronous standby."""

# How many standbys a commit waits for: `2 (a, b)`, `FIRST 2 (a, b)`, `ANY 2 (a, b)`; without a number it is one.
_NEEDED: Final = re.compile(r"\s*(?:first\s+|any\s+)?(\d+)\s*\(", re.IGNORECASE)

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


class Standbys(Struct, frozen=True):
    """The standbys of a server. `names` is its setting, `connected` whether each that is seen is synchronous, by name.

    `synchronous` is how many are: several may have one name. `hidden` is how many more are connected that the role may
    not see.
    """

    names: str
    connected: Mapping[str, bool]
    synchronous: int
    hidden: int

    @classmethod
    def of(cls, rows: Sequence[tuple[Any, ...]]) -> Self:
        """Returns what the rows of `STANDBYS` mean."""
        seen = [(name, state in ("sync", "quorum")) for _, pid, name, state in rows if pid is not None and state]
        hidden = sum(pid is not None and state is None for _, pid, _, state in rows)
        return cls(rows[0][0], dict(sorted(seen)), sum(is_sync for _, is_sync in seen), hidden)

    @property
    def needed(self) -> int:
        """How many synchronous standbys every commit waits for."""
        if not self.names:
            return 0
        found = _NEEDED.match(self.names)
        return 1 if found is None else int(found[1])

    @property
    def is_missing(self) -> bool:
        """Whether every commit waits for a synchronous standby that is not there, as far as the role sees."""
        return not self.hidden and self.synchronous < self.needed

    @property
    def is_asynchronous(self) -> bool:
        """Whether there are standbys, and commits wait for none of them."""
        return not self.names and bool(self.connected)

    @property
    def text(self) -> str:
        """What an operator reads of them."""
        synchronous = ", ".join(name for name, is_sync in self.connected.items() if is_sync)
        others = ", ".join(name for name, is_sync in self.connected.items() if not is_sync)
        beside = f"; not synchronous: {others}" if others else ""
        if not self.names:
            return f"none is synchronous (synchronous_standby_names is empty): a promotion may lose commits{beside}"
        if self.hidden:
            return f"{self.hidden} connected; grant pg_monitor to this role to see which one is synchronous{beside}"
        if not synchronous:
            missing = f"no standby of synchronous_standby_names = '{self.names}' is connected"
            return f"{missing}, so every commit waits: bring one back{beside}"
        if self.is_missing:
            of = f"{self.synchronous} of the {self.needed} standbys that synchronous_standby_names = '{self.names}' needs"
            return f"{of} are connected ({synchronous}), so every commit waits: bring one back{beside}"
        return f"synchronous: {synchronous}{beside}"


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
