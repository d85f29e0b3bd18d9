"""The owner of the embedded server's files: the account that the server runs as. An earlier release or another machine
may have given them to another account; `take_over` gives them to this one.

Call `take_over` only while no server runs on the files. Postgres does not notice a server that another account runs: it
looks for that server's shared memory, and only that account can see it.
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
    """Creates a directory that only the account may enter, or checks the owner of one that exists.

    A directory of `former` stays as it is: `former_owner` returned that user, and `take_over` changes the owner later.
    Raises ClusterUnusable if the path is a link, or belongs to any further user.
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
            remedy = f"it must be a directory of user {uid}: change its owner, or name another data directory"
            raise ClusterUnusable(f"{path} {found}; {remedy}") from None
        if account and owner.st_uid == os.geteuid():  # a process ended between mkdir and chown
            os.chown(path, account.uid, account.gid)


def former_owner(cluster: Path, account: Account | None) -> int | None:
    """Returns the owner of a cluster that the account may take over, or None if there is nothing to take over.

    The account may take over a cluster of `nobody`, the account of earlier releases. It may also take over a cluster of
    any owner if only root can write to the directory above it: the same account has another user id after a restore on
    another machine, or in another container.
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
    """Gives the account the files of the cluster's former owner, and reports that on standard error.

    The directory of the cluster changes its owner last. If the start is killed before that, the next one does the rest.
    """
    former = former_owner(cluster, account)
    if former is None or account is None:
        return
    for directory in (sockets, cluster):
        change_owner(directory, former, account)
    sys.stderr.write(f"ledger: Postgres runs as {account} now; its files belonged to {name_of(former) or former}\n")


def change_owner(directory: Path, former: int, account: Account) -> None:
    """Gives the account every directory and file of `former` below this directory, and this directory last.

    Opens each of them before it looks at the owner, and follows no link: the former owner cannot put another file in
    its place between the check and the change.
    """
    for _, _, files, folder in os.fwalk(directory.resolve(), topdown=False):
        for file in files:
            with suppress(OSError):  # a link or a socket
                _change(os.open(file, _READ, dir_fd=folder), former, account)
        _change(os.dup(folder), former, account)


def process_in(directory: Path) -> int:
    """Returns the id of a Postgres process whose working directory this is, or 0 if there is none or no `/proc`.

    Every process of a server has the directory of its cluster as working directory.
    """
    found = str(directory.resolve())
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended
            if str((process / "cwd").readlink()) == found and (process / "comm").read_text().strip() == "postgres":
                return int(process.name)
    return 0


def _change(descriptor: int, former: int, account: Account) -> None:
    """Gives the file of a descriptor to the account if the former owner has it, and closes the descriptor."""
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
