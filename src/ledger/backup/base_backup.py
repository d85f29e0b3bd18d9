"""Takes a base backup with its WAL while the service runs, and checks every file of it.

Write the record last: a backup that was interrupted has none. It has the file `unfinished` instead, by which the next
backup under its name recognises what it may remove.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, LiteralString
from uuid import UUID, uuid4

import psycopg
from msgspec import Struct
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from ledger.backup.manifest import check_backup
from ledger.backup.programs import BASE_BACKUP, find_programs, tail
from ledger.backup.record import CHECKPOINTS, CLUSTER, FILES, BackupRecord, is_complete, write_record
from ledger.journal.event_archive import file_key
from ledger.postgres.embedded.cluster import has_cluster
from ledger.progress import Progress, unreported
from ledger.security.secrets import generates_master_key, load_secrets
from ledger.settings import CannotRun, Settings
from ledger.tlog.checkpoint_files import checkpoints_address

_POLL_S: Final = 0.02
_UNFINISHED: Final = "unfinished"
"""The file in a backup that is being written. Its process holds a lock of it."""

# The server, and the fingerprint of its master key if it is recorded.
_SERVER: Final = """
select current_setting('server_version_num')::int / 10000, current_database(), current_user,
       to_regclass('master_key_fingerprint') is not null
"""
_HAS_ARCHIVED: Final = "select to_regclass('archived_file') is not null"
# The files of archived events, with what they have.
_ARCHIVED: Final = "select merchant_id, file_id, sha256 from archived_file order by merchant_id, file_id"
_FINGERPRINT: Final = "select fingerprint from master_key_fingerprint"

# The time, while a base backup still has files to send: the WAL up to its end is in it, so every earlier commit too.
# With it the bytes that are sent, and how many there are: null until the server has counted them.
_BEFORE_ITS_END: Final = """
select statement_timestamp(), backup_streamed, backup_total
  from pg_stat_progress_basebackup join pg_stat_activity using (pid)
 where application_name = %s and phase in (
   'initializing', 'waiting for checkpoint to finish', 'estimating backup size', 'streaming database files')
"""


class Taken(Struct, frozen=True, kw_only=True):
    """A backup that was taken: its record, how many files of archived events the database needs, and what is wrong with
    those that should be in it.
    """

    record: BackupRecord
    archived: int
    lost: Sequence[str]


def require_database(settings: Settings) -> None:
    """Raises CannotRun if the data directory has no database yet: to open it would make an empty one."""
    data_dir = settings.data_dir
    if settings.database_url is None and not has_cluster(data_dir):
        raise CannotRun(f"{data_dir} has no database to back up: name the service's data directory with --data-dir")


def take_backup(settings: Settings, owner_url: str, directory: Path, progress: Progress = unreported) -> Taken:
    """Writes a backup into a new directory, or into one that has an interrupted backup.

    A backup that fails leaves nothing. Raises CannotRun: the directory is in use, a program of Postgres is missing or
    fails, or a file is not as it was sent.
    """
    with _claimed(directory):
        return _take(settings, owner_url, directory, progress)


def _take(settings: Settings, owner_url: str, directory: Path, progress: Progress) -> Taken:
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
        archived = connection.execute(_ARCHIVED).fetchall() if _one(connection, _HAS_ARCHIVED) else []
    progress("checking every file", 0, None)
    check_backup(directory / CLUSTER, str(major))
    documents = settings.data_dir / FILES
    if not settings.files_url and documents.exists():  # after the database: a document is stored before its event
        shutil.copytree(documents, directory / FILES)
    lost = [] if settings.files_url else [fault for each in archived if (fault := _fault(directory / FILES, *each))]
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
    return Taken(record=record, archived=len(archived), lost=lost)


@contextmanager
def _claimed(directory: Path) -> Iterator[None]:
    """Holds a directory for the backup that its block writes, and removes what a block that raises has written.

    Raises CannotRun if the directory has anything else than an interrupted backup.
    """
    marker = directory / _UNFINISHED
    try:
        is_new = not directory.exists()
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = {path.name for path in directory.iterdir()}
        is_interrupted = _UNFINISHED in found and not is_complete(directory)
        lock = os.open(marker, os.O_RDWR | os.O_CREAT, 0o600) if is_interrupted or not found else None
    except OSError as refusal:
        raise CannotRun(f"{directory} cannot be made: {refusal.strerror}") from refusal
    if lock is None:
        raise CannotRun(f"{directory} is not empty: name a new directory for the backup")
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CannotRun(f"another backup is written to {directory}: name a new directory for this one") from None
        if is_complete(directory):  # by now
            raise CannotRun(f"{directory} is not empty: name a new directory for the backup")
        _clear(directory)
        try:
            yield
        except BaseException:
            _clear(directory)
            marker.unlink(missing_ok=True)
            if is_new:
                with suppress(OSError):  # a person has put something there
                    directory.rmdir()
            raise
        marker.unlink(missing_ok=True)
    finally:
        os.close(lock)


def _clear(directory: Path) -> None:
    """Removes what an interrupted backup has written."""
    for path in (directory / part for part in (CLUSTER, FILES, CHECKPOINTS)):
        shutil.rmtree(path, ignore_errors=True)


def _fault(files: Path, merchant_id: UUID, id_: bytes, digest: bytes) -> str:
    """Returns what is wrong with a copied file of archived events, empty if nothing is."""
    key = file_key(merchant_id.bytes, id_)
    try:
        content = (files / key).read_bytes()
    except OSError as refusal:
        return f"{key} cannot be read: {refusal.strerror}"
    return "" if sha256(content).digest() == digest else f"{key} is another file than was written"


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
