"""`ledger serve` under test: a direct child in a process group of its own, on a data directory of its own.

The rule a stranger would break: nothing that is started here outlives the block that started it, however that ends, and
only processes that belong to this very service are ever killed.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from random import Random
from typing import Self

from tests.chaos import running
from tests.chaos.clients import Merchant
from tests.chaos.running import LEDGER, Running, environ, new_merchant
from tests.clusters import lay_cluster
from tests.sealing import MASTER_KEY

from ledger.postgres.embedded.data_dir import database

_GONE_PATIENCE_S = 15.0

# Short windows, so that what a crash leaves open is settled within seconds; a processor that takes a moment, so that calls
# are under way when something dies.
WINDOWS: Mapping[str, str] = {
    "LEDGER_PROCESSOR_TIMEOUT_S": "1.0",
    "LEDGER_RECOVERY_MARGIN_S": "0.2",
    "LEDGER_NOT_FOUND_FINAL_S": "2.0",
    "LEDGER_SANDBOX_DEADLINE_S": "0.3",
    "LEDGER_SANDBOX_DELAY_MS": "15",
}
RECOVERY_WINDOW_S = 2.0
"""When, by these settings, a call without an outcome is given up at the latest."""


class Service:
    """Use it in a `with` block. `settings` are variables on top of `WINDOWS`.

    Its data directory lies in `home`, together with what the harness writes: what happens to the one does not happen to the
    other.
    """

    def __init__(self, *, workers: int = 2, settings: Mapping[str, str] | None = None) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="ledger-chaos-", dir="/tmp"))
        self.data_dir = self.home / "data"
        for directory in (self.home, self.data_dir):
            directory.mkdir(exist_ok=True)
            directory.chmod(0o711)
        lay_cluster(self.data_dir)
        self._environ = environ(
            {
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
            self._bury_postgres()
            shutil.rmtree(self.home, ignore_errors=True)

    def spawn(self) -> None:
        """Start it, from the main thread; `wait_ready` tells when it is. The second start takes the first one's port."""
        assert self._running is None or not self._running.runs, "it runs already"
        self._running = Running([*LEDGER, "serve", "--port", str(self.port)], self._environ, self._log)

    def wait_ready(self) -> None:
        """Return when it has said that it is ready. Raises NotReady."""
        self.port = self._process().wait_port()
        self._remember_postmaster()

    def start(self) -> Self:
        self.spawn()
        self.wait_ready()
        return self

    def kill_group(self) -> None:
        """SIGKILL every process of the service's group: the parent, the API processes, the worker. Postgres is not in it."""
        self._remember_postmaster()
        self._process().kill_group()

    def kill_postgres(self) -> None:
        """SIGKILL the postmaster alone."""
        os.kill(self._postmaster(), signal.SIGKILL)

    def kill_everything(self) -> None:
        """SIGKILL the postmaster and the group at once: nobody is left to start or to stop anything."""
        os.kill(self._postmaster(), signal.SIGKILL)
        self._process().kill_group()

    def kill_parts(self, random: Random) -> None:
        """SIGKILL one of the API processes, and the worker."""
        parts = {pid: role for pid in _children_of(self._process().pid) if (role := _role(pid)) is not None}
        for role in ("api", "worker"):
            os.kill(random.choice(sorted(pid for pid, its in parts.items() if its == role)), signal.SIGKILL)

    def api_processes(self) -> list[int]:
        """The pids of the processes that answer requests."""
        return sorted(pid for pid in _children_of(self._process().pid) if _role(pid) == "api")

    def stop(self) -> int | None:
        """SIGTERM, and SIGKILL where that is not enough; the exit status, None where it had ended before."""
        if self._running is None:
            return None
        self._remember_postmaster()
        return self._running.stop()

    @property
    def runs(self) -> bool:
        """Whether it was started and has not ended."""
        return self._running is not None and self._running.runs

    def database(self) -> AbstractContextManager[str]:
        """The owner's connection string of its database, whether it runs or not."""
        return database(None, self.data_dir)

    def postmaster(self) -> int | None:
        """The pid of its Postgres, None while there is none."""
        return self._remember_postmaster() if self.runs else None

    def merchant(self, name: str) -> Merchant:
        """A new merchant without rate limits, made by the command line while the service runs."""
        return new_merchant(name, self._environ)

    def last_words(self) -> str:
        return running.last_words(self._log)

    def complaints(self) -> list[str]:
        return running.complaints(self._log)

    def _process(self) -> Running:
        assert self._running is not None, "it was started"
        return self._running

    def _postmaster(self) -> int:
        pid = self._remember_postmaster()
        assert pid is not None, "a service that is ready has a postmaster"
        return pid

    def _remember_postmaster(self) -> int | None:
        """The postmaster's pid; kept with its start time, which makes it the name of one process for ever."""
        for pid in _children_of(self._process().pid):
            if _name(pid) == "postgres":
                self._postmasters.add((pid, _started(pid)))
                return pid
        return None

    def _bury_postgres(self) -> None:
        """Wait for our postmasters to be gone; end what does not go by itself."""
        deadline = time.monotonic() + _GONE_PATIENCE_S
        for pid, started in self._postmasters:
            while started and _started(pid) == started:
                if time.monotonic() > deadline:
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGQUIT)
                    deadline = time.monotonic() + 2
                time.sleep(0.02)


def _children_of(parent: int) -> list[int]:
    """The pids of a process's children."""
    return [int(place.name) for place in Path("/proc").glob("[0-9]*") if _fields(int(place.name))[1:2] == [str(parent)]]


def _name(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""


def _role(pid: int) -> str | None:
    """What a child of the service was started for: "api" or "worker"."""
    with suppress(OSError):
        arguments = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        return next((part.decode() for part in arguments if part in {b"api", b"worker"}), None)
    return None


def _started(pid: int) -> str:
    """When a process began, in ticks since the machine did; "" where there is none or only its remains."""
    fields = _fields(pid)
    return fields[19] if fields and fields[0] != "Z" else ""


def _fields(pid: int) -> list[str]:
    """What stands in the process's `stat` behind its name: state, parent, …; nothing where it is gone."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return []
