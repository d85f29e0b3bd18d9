"""Takes a base backup with its WAL while the service runs, and checks every file of it.

Write the record last: a backup that was interrupted has none.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from datetime import datetime
from pathlib import Path
from typing import Any, Final, LiteralString
from uuid import uuid4

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from ledger.backup.manifest import check_backup
from ledger.backup.programs import BASE_BACKUP, find_programs, tail
from ledger.backup.record import CHECKPOINTS, CLUSTER, FILES, BackupRecord, write_record
from ledger.postgres.embedded.cluster import locate_cluster
from ledger.progress import Progress, unreported
from ledger.security.secrets import generates_master_key, load_secrets
from ledger.settings import CannotRun, Settings
from ledger.tlog.checkpoint_files import checkpoints_address

_POLL_S: Final = 0.02

# The server, and the fingerprint of its master key if it is recorded.
_SERVER: Final = """
select current_setting('server_version_num')::int / 10000, current_database(), current_user,
       to_regclass('master_key_fingerprint') is not null
"""
_FINGERPRINT: Final = "select fingerprint from master_key_fingerprint"

# The time, while a base backup still has files to send: the WAL up to its end is in it, so every earlier commit too.
# With it the bytes that are sent, and how many there are: null until the server has counted them.
_BEFORE_ITS_END: Final = """
select statement_timestamp(), backup_streamed, backup_total
  from pg_stat_progress_basebackup join pg_stat_activity using (pid)
 where application_name = %s and phase in (
   'initializing', 'waiting for checkpoint to finish', 'estimating backup size', 'streaming database files')
"""


def require_database(settings: Settings) -> None:
    """Raises CannotRun if the data directory has no database yet: to open it would make an empty one."""
    data_dir = settings.data_dir
    if settings.database_url is None and not (data_dir.is_dir() and locate_cluster(data_dir).directory.exists()):
        raise CannotRun(f"{data_dir} has no database to back up: name the service's data directory with --data-dir")


def take_backup(settings: Settings, owner_url: str, directory: Path, progress: Progress = unreported) -> BackupRecord:
    """Writes a backup into a new directory and returns its record.

    Raises CannotRun: the directory is in use, a program of Postgres is missing or fails, or a file is not as it was
    sent.
    """
    _claim(directory)
    checkpoints = Path(checkpoints_address(settings.checkpoints_url, settings.data_dir).removeprefix("file://"))
    if checkpoints.is_dir():  # before the database, which then has every log that is signed in these
        shutil.copytree(checkpoints, directory / CHECKPOINTS)
    with psycopg.connect(owner_url, autocommit=True) as connection:
        began = _one(connection, "select clock_timestamp()")
        row = connection.execute(_SERVER).fetchone()
        assert row is not None, "every session has a server"
        major, database, owner, is_recorded = row
        fingerprint = _one(connection, _FINGERPRINT) if is_recorded else _own_fingerprint(settings)
        programs = find_programs(str(major), BASE_BACKUP)
        complete_until = _copy(connection, programs / BASE_BACKUP, owner_url, directory / CLUSTER, progress) or began
    progress("checking every file", 0, None)
    check_backup(directory / CLUSTER, str(major))
    documents = settings.data_dir / FILES
    if not settings.files_url and documents.exists():  # after the database: a document is stored before its event
        shutil.copytree(documents, directory / FILES)
    record = BackupRecord(
        postgres=str(major),
        database=database,
        owner=owner,
        options=_options(owner_url),
        master_key_fingerprint=fingerprint,
        complete_until=complete_until,
        bytes=sum(file.stat().st_size for file in directory.rglob("*") if file.is_file()),
    )
    write_record(directory, record)
    return record


def _claim(directory: Path) -> None:
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        in_use = any(directory.iterdir())
    except OSError as refusal:
        raise CannotRun(f"{directory} cannot be made: {refusal.strerror}") from refusal
    if in_use:
        raise CannotRun(f"{directory} is not empty: name a new directory for the backup")


def _own_fingerprint(settings: Settings) -> str:
    """Returns the fingerprint for a database of an earlier release, which records none."""
    if generates_master_key(settings):
        raise CannotRun("the master key of this database is missing: set LEDGER_MASTER_KEY or LEDGER_MASTER_KEY_FILE")
    return load_secrets(settings).fingerprint


def _copy(
    connection: psycopg.Connection, program: Path, owner_url: str, directory: Path, progress: Progress
) -> datetime | None:
    """Runs pg_basebackup. Returns the last time at which its end was yet to come, or None if it was too quick to see.

    The password goes through the environment: other users of the machine can read arguments.
    """
    parts = {name: str(value) for name, value in conninfo_to_dict(owner_url).items()}
    password = {"PGPASSWORD": parts.pop("password")} if "password" in parts else {}
    parts.pop("options", None)  # a search path is of no use to a replication connection
    parts["application_name"] = name = f"ledger-backup-{uuid4().hex[:8]}"
    last: datetime | None = None
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            [
                program,
                f"--dbname={make_conninfo(**parts)}",
                f"--pgdata={directory}",
                "--wal-method=stream",
                "--checkpoint=fast",
                "--manifest-checksums=SHA256",
                "--no-password",
            ],
            env={**os.environ, **password},
            stdin=subprocess.DEVNULL,
            stdout=errors,
            stderr=errors,
        )
        try:
            while process.poll() is None:
                row = connection.execute(_BEFORE_ITS_END, [name]).fetchone()
                if row is not None:
                    last, sent, total = row
                    if total:
                        progress("copying the database", sent, total)
                time.sleep(_POLL_S)
        except BaseException:
            process.kill()
            process.wait()
            raise
        if process.returncode:
            errors.seek(0)
            raise CannotRun(
                f"{BASE_BACKUP} failed: {tail(errors.read())}. The role needs REPLICATION, and pg_hba.conf a line for "
                "`replication`"
            )
    return last


def _one(connection: psycopg.Connection, query: LiteralString, *parameters: str) -> Any:
    row = connection.execute(query, parameters).fetchone()
    return None if row is None else row[0]


def _options(owner_url: str) -> str | None:
    options = conninfo_to_dict(owner_url).get("options")
    return None if options is None else str(options)
