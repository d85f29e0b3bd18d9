"""The embedded Postgres as a running process: started, watched and stopped by us, and never outliving us.

The rule a stranger would break: only the process that started a server stops it, and it does so by a fast shutdown.
`database` is the front door of every command: LEDGER_DATABASE_URL where set, else the server that runs on the data
directory, else one of its own for as long as the command lasts.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from ledger.cluster import SUPERUSER, Cluster, ClusterUnusable, as_account, locked, memory_bytes, open_cluster

LOG_MAX: Final = 16 << 20
_POLL_S: Final = 0.01
_PR_SET_PDEATHSIG: Final = 1

SETTINGS: Final[Mapping[str, str]] = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    # What a 2xx stands on. Given on the command line, so that no file in the cluster can turn it off.
    "fsync": "on",
    "full_page_writes": "on",
    "synchronous_commit": "on",
    "max_connections": "100",
    "wal_buffers": "16MB",
    "max_wal_size": "4GB",
    "checkpoint_timeout": "15min",
    "random_page_cost": "1.1",
    "jit": "off",
    # A head that is updated by every batch stays on its page only if its dead versions go quickly.
    "autovacuum_naptime": "15s",
    "autovacuum_vacuum_cost_limit": "2000",
    "idle_in_transaction_session_timeout": "60s",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_line_prefix": "%m [%p] ",
    "log_checkpoints": "off",
    # The log must not hold what the events must not hold: no statements, no values, no DETAIL with the key of a row.
    "log_min_error_statement": "panic",
    "log_error_verbosity": "terse",
    "log_parameter_max_length": "0",
    "log_parameter_max_length_on_error": "0",
}


class PostgresFailed(Exception):
    """The embedded Postgres does not start; the message carries its own last words."""


class Server:
    """A Postgres that this process has started on a cluster."""

    def __init__(
        self, cluster: Cluster, process: subprocess.Popen[bytes], guard: subprocess.Popen[bytes] | None
    ) -> None:
        self.cluster = cluster
        self.process = process
        self._guard = guard

    @property
    def url(self) -> str:
        """The libpq connection string of the owner."""
        return url_of(self.cluster)

    def is_alive(self) -> bool:
        return self.process.poll() is None

    def stop(self, patience_s: float = 8.0) -> None:
        """Fast shutdown; after `patience_s` an immediate one, which loses nothing and leaves recovery to the next start."""
        try:
            for final in (signal.SIGINT, signal.SIGQUIT, signal.SIGKILL):
                if not self.is_alive():
                    break
                self.process.send_signal(final)
                try:
                    self.process.wait(patience_s)
                except subprocess.TimeoutExpired:
                    continue
        finally:
            if self._guard is not None:
                self._guard.kill()
                self._guard.wait()


def url_of(cluster: Cluster) -> str:
    """The libpq connection string of a cluster's owner, quoted as libpq asks for."""
    host = str(cluster.sockets).replace("\\", "\\\\").replace("'", "\\'")
    return f"host='{host}' user={SUPERUSER} dbname=postgres"


def is_running(cluster: Cluster) -> bool:
    """Whether a server answers on the cluster now: its pid file says ready, and its socket is listened on."""
    if _status(cluster)[1] != "ready":
        return False
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(cluster.sockets / ".s.PGSQL.5432")) == 0


def start(cluster: Cluster, *, patience_s: float = 60.0, settings: Mapping[str, str] | None = None) -> Server:
    """Start a server and return when it answers. Waits for a dying one on the same cluster to be gone.

    A start that takes long is crash recovery at work and is waited for; only starts that fail count against
    `patience_s`. Raises PostgresFailed with the log's last lines.
    """
    deadline = time.monotonic() + patience_s
    while True:
        server = _spawn(cluster, settings or {})
        try:
            while server.is_alive():
                if _status(cluster) == (server.process.pid, "ready"):
                    return server
                time.sleep(_POLL_S)
        except BaseException:
            server.stop()
            raise
        server.stop()
        if time.monotonic() > deadline:
            raise PostgresFailed(f"Postgres does not start: {last_words(cluster)}")
        time.sleep(5 * _POLL_S)


