"""Archives the WAL of the embedded server into the folder of LEDGER_WAL_ARCHIVE, for a restore up to a moment."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ledger.postgres.embedded.account import Account, run_as, server_account
from ledger.postgres.embedded.ownership import own_directory
from ledger.settings import CannotRun, Settings

TIMEOUT_S: Final = 60
"""How old a commit becomes at most before its segment is archived, where little is written."""

# A segment appears complete and is on disk before Postgres drops its own. One that is there already must be the same.
_ARCHIVE: Final = (
    'if test -e {to}/%f; then test "$(cksum < %p)" = "$(cksum < {to}/%f)"; else '
    "dd if=%p of={to}/%f.part bs=1M conv=fsync 2>/dev/null && mv {to}/%f.part {to}/%f && sync {to}; fi"
)
_FETCH: Final = "cp {to}/%f %p"


def archive_settings(settings: Settings) -> Mapping[str, str]:
    """Returns the server's settings that archive its WAL; none where LEDGER_WAL_ARCHIVE is unset.

    Creates the folder. Raises CannotRun where the server's account cannot write there.
    """
    if settings.wal_archive is None:
        return {}
    folder, account = settings.wal_archive.absolute(), server_account()
    if not folder.exists():
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
        except OSError as refusal:
            raise CannotRun(f"LEDGER_WAL_ARCHIVE {folder} cannot be made: {refusal.strerror}") from refusal
        own_directory(folder, account)
    require_access(folder, account, "written", "test -d . && test -w .")
    command = _ARCHIVE.format(to=_quoted(folder))
    return {"archive_mode": "on", "archive_command": command, "archive_timeout": f"{TIMEOUT_S}s"}


def fetch_command(archive: Path) -> str:
    """Returns the `restore_command` that takes segments from the folder."""
    return _FETCH.format(to=_quoted(archive.absolute()))


def require_access(folder: Path, account: Account | None, what: str, test: str) -> None:
    """Raises CannotRun unless the shell's test succeeds in the folder as the server's account."""
    if run_as(account, "/bin/sh", "-c", f'cd "$0" && {test}', folder).returncode:
        raise CannotRun(f"LEDGER_WAL_ARCHIVE {folder} cannot be {what} by {account or 'this user'}")


def _quoted(folder: Path) -> str:
    """Returns a path for a command in which Postgres replaces `%`."""
    return shlex.quote(str(folder)).replace("%", "%%")
