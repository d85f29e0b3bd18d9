"""The process of the embedded Postgres: a child that is started, restarted and stopped here, and ends with its parent.

Stop a server only in the process that started it. Start a server from the main thread: the kernel ends it with the
*thread* that forked it.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from ledger.back_off import RecentEndings
from ledger.postgres.embedded.account import as_account, environment
from ledger.postgres.embedded.archiving import clear_spool, start_uploader
from ledger.postgres.embedded.authentication import authentication_settings, write_authentication
from ledger.postgres.embedded.cluster import PORT, SOCKET_NAME, SUPERUSER, Cluster
from ledger.postgres.embedded.memory import shared_buffers_mb
from ledger.postgres.embedded.ownership import former_owner, process_in, take_over
from ledger.settings import CannotRun
from ledger.telemetry.slow_waits import report_to_person, reported_if_slow

LOG_MAX_BYTES: Final = 16 << 20
FAILURES_MAX: Final = 5
OTHER_TIMEOUT_S: Final = 60.0
_PAUSE_MAX_S: Final = 2.0
_POLL_S: Final = 0.005
_PR_SET_PDEATHSIG: Final = 1

SETTINGS: Final[Mapping[str, str]] = {
    "listen_addresses": "",
    "port": str(PORT),
    "unix_socket_permissions": "0700",
    # A 2xx depends on these. They are given on the command line, which no file of the cluster can override.
    "fsync": "on",
    "full_page_writes": "on",
    "synchronous_commit": "on",
    "max_connections": "100",
    "wal_buffers": "16MB",
    "max_wal_size": "4GB",
    "min_wal_size": "1GB",  # kept to be written over: a new file costs a commit 16 MB of zeros and their flush
    "checkpoint_timeout": "15min",
    "random_page_cost": "1.1",
    "jit": "off",
    # Every batch updates a head. It stays on its page only if its dead row versions are removed quickly.
    "autovacuum_naptime": "15s",
    "autovacuum_vacuum_cost_limit": "2000",
    "idle_in_transaction_session_timeout": "60s",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_line_prefix": "%m [%p] ",
    "log_checkpoints": "off",
    # What events must not contain must not reach the log either: statements, values, and DETAIL with the key of a row.
    "log_min_error_statement": "panic",
    "log_error_verbosity": "terse",
    "log_parameter_max_length": "0",
    "log_parameter_max_length_on_error": "0",
}


class PostgresFailed(CannotRun):
    """The embedded Postgres does not start. The message ends with the last lines of its log."""


class EmbeddedServer:
    """A Postgres on a cluster, which this process keeps running by calling `tick` regularly.

    It waits for a start that takes long, which is crash recovery, and for another process's server that is shutting
    down. Only failed starts count as failures. A caller that goes on after PostgresFailed has the server started again,
    with pauses of at most two seconds. `waits_for` is what it waits for, for a person.
    """

    def __init__(self, cluster: Cluster, settings: Mapping[str, str] | None = None) -> None:
        self.cluster = cluster
        self._settings = settings or {}
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: subprocess.Popen[bytes] | None = None
        self._uploader: subprocess.Popen[bytes] | None = None
        self._is_ready = False
        self._endings = RecentEndings(_PAUSE_MAX_S)
        self._failures = 0
        self._next_start = 0.0
        self._other_since: float | None = None
        self.waits_for = ""

    @property
    def url(self) -> str:
        """The libpq connection string of the owner."""
        return url_of(self.cluster)

    @property
    def pid(self) -> int | None:
        """The process id of the running postmaster, or None."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    def tick(self) -> bool:
        """Returns whether the server answers now, and starts it if it has ended.

        Raises PostgresFailed after the fifth failed start in a row and each further one, or if another server does not
        end.
        """
        now = time.monotonic()
        if self._process is not None and self._process.poll() is None:
            self._provide_uploader()
            self._is_ready = self._is_ready or _status(self.cluster) == (self._process.pid, "ready")
            if self._is_ready:
                self._failures = 0
            return self._is_ready
        if self._process is not None:
            self._process = None
            self._dismiss_guard()
            self._record_end(now)
        if now >= self._next_start and not self._waits_for_another(now):
            try:
                self._spawn()
            except OSError as refusal:  # no memory for another process, no room for its log
                self._record_end(now, str(refusal))
        return False

    def stop(self, patience_s: float = 8.0, *, at_once: bool = False) -> None:
        """Shuts down fast, and immediately after `patience_s` or with `at_once`.

        An immediate shutdown loses nothing: the next start recovers.
        """
        if self._process is not None:
            for final in (signal.SIGINT, signal.SIGQUIT, signal.SIGKILL)[1 if at_once else 0 :]:
                if self._process.poll() is not None:
                    break
                self._process.send_signal(final)
                try:
                    self._process.wait(patience_s)
                except subprocess.TimeoutExpired:
                    continue
        self._dismiss_guard()
        self._process = None
        if self._uploader is not None:  # it has nothing to do after the server's end
            self._uploader.kill()
            self._uploader.wait()
            self._uploader = None

    def _record_end(self, now: float, reason: str = "") -> None:
        """Records that the server has ended or could not be started. The next start follows after a pause.

        Raises PostgresFailed, with `reason` or the log's.
        """
        self._next_start = now + self._endings.pause_s(now)
        if self._is_ready:
            self._is_ready = False
            return
        self._failures += 1
        if self._failures >= FAILURES_MAX:
            raise PostgresFailed(f"Postgres does not start: {reason or log_tail(self.cluster)}")

    def _waits_for_another(self, now: float) -> bool:
        pid, _ = _status(self.cluster)
        if not _is_postgres(pid):
            is_former = former_owner(self.cluster.directory, self.cluster.account) is not None
            pid = process_in(self.cluster.directory) if is_former else 0
        if not pid:
            self._other_since = None
            return False
        self._other_since = self._other_since or now
        self.waits_for = f"another Postgres (pid {pid}) on {self.cluster.directory} to end"
        if now - self._other_since > OTHER_TIMEOUT_S:
            raise PostgresFailed(f"another Postgres (pid {pid}) runs on {self.cluster.directory} and does not end")
        return True

    def _spawn(self) -> None:
        directory = self.cluster.directory
        self.waits_for = f"Postgres to start: its log is {self.cluster.log}"
        _remove_stale_locks(self.cluster)
        clear_spool(self._settings)
        self._provide_uploader()
        take_over(directory, self.cluster.sockets, self.cluster.account)
        write_authentication(directory, self.cluster.account)
        computed = {"shared_buffers": f"{shared_buffers_mb()}MB", **authentication_settings(directory)}
        chosen = {**computed, **SETTINGS, **self._settings}
        options = [option for name, value in chosen.items() for option in ("-c", f"{name}={value}")]
        with _log(self.cluster.log) as log:
            self._process = subprocess.Popen(
                [self.cluster.binaries / "postgres", "-D", directory, "-k", self.cluster.sockets, *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # the terminal's Ctrl-C reaches only this process, which then stops the server
                # Two system calls, without a lock of Python.
                preexec_fn=_follow_parent(os.getpid()) if sys.platform == "linux" else None,  # noqa: PLW1509
                **as_account(self.cluster.account),
            )
        if sys.platform != "linux":
            self._guard = guard(self._process.pid)

    def _provide_uploader(self) -> None:
        if self._uploader is None or self._uploader.poll() is not None:
            self._uploader = start_uploader(self._settings, self.cluster.directory)

    def _dismiss_guard(self) -> None:
        if self._guard is not None:
            self._guard.kill()
            self._guard.wait()
            self._guard = None


def _follow_parent(parent: int) -> Callable[[], None]:
    """Returns what the child runs after its account has changed: from then on the kernel ends it with its parent.

    A later change of the account would clear the setting.
    """
    prctl = ctypes.CDLL(None).prctl

    def follow() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGINT)
        if os.getppid() != parent:  # the parent has ended in between
            os._exit(1)

    return follow


