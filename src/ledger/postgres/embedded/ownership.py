"""The owner of the embedded server's files: the account that it runs as, which takes over the files of an earlier one.

Take files over only while no process of the earlier account's server runs. Postgres itself recognises such processes by
a shared memory segment, which it cannot see under another account.
"""

from __future__ import annotations

import os
import pwd
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

from ledger.postgres.embedded.account import FORMER_NAME, Account, ClusterUnusable, name_of

_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK


def own_directory(path: Path, account: Account | None, former: int | None = None) -> None:
    """Creates a directory that only the account may enter, or checks the owner of the one that exists.

    A directory of `former`, the owner that `former_owner` returns, is left to `take_over`. Raises ClusterUnusable if
    another user owns it.
    """
    uid = account.uid if account else os.geteuid()
    try:
        path.mkdir(mode=0o700)
        if account:
            os.chown(path, account.uid, account.gid)
    except FileExistsError:
        owner = path.lstat()
        if path.is_symlink() or owner.st_uid not in {uid, former, os.geteuid()}:
            found = "is a link" if path.is_symlink() else f"belongs to user {owner.st_uid}"
            raise ClusterUnusable(f"{path} {found}; it must be a directory of user {uid}") from None
        if account and owner.st_uid == os.geteuid():  # a process ended between mkdir and chown
            os.chown(path, account.uid, account.gid)


def former_owner(cluster: Path, account: Account | None) -> int | None:
    """Returns the owner of a cluster that the account may take over, or None if there is nothing to take over.

    That is a cluster of `nobody`, the account of earlier releases, and each one in a directory where only root writes:
    an account can have another number after a restore or in another container.
    """
    if account is None or not cluster.exists():
        return None
    owner, parent = cluster.stat().st_uid, cluster.resolve().parent.stat()
    if owner == account.uid:
        return None
    if owner == _former_account() or (parent.st_uid == 0 and not parent.st_mode & 0o022):
        return owner
    return None


def take_over(cluster: Path, sockets: Path, account: Account | None) -> None:
    """Gives the account the files of the cluster's former owner, and reports it on standard error.

    The cluster itself changes its owner last, so that a start that was killed meanwhile is repeated.
    """
    former = former_owner(cluster, account)
    if former is None or account is None:
        return
    for directory in (sockets, cluster):
        change_owner(directory, former, account)
    sys.stderr.write(f"ledger: Postgres runs as {account} now; its files belonged to {name_of(former) or former}\n")


def change_owner(directory: Path, former: int, account: Account) -> None:
    """Gives the account every directory and file of `former` below this directory, and this directory last.

    It changes what it has opened, links excepted: the former owner cannot exchange a file after the check.
    """
    for _, _, files, folder in os.fwalk(directory.resolve(), topdown=False):
        for file in files:
            with suppress(OSError):  # a link or a socket
                _change(os.open(file, _READ, dir_fd=folder), former, account)
        _change(os.dup(folder), former, account)


def process_in(directory: Path) -> int:
    """Returns the id of a process whose working directory this is, as it is for all of a server; 0 without `/proc`."""
    found = str(directory.resolve())
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended
            if str((process / "cwd").readlink()) == found and (process / "comm").read_text().strip() == "postgres":
                return int(process.name)
    return 0


def _change(descriptor: int, former: int, account: Account) -> None:
    """Closes the descriptor, and before that gives its file to the account if it is the former owner's."""
    try:
        if os.fstat(descriptor).st_uid == former:
            os.fchown(descriptor, account.uid, account.gid)
    finally:
        os.close(descriptor)


def _former_account() -> int | None:
    try:
        return pwd.getpwnam(FORMER_NAME).pw_uid
    except KeyError:
        return None
