"""The server that recovers a copy of a backup: to the end of its write-ahead log, or up to a moment.

Recover into a new timeline always, so that a restored server never archives under the names of the first one's log.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Final

from psycopg.conninfo import make_conninfo

from ledger.backup.fetching import SegmentFetcher
from ledger.backup.record import BackupRecord
from ledger.postgres.embedded.account import run_as
from ledger.postgres.embedded.archiving import fetch_command
from ledger.postgres.embedded.cluster import PORT, Cluster
from ledger.postgres.embedded.server import EmbeddedServer, log_tail
from ledger.postgres.embedded.wal_store import is_store
from ledger.settings import CannotRun

_POLL_S: Final = 0.02
_NO_ARCHIVE: Final = "false"
"""A command that finds no segment: those of the backup are all there are."""
_RULES: Final = ("pg_hba.conf", "pg_ident.conf")
_SYSTEM: Final = "postgresql.auto.conf"
"""What ALTER SYSTEM has set. Postgres reads it beside any configuration file: a synchronous standby that it names would
hold up every commit of the recovered server, which has none.
"""
_STANDBY: Final = "standby.signal"
"""In a backup that was taken of a standby: a server with it waits for its primary."""
_SPOOL: Final = "wal-fetched"
_CONFIGURATION: Final = "recovery.conf.empty"
_ACCESS: Final = "recovery.hba.conf"
_ANY_ROLE: Final = "local all all trust\n"
"""The rule for connections: every user that reaches the socket, in a directory that only the server's account and root
enter.

PostgreSQL 15 does not know the map of the embedded server, by which a user is any role.
"""


@contextmanager
def recovered(cluster: Cluster, record: BackupRecord, archive: str, at: datetime | None) -> Iterator[str]:
    """Yields the owner's connection string of a server that has recovered the cluster and accepts writes.

    Raises CannotRun if the recovery ends before the moment, or cannot be done.
    """
    rules = {name: _content(cluster.directory / name) for name in (*_RULES, _SYSTEM)}
    _as_account(cluster, "touch", "recovery.signal", _CONFIGURATION, _ACCESS, _SYSTEM)
    (cluster.directory / _ACCESS).write_text(_ANY_ROLE)
    (cluster.directory / _SYSTEM).write_text("")
    (cluster.directory / _STANDBY).unlink(missing_ok=True)
    fetcher = None
    if is_store(archive):
        fetcher = SegmentFetcher(archive, cluster.home / _SPOOL, cluster.account)
    command = fetcher.command if fetcher else fetch_command(Path(archive)) if archive else _NO_ARCHIVE
    server = EmbeddedServer(cluster, _settings(cluster, command, at))
    try:
        _await(server, at, fetcher)
        yield make_conninfo(
            "", host=str(cluster.sockets), port=PORT, user=record.owner, dbname=record.database, options=record.options
        )
    finally:
        server.stop(60.0)
        shutil.rmtree(cluster.home / _SPOOL, ignore_errors=True)
        for name in (_CONFIGURATION, _ACCESS):
            (cluster.directory / name).unlink(missing_ok=True)
        for name, content in rules.items():  # of one's own server: its own rules come back
            if content is None:
                (cluster.directory / name).unlink(missing_ok=True)
            else:
                (cluster.directory / name).write_bytes(content)


def _settings(cluster: Cluster, restore_command: str, at: datetime | None) -> dict[str, str]:
    """Returns the settings of the server: none from the server that was backed up, because they name its files.

    It archives nothing, and keeps the segments that the next start has to archive.
    """
    settings = {
        "config_file": str(cluster.directory / _CONFIGURATION),
        "hba_file": str(cluster.directory / _ACCESS),
        "shared_preload_libraries": "",
        "ssl": "off",
        "hot_standby": "off",
        "archive_mode": "on",
        "archive_command": "",
        "restore_command": restore_command,
        "recovery_target_timeline": "current",
    }
    if at is not None:
        settings |= {"recovery_target_time": at.isoformat(), "recovery_target_action": "promote"}
    return settings


def _await(server: EmbeddedServer, at: datetime | None, fetcher: SegmentFetcher | None) -> None:
    server.tick()
    while not server.tick():
        if fetcher is not None:
            fetcher.serve()
        if server.pid is None:
            reason = log_tail(server.cluster)
            if at is not None and "before configured recovery target was reached" in reason:
                raise CannotRun(
                    f"the archived log ends before {at.isoformat()}: name an earlier moment, or restore without --at"
                )
            raise CannotRun(f"the backup cannot be recovered: {reason}")
        time.sleep(_POLL_S)


def _as_account(cluster: Cluster, program: str, *names: str) -> None:
    made = run_as(cluster.account, program, *(cluster.directory / name for name in names))
    if made.returncode:
        raise CannotRun(f"{cluster.directory} cannot be written: {made.stderr.strip()}")


def _content(file: Path) -> bytes | None:
    try:
        return file.read_bytes()
    except FileNotFoundError:
        return None