def guard(pid: int) -> subprocess.Popen[bytes]:
    """Starts a shell that requests a fast shutdown when this process ends, for kernels that do not signal it."""
    return subprocess.Popen(
        ["/bin/sh", "-c", f"read -r _; kill -INT {pid}"],
        stdin=subprocess.PIPE,
        start_new_session=True,
        cwd="/",
        env=environment(),
    )


def start(cluster: Cluster, *, settings: Mapping[str, str] | None = None) -> EmbeddedServer:
    """Starts a server and returns it when it answers. Raises PostgresFailed."""
    server = EmbeddedServer(cluster, settings)
    try:
        with reported_if_slow(report_to_person, lambda: server.waits_for):
            while not server.tick():
                time.sleep(_POLL_S)
    except BaseException:
        server.stop()
        raise
    return server


def url_of(cluster: Cluster) -> str:
    """Returns the libpq connection string of a cluster's owner, quoted as libpq requires."""
    host = str(cluster.sockets).replace("\\", "\\\\").replace("'", "\\'")
    return f"host='{host}' port={PORT} user={SUPERUSER} dbname=postgres"


def is_running(cluster: Cluster) -> bool:
    """Returns whether a server answers on the cluster: its pid file has the state ready, and its socket is open."""
    if _status(cluster)[1] != "ready":
        return False
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(cluster.sockets / SOCKET_NAME)) == 0


