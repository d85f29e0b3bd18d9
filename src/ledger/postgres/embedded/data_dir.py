"""A data directory, whose Postgres may be started by one service, or by a command while no service runs.

Decide to start a server only under a lock of the directory. The locks are the kernel's (`flock`), which end with their
process, however it ends.

The service that keeps the server holds `serve.lock`. The process that is starting a server holds `start.lock`. Running
commands share `users.lock`, so that the command that started a server stops it only after the others are done.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from ledger.postgres.embedded.account import name_of
from ledger.postgres.embedded.cluster import Cluster, open_cluster
from ledger.postgres.embedded.server import EmbeddedServer, PostgresFailed, is_running, start, url_of
from ledger.settings import CannotRun
from ledger.telemetry.slow_waits import REPORT_AFTER_S, Report, report_to_person, reported_if_slow

_JOIN_TIMEOUT_S: Final = 60.0
_POLL_S: Final = 0.02


class DataDirInUse(CannotRun):
    """Another service keeps this data directory. The message names its process."""


def make_data_dir(data_dir: Path) -> Path:
    """Creates the data directory if needed, open to the server's account as root, and returns its absolute path.

    Raises CannotRun if that fails, and if another account uses the directory: a lock that this one makes there
    would keep that one out.
    """
    path = data_dir.absolute()
    try:
        path.mkdir(mode=0o711 if os.geteuid() == 0 else 0o700, parents=True, exist_ok=True)
    except OSError as refusal:
        raise CannotRun(f"LEDGER_DATA_DIR {path} cannot be made: {refusal.strerror}") from refusal
    if not os.access(path, os.W_OK | os.X_OK):
        if (owner := path.stat().st_uid) != os.geteuid():
            raise CannotRun(f"LEDGER_DATA_DIR {path} belongs to {_account(owner)}: run this as that account")
        raise CannotRun(f"LEDGER_DATA_DIR {path} cannot be written")
    with suppress(FileNotFoundError):
        owner = (path / "serve.lock").stat().st_uid
        if owner != os.geteuid():
            raise CannotRun(f"LEDGER_DATA_DIR {path} is used by {_account(owner)}: run this as that account")
    return path


def _account(uid: int) -> str:
    return f"the account {name_of(uid) or f'number {uid}'}"


class ServerLease:
    """The Postgres of a service: this process keeps it, or uses the one that another service keeps.

    Call `tick` regularly: it restarts a server that has ended, and takes over when the service that kept it has ended.
    """

    def __init__(
        self,
        data_dir: Path,
        name: str,
        *,
        stopping: Callable[[], bool] = lambda: False,
        server_settings: Mapping[str, str] | None = None,
        report: Report = report_to_person,
    ) -> None:
        self._data_dir = make_data_dir(data_dir)
        self._name = name
        self._stopping = stopping
        self._server_settings = server_settings
        self._server: EmbeddedServer | None = None
        self._lock: int | None = None
        self._report = report
        with _locked(self._data_dir / "start.lock", report):
            self._lock = _take_serve_lock(self._data_dir, name)
            self.cluster: Cluster = open_cluster(self._data_dir)

    @property
    def keeps(self) -> bool:
        """Whether this process keeps the server."""
        return self._lock is not None

    @property
    def url(self) -> str:
        return url_of(self.cluster)

    @property
    def _waits_for(self) -> str:
        if self._server is not None:
            return self._server.waits_for
        return f"the Postgres of {_holder(self._data_dir)} on {self._data_dir}"

    def refuse_to_share(self) -> None:
        """Raises DataDirInUse if another service keeps the directory."""
        if not self.keeps:
            raise DataDirInUse(f"{_holder(self._data_dir)} already runs on {self._data_dir}")

    def wait(self) -> None:
        """Returns when the server answers. Raises as `tick` does, and KeyboardInterrupt when the process must stop."""
        with reported_if_slow(self._report, lambda: self._waits_for):
            while not self.keeps and not self.tick():
                self._pause()
            if self.keeps:
                with _locked(self._data_dir / "start.lock", self._report):
                    while not self.tick():
                        self._pause()

    def tick(self) -> bool:
        """Returns whether the server answers, and restarts it if this process keeps it. Raises PostgresFailed."""
        if self._server is None:
            if self._lock is None:
                self._lock = _take_serve_lock(self._data_dir, self._name)
            if self._lock is None:
                return is_running(self.cluster)
            self._server = EmbeddedServer(self.cluster, self._server_settings)
        return self._server.tick()

    def _pause(self) -> None:
        if self._stopping():
            raise KeyboardInterrupt
        time.sleep(_POLL_S)

    def stop(self, patience_s: float, *, at_once: bool = False) -> None:
        """Stops the server if this process keeps it, as `EmbeddedServer.stop` does, and releases the directory."""
        if self._server is not None:
            self._server.stop(patience_s, at_once=at_once)
        if self._lock is not None:
            os.close(self._lock)
        self._server = self._lock = None


@contextmanager
def database(
    database_url: str | None, data_dir: Path, server_settings: Callable[[], Mapping[str, str]] = dict
) -> Iterator[str]:
    """Yields a connection string for a command: `database_url`, else a server on the data directory.

    The command uses the server that runs there, or starts one for as long as the block lasts. Raises PostgresFailed or
    ClusterUnusable.
    """
    if database_url is not None:
        yield database_url
        return
    data_dir = make_data_dir(data_dir)
    users = os.open(data_dir / "users.lock", os.O_RDWR | os.O_CREAT, 0o600)
    server: EmbeddedServer | None = None
    try:
        fcntl.flock(users, fcntl.LOCK_SH)
        cluster, server = _join(data_dir, server_settings)
        yield url_of(cluster)
        if server is not None:
            fcntl.flock(users, fcntl.LOCK_EX)
    finally:
        if server is not None:
            server.stop()
        os.close(users)


def _join(data_dir: Path, server_settings: Callable[[], Mapping[str, str]]) -> tuple[Cluster, EmbeddedServer | None]:
    """Returns the cluster with a server that answers, and the server if this process had to start it."""
    began, is_reported = time.monotonic(), False
    while True:
        with _locked(data_dir / "start.lock", report_to_person):
            cluster = open_cluster(data_dir)
            if is_running(cluster) and _accepts_connections(cluster):
                return cluster, None
            # A service that runs without a server is about to start one: a second one must not be started.
            lock = _take_serve_lock(data_dir, None)
            if lock is not None:
                os.close(lock)
                return cluster, start(cluster, settings=server_settings())
        waited_s = time.monotonic() - began
        if waited_s > _JOIN_TIMEOUT_S:
            raise PostgresFailed(f"{_holder(data_dir)} runs on {data_dir}, but its Postgres does not answer")
        if waited_s > REPORT_AFTER_S and not is_reported:
            report_to_person(f"the Postgres of {_holder(data_dir)} on {data_dir}")
            is_reported = True
        time.sleep(_POLL_S)


def _accepts_connections(cluster: Cluster) -> bool:
    """Returns whether the server accepts connections. A server that is shutting down still looks as if it ran."""
    import psycopg

    try:
        psycopg.connect(url_of(cluster), connect_timeout=2).close()
    except psycopg.OperationalError:
        return False
    return True


def _take_serve_lock(data_dir: Path, name: str | None) -> int | None:
    """Returns the descriptor that holds the lock, or None if another process holds it. Writes `name` into the file."""
    descriptor = os.open(data_dir / "serve.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    if name is not None:
        with suppress(OSError):  # on a full disk; the name is only for the messages of other processes
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{name} (pid {os.getpid()})\n".encode(), 0)
    return descriptor


def _holder(data_dir: Path) -> str:
    return (data_dir / "serve.lock").read_text().strip() or "another service"


@contextmanager
def _locked(path: Path, report: Report) -> Iterator[None]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        with reported_if_slow(report, lambda: f"the process that starts Postgres on {path.parent}"):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
