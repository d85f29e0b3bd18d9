"""The account that the embedded Postgres runs as, and the environment of its processes.

Pass Postgres only the variables that `environment` returns. The service's other variables hold the master key, the
processors' keys and the token of the metrics. Every process of an account can read the variables of that account's
processes in `/proc`.
"""

from __future__ import annotations

import fcntl
import grp
import os
import pwd
import shutil
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from ledger.settings import CannotRun

NAME: Final = "payment-ledger"
FORMER_NAME: Final = "nobody"
"""The account that earlier releases used. Other services of the machine use it too."""
_NUMBERS: Final = range(60_706, 61_184)
"""User ids for which systemd's document UIDS-GIDS names no use. The server's group has the same id."""
_PROGRAMS: Final = "/usr/sbin:/sbin:/usr/bin:/bin"
_LOCK: Final = Path("/run/payment-ledger.lock")
"""Only root can open this file: no other user can hold its lock and so delay a start."""
_CREATE_TIMEOUT_S: Final = 60.0
"""`useradd` itself waits up to 15 seconds for another process that changes the accounts."""
_NO_ACCOUNT: Final = (
    f"Postgres refuses to run as root, and the account `{NAME}` could not be added: add it, or start the service as "
    "another user than root"
)
_KEPT: Final = frozenset({"PATH", "TZ", "LANG", "LANGUAGE", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"})


class ClusterUnusable(CannotRun):
    """The embedded Postgres cannot use this directory or machine. The message has the reason in one line."""


class Account(Struct, frozen=True):
    """The unprivileged account that the server runs as if root starts the service: Postgres refuses to run as root.

    `name` is None if the user id `uid` belongs to no account of the system.
    """

    name: str | None
    uid: int
    gid: int

    def __str__(self) -> str:
        return self.name or f"user {self.uid}"


def server_account(name: str = NAME) -> Account | None:
    """Returns the account of the server, created if needed, or None if this process does not run as root.

    If the system can add no account (no `useradd`, or `/etc` is read-only), the server runs under a user id that no
    account has. Raises ClusterUnusable if another account has the same id, and if no id is free.
    """
    if os.geteuid() != 0:
        return None
    return _named(name) or _created(name) or _unnamed()


def initdb_account(account: Account | None) -> Account | None:
    """Returns the account for initdb: the server's, or `nobody` in the server's group if the server's has no name.

    initdb refuses to run under a user id without a name. No other process is in the server's group. The group keeps the
    other processes of `nobody` out of the directory, and the kernel gives them no access to the process of initdb.
    Raises ClusterUnusable if the system has no `nobody`.
    """
    if account is None or account.name is not None:
        return account
    former = _named(FORMER_NAME)
    if former is None:
        raise ClusterUnusable(_NO_ACCOUNT)
    return Account(name=former.name, uid=former.uid, gid=account.gid)


def environment() -> dict[str, str]:
    """Returns the variables that Postgres needs: the locale, the time zone, and where programs and libraries are."""
    return {name: value for name, value in os.environ.items() if name in _KEPT or name.startswith("LC_")}


def as_account(account: Account | None) -> dict[str, Any]:
    """Returns the arguments by which `subprocess` runs a program as an account, in a directory that it may enter."""
    arguments: dict[str, Any] = {"cwd": "/", "env": environment()}
    if account is not None:
        arguments |= {"user": account.uid, "group": account.gid, "extra_groups": []}
    return arguments


def run_as(account: Account | None, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Runs a program as an account until it ends. Returns its status and what it wrote."""
    return subprocess.run(arguments, **as_account(account), capture_output=True, text=True, check=False)


def name_of(uid: int) -> str | None:
    """Returns the name of a user id, or None if no account has it."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return None


def _named(name: str) -> Account | None:
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        return None
    if entry.pw_uid == 0 or name_of(entry.pw_uid) != name:
        raise ClusterUnusable(
            f"the account `{name}` has the user id {entry.pw_uid} of `{name_of(entry.pw_uid)}`: give it one of its own"
        )
    return Account(name=name, uid=entry.pw_uid, gid=entry.pw_gid)


def _created(name: str) -> Account | None:
    """Creates the account, or waits for another start that creates it. Returns None if the system cannot add it.

    `useradd` looks for the name first and locks the list of accounts afterwards. The lock of this function keeps two of
    them from running at once: both would find no account, and the second would replace the account of the first.
    """
    try:
        lock = os.open(_LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if _named(name) is None:
            _create(name)
        return _named(name)
    finally:
        os.close(lock)


def _create(name: str) -> None:
    """Adds a system account that has no home and no shell: by `useradd`, or by the two programs of busybox."""
    shell = shutil.which("nologin", path=_PROGRAMS) or "/bin/false"
    home = "/nonexistent"
    if useradd := shutil.which("useradd", path=_PROGRAMS):
        made = _changes_accounts(
            useradd, "--system", "--user-group", "--no-create-home", "--home-dir", home, "--shell", shell, name
        )
        if made:
            return
    addgroup, adduser = (shutil.which(program, path=_PROGRAMS) for program in ("addgroup", "adduser"))
    if addgroup and adduser and Path(adduser).resolve().name == "busybox":
        _changes_accounts(addgroup, "-S", name)
        _changes_accounts(adduser, "-S", "-D", "-H", "-h", home, "-s", shell, "-G", name, name)


def _changes_accounts(*arguments: str) -> bool:
    """Runs a program that changes the system's accounts. Returns whether it succeeded."""
    with suppress(OSError, subprocess.TimeoutExpired):
        run = subprocess.run(
            arguments, cwd="/", env=environment(), capture_output=True, check=False, timeout=_CREATE_TIMEOUT_S
        )
        return run.returncode == 0
    return False


def _unnamed() -> Account:
    """Returns the first id of `_NUMBERS` that no account and no group has. It is the same at each start."""
    number = next(
        (number for number in _NUMBERS if not _exists(pwd.getpwuid, number) and not _exists(grp.getgrgid, number)), None
    )
    if number is None:
        raise ClusterUnusable(_NO_ACCOUNT)
    return Account(name=None, uid=number, gid=number)


def _exists(find: Callable[[int], object], number: int) -> bool:
    try:
        find(number)
    except KeyError:
        return False
    return True
