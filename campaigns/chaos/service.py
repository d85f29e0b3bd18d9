"""`ledger serve` under test: a direct child in a process group of its own, on a data directory of its own.

Nothing that is started here outlives its context, however that ends. Kill only processes of this very service.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from random import Random
from typing import Self

from tests.clusters import lay_cluster
from tests.sealing import MASTER_KEY

from campaigns.chaos import running
from campaigns.chaos.clients import Merchant
from campaigns.chaos.running import LEDGER, Running, environ, new_merchant
from ledger.postgres.embedded.data_dir import database

_GONE_PATIENCE_S = 15.0

# Short windows, so that what a crash leaves open is recovered within seconds; a slow processor, so that calls are under way
# when something is killed.
WINDOWS: Mapping[str, str] = {
    "LEDGER_PROCESSOR_TIMEOUT_S": "1.0",
    "LEDGER_RECOVERY_MARGIN_S": "0.2",
    "LEDGER_NOT_FOUND_FINAL_S": "2.0",
    "LEDGER_SANDBOX_DEADLINE_S": "0.3",
    "LEDGER_SANDBOX_DELAY_MS": "15",
}
RECOVERY_WINDOW_S = 2.0
"""How long, by these settings, a call can be without an outcome, in seconds."""


class Service:
    """`ledger serve`, in a `with` block. `settings` are variables added to `WINDOWS`.

    Its data directory and the harness's own files are both in `home`, in separate directories. `command` is the console
    command that starts it. With `database_url`, its owner's connection string, it runs on that database instead of its own,
    and keeps the files of documents in `files`, as on a folder that several machines mount.
    """

    command: Sequence[str] = LEDGER

    def __init__(
        self,
        *,
        workers: int = 2,
        settings: Mapping[str, str] | None = None,
        database_url: str | None = None,
        files: Path | None = None,
    ) -> None:
        self._database_url = database_url
        self.home = Path(tempfile.mkdtemp(prefix="ledger-chaos-", dir="/tmp"))
        self.data_dir = self.home / "data"
        for directory in (self.home, self.data_dir):
            directory.mkdir(exist_ok=True)
            directory.chmod(0o711)
        if database_url is None:
            lay_cluster(self.data_dir)
        if files is not None:
            files.mkdir(exist_ok=True)
            (self.data_dir / "files").symlink_to(files)
        self._environ = environ(
            {
                **({} if database_url is None else {"LEDGER_DATABASE_URL": database_url}),
                "LEDGER_DATA_DIR": str(self.data_dir),
                "LEDGER_MASTER_KEY": MASTER_KEY,
                "LEDGER_WORKERS": str(workers),
                **WINDOWS,
                **(settings or {}),
            }
        )
        self._running: Running | None = None
        self._postmasters: set[tuple[int, str]] = set()
        self._log = self.home / "service.log"
        self.port = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.stop()
        finally:
            self._end_postgres()
            shutil.rmtree(self.home, ignore_errors=True)

    def spawn(self) -> None:
        """Starts it, from the main thread, without waiting until it is ready. A second start uses the first one's port."""
        assert self._running is None or not self._running.runs, "it runs already"
        self._running = Running([*self.command, "serve", "--port", str(self.port)], self._environ, self._log)

    def wait_ready(self) -> None:
        """Returns when it is ready. Raises NotReady."""
        self.port = self._process().wait_port()
        self._remember_postmaster()

    def start(self) -> Self:
        self.spawn()
        self.wait_ready()
        return self

    def kill_group(self) -> None:
        """Sends SIGKILL to the service's group: the parent, the API processes, the worker. Postgres is not in it."""
        self._remember_postmaster()
        self._process().kill_group()

    def kill_postgres(self) -> None:
        """Sends SIGKILL to the postmaster alone."""
        os.kill(self._postmaster(), signal.SIGKILL)

    def kill_everything(self) -> None:
        """Sends SIGKILL to the postmaster and the group at once: no process is left that could start or stop another."""
        os.kill(self._postmaster(), signal.SIGKILL)
        self._process().kill_group()

    def kill_parts(self, random: Random) -> None:
        """Sends SIGKILL to one of the API processes, and to the worker."""
        parts = self.roles()
        for role in ("api", "worker"):
            os.kill(random.choice(sorted(pid for pid, its in parts.items() if its == role)), signal.SIGKILL)

    def freeze(self, random: Random) -> int:
        """Sends SIGSTOP to an API process or to the worker, and returns its pid. `thaw` lets it go on."""
        pid = self.some_process(random)
        os.kill(pid, signal.SIGSTOP)
        return pid

    def some_process(self, random: Random) -> int:
        """Returns the pid of an API process or of the worker. Raises IndexError if there is none."""
        return random.choice(list(self.roles()))

    def thaw(self, pid: int) -> None:
        """Sends SIGCONT to a process, unless it has ended meanwhile."""
        if pid in children_of(self._process().pid):
            os.kill(pid, signal.SIGCONT)

    def api_processes(self) -> list[int]:
        """Returns the pids of the processes that answer requests."""
        return sorted(pid for pid, role in self.roles().items() if role == "api")

    def roles(self) -> dict[int, str]:
        """Returns what each child but Postgres was started for, by its pid: "api" or "worker"."""
        return {pid: role for pid in children_of(self._process().pid) if (role := _role(pid)) is not None}

    def stop(self) -> int | None:
        """Sends SIGTERM, and SIGKILL if that is not enough; returns the exit status, None if it had ended before."""
        if self._running is None:
            return None
        self._remember_postmaster()
        return self._running.stop()

    @property
    def runs(self) -> bool:
        """Returns whether it was started and has not ended."""
        return self._running is not None and self._running.runs

    def database(self) -> AbstractContextManager[str]:
        """Returns the owner's connection string of its database, whether it runs or not."""
        return database(self._database_url, self.data_dir)

    def postmaster(self) -> int | None:
        """Returns the pid of its Postgres, None while there is none."""
        return self._remember_postmaster() if self.runs else None

    def merchant(self, name: str) -> Merchant:
        """Returns a new merchant without rate limits, made by the command line while the service runs."""
        return new_merchant(name, self._environ)

    def run_command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Runs a command of the console with its settings until it ends."""
        command = [*self.command, *arguments]
        return subprocess.run(command, env=self._environ, cwd="/", capture_output=True, text=True, check=False)

    def last_words(self) -> str:
        return running.last_words(self._log)

    def complaints(self) -> list[str]:
        return running.complaints(self._log)

    def logged_of_database(self) -> list[str]:
        return running.of_database(self._log)

    def _process(self) -> Running:
        assert self._running is not None, "it was started"
        return self._running

    def _postmaster(self) -> int:
        pid = self._remember_postmaster()
        assert pid is not None, "a service that is ready has a postmaster"
        return pid

    def _remember_postmaster(self) -> int | None:
        """Stores the postmaster's pid with its start time, which identify one process."""
        for pid in children_of(self._process().pid):
            if _name(pid) == "postgres":
                self._postmasters.add((pid, _started(pid)))
                return pid
        return None

    def _end_postgres(self) -> None:
        """Waits for this service's postmasters to end, and kills those that do not."""
        deadline = time.monotonic() + _GONE_PATIENCE_S
        for pid, started in self._postmasters:
            while started and _started(pid) == started:
                if time.monotonic() > deadline:
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGQUIT)
                    deadline = time.monotonic() + 2
                time.sleep(0.02)


def children_of(parent: int) -> list[int]:
    """Returns the pids of a process's children."""
    return [int(place.name) for place in Path("/proc").glob("[0-9]*") if _fields(int(place.name))[1:2] == [str(parent)]]


def _name(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""


def _role(pid: int) -> str | None:
    """Returns what a child of the service was started for: "api" or "worker"."""
    with suppress(OSError):
        arguments = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        return next((part.decode() for part in arguments if part in {b"api", b"worker"}), None)
    return None


def _started(pid: int) -> str:
    """Returns when a process began, in ticks since the machine's start; "" if there is none, or only a zombie."""
    fields = _fields(pid)
    return fields[19] if fields and fields[0] != "Z" else ""


def _fields(pid: int) -> list[str]:
    """Returns the fields of the process's `stat` after its name: state, parent, …; none if the process has ended."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return []
