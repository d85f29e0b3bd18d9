"""Archives the WAL of the embedded server in the folder or the object store that LEDGER_WAL_ARCHIVE names.

A store is reached by `wal_uploader`. The server hands segments over to it in a directory, the spool.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ledger.postgres.embedded.account import Account, run_as, server_account
from ledger.postgres.embedded.cluster import system_state
from ledger.postgres.embedded.ownership import own_directory
from ledger.postgres.embedded.wal_store import is_store
from ledger.settings import CannotRun, Settings

TIMEOUT_S: Final = 60
"""The greatest age of a commit whose segment is not archived yet, if little is written."""

STORE: Final = "ledger.wal_archive"
SPOOL: Final = "ledger.wal_spool"
"""The server's settings that name the store and the spool: the uploader is started with them."""

# A segment appears complete and is on disk before Postgres drops its own. One that is there already must be the same.
_ARCHIVE: Final = (
    'if test -e {to}/%f; then test "$(cksum < %p)" = "$(cksum < {to}/%f)"; else '
    "dd if=%p of={to}/%f.part bs=1M conv=fsync 2>/dev/null && mv {to}/%f.part {to}/%f && sync {to}; fi"
)
_FETCH: Final = "cp {to}/%f %p"

# Hands a segment over, and waits 70 s for the answer: longer than the uploader tries. Postgres repeats what failed.
_HAND_OVER: Final = (
    "rm -f {to}/%f.done {to}/%f.refused; dd if=%p of={to}/%f.part bs=1M 2>/dev/null && mv {to}/%f.part {to}/%f || exit 1; "
    "i=0; while test $i -lt 700; do if test -e {to}/%f.done; then rm {to}/%f.done; exit 0; fi; "
    "if test -e {to}/%f.refused; then cat {to}/%f.refused >&2; rm {to}/%f.refused; exit 1; fi; "
    "sleep 0.1; i=$((i+1)); done; echo the uploader of LEDGER_WAL_ARCHIVE does not answer >&2; exit 1"
)


def archive_settings(settings: Settings) -> Mapping[str, str]:
    """Returns the server's settings that archive its WAL; none if LEDGER_WAL_ARCHIVE is unset.

    Creates the folder or the spool. Raises CannotRun if the server's account cannot write there.
    """
    if not settings.wal_archive:
        return {}
    account = server_account()
    archiving = {"archive_mode": "on", "archive_timeout": f"{TIMEOUT_S}s"}
    if is_store(settings.wal_archive):
        spool = _spool(settings.data_dir.absolute(), account)
        command = _HAND_OVER.format(to=quoted(spool))
        return {**archiving, "archive_command": command, STORE: settings.wal_archive, SPOOL: str(spool)}
    folder = Path(settings.wal_archive).absolute()
    if not folder.exists():
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
        except OSError as refusal:
            raise CannotRun(f"LEDGER_WAL_ARCHIVE {folder} cannot be made: {refusal.strerror}") from refusal
        own_directory(folder, account)
    require_access(folder, account, "written", "test -d . && test -w .")
    return {**archiving, "archive_command": _ARCHIVE.format(to=quoted(folder))}


def clear_spool(settings: Mapping[str, str]) -> None:
    """Removes answers of an earlier server, before another starts. It hands over again what it has no answer for."""
    if SPOOL in settings:
        for file in Path(settings[SPOOL]).iterdir():
            file.unlink(missing_ok=True)


def start_uploader(settings: Mapping[str, str], cluster: Path) -> subprocess.Popen[bytes] | None:
    """Starts the process that stores the segments of a server with these settings; None if there is no store."""
    if STORE not in settings:
        return None
    program = [sys.executable, "-P", "-m", "ledger.postgres.embedded.wal_uploader"]
    return subprocess.Popen(
        [*program, settings[STORE], settings[SPOOL], cluster],
        stdin=subprocess.PIPE,
        stdout=sys.stderr.fileno(),
        start_new_session=True,  # the terminal's Ctrl-C must not end it before the server
    )


def fetch_command(archive: Path) -> str:
    """Returns the `restore_command` that takes segments from the folder."""
    return _FETCH.format(to=quoted(archive.absolute()))


def require_access(folder: Path, account: Account | None, what: str, test: str) -> None:
    """Raises CannotRun unless the shell's test succeeds in the folder as the server's account."""
    if run_as(account, "/bin/sh", "-c", f'cd "$0" && {test}', folder).returncode:
        who = account or "this user"
        raise CannotRun(f"LEDGER_WAL_ARCHIVE {folder} cannot be {what} by {who}: it has to be a folder of that account")


def quoted(folder: Path) -> str:
    """Returns a path for a command in which Postgres replaces `%`."""
    return shlex.quote(str(folder)).replace("%", "%%")


def _spool(data_dir: Path, account: Account | None) -> Path:
    """Returns the directory of the spool, which the server's account owns, even if it cannot enter `data_dir`."""
    digest = hashlib.sha256(os.fsencode(data_dir)).hexdigest()[:12]
    spool = data_dir / "wal-spool" if account is None else system_state() / f"wal-spool-{digest}"
    own_directory(spool, account)
    return spool
