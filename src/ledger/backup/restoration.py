"""Restores a backup into a new data directory, and verifies it before a service can start on it.

Give the cluster its final name last: until then a start on the directory finds none.
"""

from __future__ import annotations

import asyncio
import hmac
import os
import shutil
from datetime import datetime
from pathlib import Path
from typing import Final

import psycopg
from msgspec import Struct, structs
from psycopg.conninfo import make_conninfo

from ledger.audit.auditor import audit
from ledger.audit.report import Report
from ledger.background.reactions import numbering
from ledger.backup.manifest import check_backup
from ledger.backup.programs import SERVER, find_programs
from ledger.backup.record import CHECKPOINTS, CLUSTER, FILES, BackupRecord, read_record
from ledger.backup.recovery import recovered
from ledger.journal.operator import Operator
from ledger.journal.operator_commands import record_command
from ledger.operations.context import order_numbers
from ledger.postgres.embedded.account import Account, server_account
from ledger.postgres.embedded.archiving import require_access
from ledger.postgres.embedded.cluster import MAJOR, Cluster, locate_cluster
from ledger.postgres.embedded.data_dir import make_data_dir
from ledger.postgres.embedded.wal_store import is_store
from ledger.postgres.migrate import migrate
from ledger.progress import Progress, unreported
from ledger.security.secrets import generates_master_key, load_secrets, master_key_source
from ledger.settings import CannotRun, Settings, SettingWrong

_UNFINISHED: Final = "restoring"

# The role that reads the numbers of saved cards, which the owner of their table may not.
_VAULT_ROLE: Final = """
select r.rolname
  from pg_class c, aclexplode(c.relacl) a join pg_roles r on r.oid = a.grantee
 where c.oid = to_regclass('vault_card') and a.privilege_type = 'SELECT' and r.rolcanlogin
 order by r.rolname limit 1
"""


class Restored(Struct, frozen=True):
    """A restored installation: its cluster, the time of its last commit, and what its audit found."""

    record: BackupRecord
    cluster: Path
    last_commit: datetime | None
    audit: Report


def restore(
    settings: Settings,
    backup: Path,
    at: datetime | None,
    progress: Progress = unreported,
    operator: Operator | None = None,
) -> Restored:
    """Restores a backup into the data directory of the settings, up to a moment or to the end of the log.

    The restored database has a record of the command of an `operator`.

    Raises CannotRun: no complete backup, a damaged file, the wrong master key, an archive that cannot be read, a
    directory in use, or a log that does not reach the moment.
    """
    record = read_record(backup)
    _require_key(settings, record)
    _require_moment(settings, record, at)
    if settings.wal_archive and not is_store(settings.wal_archive):
        require_access(Path(settings.wal_archive).absolute(), server_account(), "read", "ls . >/dev/null")
    programs = find_programs(record.postgres, SERVER)
    progress("checking every file", 0, None)
    check_backup(backup / CLUSTER, record.postgres)
    final = _new_cluster(settings, programs, record)
    unfinished = structs.replace(final, home=final.home / _UNFINISHED)
    _copy(backup / CLUSTER, unfinished, progress)
    if (backup / FILES).exists():  # before the audit, which reads archived events in them
        shutil.copytree(backup / FILES, settings.data_dir / FILES, dirs_exist_ok=True)
    progress("recovering from the write-ahead log", 0, None)
    try:
        with recovered(unfinished, record, settings.wal_archive, at) as url:
            last_commit = _complete(url)
            if operator is not None:
                asyncio.run(record_command(url, operator, str(backup)))
            report = audit(structs.replace(settings, database_vault_url=_vault_url(url)), url, progress=progress)
    except CannotRun:  # as for a moment after the log's end: the next try copies the backup again
        shutil.rmtree(unfinished.home, ignore_errors=True)
        raise
    if (backup / CHECKPOINTS).exists():  # beside newer ones, which show what the restored database lacks
        shutil.copytree(backup / CHECKPOINTS, settings.data_dir / CHECKPOINTS, dirs_exist_ok=True)
    unfinished.directory.rename(final.directory)
    unfinished.home.rmdir()
    return Restored(record, final.directory, last_commit, report)


def _require_key(settings: Settings, record: BackupRecord) -> None:
    needed = f"the backup needs the master key with the fingerprint {record.master_key_fingerprint}"
    if generates_master_key(settings):
        raise CannotRun(f"{needed}: set LEDGER_MASTER_KEY or LEDGER_MASTER_KEY_FILE to it; the backup does not hold it")
    fingerprint = load_secrets(settings).fingerprint
    if not hmac.compare_digest(fingerprint, record.master_key_fingerprint):
        raise SettingWrong(master_key_source(settings), f"is the wrong master key: {needed}, not {fingerprint}")


def _require_moment(settings: Settings, record: BackupRecord, at: datetime | None) -> None:
    if at is None:
        return
    if not settings.wal_archive:
        raise CannotRun("--at needs LEDGER_WAL_ARCHIVE, where the archived write-ahead log is")
    if at < record.complete_until:
        end = record.complete_until.isoformat()
        raise CannotRun(f"{at.isoformat()} is before the end of the backup ({end}): restore an earlier backup")


def _new_cluster(settings: Settings, programs: Path, record: BackupRecord) -> Cluster:
    """Returns the place of the restored cluster. Removes the files of an interrupted restore."""
    located = locate_cluster(make_data_dir(settings.data_dir))
    if located.directory.exists():
        raise CannotRun(f"{settings.data_dir} already has a database: name a new directory with --data-dir")
    shutil.rmtree(located.home / _UNFINISHED, ignore_errors=True)
    (located.home / _UNFINISHED).mkdir(mode=0o711)
    (located.home / _UNFINISHED).chmod(0o711)  # whatever the umask is: the server's account enters it
    return located if record.postgres == MAJOR else structs.replace(located, binaries=programs)


def _copy(backup: Path, to: Cluster, progress: Progress) -> None:
    total = sum(file.stat().st_size for file in backup.rglob("*") if file.is_file())
    done = 0

    def copy(source: str, target: str) -> None:
        nonlocal done
        shutil.copy2(source, target)
        done += Path(target).stat().st_size
        progress("copying the database", done, total)

    shutil.copytree(backup, to.directory, symlinks=True, copy_function=copy)
    _give(to.directory, to.account)


def _give(directory: Path, account: Account | None) -> None:
    """Gives the copy to the server's account, which cannot reach it before: its parent is this user's."""
    if account is None:
        return
    for path in (directory, *directory.rglob("*")):
        os.chown(path, account.uid, account.gid, follow_symlinks=False)


def _vault_url(url: str) -> str | None:
    """Returns the connection string of the vault's role, None if no role was given the vault: it is empty then."""
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(_VAULT_ROLE).fetchone()
    return None if row is None else make_conninfo(url, user=row[0])


def _complete(url: str) -> datetime | None:
    """Brings the schema up to date and moves the numbers of orders and of events on.

    Returns the time of the last recovered commit.
    """
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute("select pg_last_xact_replay_timestamp()").fetchone()
        migrate(url)
        order_numbers.move_on(connection)
        numbering.move_on(connection)
    return row[0] if row is not None else None