def _spawn(cluster: Cluster, settings: Mapping[str, str]) -> Server:
    shared_buffers = min(256, max(32, memory_bytes() >> 23))  # an eighth of the memory, in MB
    chosen = {"shared_buffers": f"{shared_buffers}MB", **SETTINGS, **settings}
    options = [option for name, value in chosen.items() for option in ("-c", f"{name}={value}")]
    with _log(cluster) as log:
        process = subprocess.Popen(
            [cluster.binaries / "postgres", "-D", cluster.directory, "-k", cluster.sockets, *options],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,  # the terminal's Ctrl-C is for us; we stop the server when we are done
            preexec_fn=_follow_parent if sys.platform == "linux" else None,  # noqa: PLW1509 - one system call, no Python lock
            **as_account(cluster.account),
        )
    return Server(cluster, process, None if sys.platform == "linux" else guard(process.pid))


def _follow_parent() -> None:
    """In the child, after the account has changed (a change clears it): the kernel sends SIGINT when the parent is gone."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGINT)


_LIBC: Final = ctypes.CDLL(None)


def guard(pid: int) -> subprocess.Popen[bytes]:
    """Where the kernel does not tell children: a shell that waits for the end of our pipe, then asks for a fast shutdown."""
    return subprocess.Popen(
        ["/bin/sh", "-c", f"read -r _; kill -INT {pid}"], stdin=subprocess.PIPE, start_new_session=True, cwd="/"
    )


@contextmanager
def _log(cluster: Cluster) -> Iterator[int]:
    if cluster.log.exists() and cluster.log.stat().st_size > LOG_MAX:
        cluster.log.rename(cluster.log.with_suffix(".log.1"))
    descriptor = os.open(cluster.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def last_words(cluster: Cluster) -> str:
    """The last fatal lines of the server's log, as one line for a person."""
    lines = cluster.log.read_text(errors="replace").splitlines()[-20:] if cluster.log.exists() else []
    fatal = [line for line in lines if "FATAL" in line or "PANIC" in line]
    return " / ".join((fatal or lines)[-2:]) or "it said nothing"


def _status(cluster: Cluster) -> tuple[int, str]:
    """The postmaster's pid and state, as its pid file's first and eighth line tell; (0, "") where there is none."""
    try:
        lines = (cluster.directory / "postmaster.pid").read_text().splitlines()
        return int(lines[0]), lines[7].strip()
    except (OSError, IndexError, ValueError):
        return 0, ""


def make_data_dir(data_dir: Path) -> Path:
    """The data directory as an absolute path, made where missing. As root it can be entered by the server's account."""
    data_dir = data_dir.absolute()
    data_dir.mkdir(mode=0o711 if os.geteuid() == 0 else 0o700, parents=True, exist_ok=True)
    return data_dir


@contextmanager
def database(database_url: str | None, data_dir: Path) -> Iterator[str]:
    """The connection string that a command works on, for as long as it needs it.

    Commands that share a server hold a shared lock on `users.lock`, and the one that started it waits for the others
    before it stops it: two commands at once on an idle data directory both end well.
    """
    if database_url is not None:
        yield database_url
        return
    data_dir = make_data_dir(data_dir)
    users = os.open(data_dir / "users.lock", os.O_RDWR | os.O_CREAT, 0o600)
    server: Server | None = None
    try:
        with locked(data_dir / "start.lock"):
            fcntl.flock(users, fcntl.LOCK_SH)
            cluster = open_cluster(data_dir)
            if not is_running(cluster):
                server = start(cluster)
        yield url_of(cluster)
        if server is not None:
            fcntl.flock(users, fcntl.LOCK_EX)
    finally:
        if server is not None:
            server.stop()
        os.close(users)


def start_owned(data_dir: Path, *, patience_s: float = 60.0) -> Server:
    """The server of a process that serves: waits until nobody else's runs on the data directory, then starts its own."""
    data_dir = make_data_dir(data_dir)
    deadline = time.monotonic() + patience_s
    while True:
        with locked(data_dir / "start.lock"):
            cluster = open_cluster(data_dir)
            if not is_running(cluster):
                return start(cluster, patience_s=patience_s)
        if time.monotonic() > deadline:
            raise PostgresFailed(f"another Postgres (pid {_status(cluster)[0]}) runs on {cluster.directory}")
        time.sleep(5 * _POLL_S)


__all__ = ["ClusterUnusable", "PostgresFailed", "Server", "database", "is_running", "start", "start_owned", "url_of"]