def log_tail(cluster: Cluster) -> str:
    """Returns the last two fatal lines of the server's log, else its last two lines, as one line."""
    lines = cluster.log.read_text(errors="replace").splitlines()[-20:] if cluster.log.exists() else []
    fatal = [line for line in lines if "FATAL" in line or "PANIC" in line]
    return " / ".join((fatal or lines)[-2:]) or "its log is empty"


@contextmanager
def _log(path: Path) -> Iterator[int]:
    if path.exists() and path.stat().st_size > LOG_MAX_BYTES:
        path.rename(path.with_name(f"{path.name}.1"))
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _status(cluster: Cluster) -> tuple[int, str]:
    """Returns the postmaster's pid and state, the first and eighth line of its pid file, or (0, "") without a file."""
    try:
        lines = (cluster.directory / "postmaster.pid").read_text().splitlines()
        return int(lines[0]), lines[7].strip() if len(lines) > 7 else ""
    except (OSError, IndexError, ValueError):
        return 0, ""


def _remove_stale_locks(cluster: Cluster) -> None:
    """Removes the lock files of a server that has ended, which Postgres itself may take for those of one that runs.

    Postgres asks whether a process with that id exists. One does while the parent of the former server has not asked
    how that ended (a zombie, in a container whose first process never asks), or where its id was given again.
    """
    if sys.platform != "linux" or process_in(cluster.directory):
        return
    for lock in (cluster.directory / "postmaster.pid", cluster.sockets / f"{SOCKET_NAME}.lock"):
        with suppress(OSError, ValueError):
            if not _is_postgres(int(lock.read_text().split("\n", 1)[0])):
                lock.unlink()


def _is_postgres(pid: int) -> bool:
    """Returns whether that process runs and is a Postgres. After a restart of the machine its pid may be reused."""
    if pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # it runs, as another user
    try:
        # As in proc(5): pid (name) state. A process that has ended waits as Z or X for a parent that may never look.
        name, _, rest = Path(f"/proc/{pid}/stat").read_text().partition(" (")[2].rpartition(") ")
        return name == "postgres" and rest[:1] not in ("Z", "X")
    except (FileNotFoundError, ProcessLookupError):
        return sys.platform != "linux"  # without /proc, the pid file decides
