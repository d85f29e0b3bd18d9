"""Which users of the operating system may connect to the embedded server: the rules that its cluster has on disk.

The kernel names the user at the other end of the socket (peer authentication). The map allows root, the user that
starts the server, and the server's account; each of them as any role.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from ledger.postgres.embedded.account import Account, ClusterUnusable, name_of

_HEAD: Final = "# The ledger writes this file at each start of the server.\n"
_RULES: Final = f"{_HEAD}local all all peer map=ledger\nlocal replication all peer map=ledger\n"


def authentication_settings(cluster: Path) -> dict[str, str]:
    """Returns the server's settings of these files, which no file of the cluster overrides."""
    return {"hba_file": str(cluster / "pg_hba.conf"), "ident_file": str(cluster / "pg_ident.conf")}


def write_authentication(cluster: Path, account: Account | None) -> None:
    """Writes the rules into the cluster if they differ: earlier releases trusted all that reached the socket.

    Raises ClusterUnusable if this user has no name, or if the files cannot be written.
    """
    users = "".join(f'ledger "{_quoted(name)}" all\n' for name in _users(account))
    try:
        folder = os.open(cluster, os.O_RDONLY | os.O_DIRECTORY)
        try:
            _replace(folder, "pg_hba.conf", _RULES.encode(), account)
            _replace(folder, "pg_ident.conf", (_HEAD + users).encode(), account)
        finally:
            os.close(folder)
    except OSError as refusal:
        reason = f"the authentication files in {cluster} cannot be written: {refusal.strerror}"
        raise ClusterUnusable(reason) from refusal


def _users(account: Account | None) -> list[str]:
    this = name_of(os.geteuid())
    if this is None:
        raise ClusterUnusable(
            f"user {os.geteuid()} has no name, by which Postgres recognises it: add an account for it"
        )
    others = (name_of(0), account.name if account else None)
    return sorted({this, *(name for name in others if name is not None)})


def _quoted(name: str) -> str:
    return name.replace('"', '""')


def _replace(folder: int, name: str, content: bytes, account: Account | None) -> None:
    """Replaces a file by a rename, without following a link: the folder belongs to the server's account."""
    if _content(folder, name) == content:
        return
    unfinished = f"{name}.new"
    with suppress(FileNotFoundError):
        os.unlink(unfinished, dir_fd=folder)
    with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=folder), "wb") as file:
        if account:
            os.fchown(file.fileno(), account.uid, account.gid)
        file.write(content)
    os.rename(unfinished, name, src_dir_fd=folder, dst_dir_fd=folder)


def _content(folder: int, name: str) -> bytes | None:
    try:
        with os.fdopen(os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder), "rb") as file:
            return file.read()
    except OSError:
        return None
