"""`ledger serve` under test: a direct child in a process group of its own, on a data directory of its own.

The rule a stranger would break: nothing that is started here outlives the block that started it, however that ends, and
only processes that belong to this very service are ever killed.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Self
from uuid import UUID

from tests.chaos.clients import Merchant

ROOT = Path(__file__).parents[2]
START_PATIENCE_S = 60.0
_STOP_PATIENCE_S = 15.0
_PR_SET_PDEATHSIG = 1
_prctl = ctypes.CDLL(None).prctl

LEDGER = [sys.executable, "-P", "-c", "from ledger.cli import main; main()"]
"""The console command, whatever directory it was installed into."""

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


class NotReady(Exception):
    """The service did not come up; the message is what it said."""


class Service:
    """Use it in a `with` block. `settings` are variables on top of `WINDOWS`."""

    def __init__(self, *, workers: int = 2, settings: Mapping[str, str] | None = None) -> None:
        self.data_dir = Path(tempfile.mkdtemp(prefix="ledger-chaos-", dir="/tmp"))
        self.data_dir.chmod(0o711)
        self._environ = environ(
            {"LEDGER_DATA_DIR": str(self.data_dir), "LEDGER_WORKERS": str(workers), **WINDOWS, **(settings or {})}
        )
        self._process: subprocess.Popen[bytes] | None = None
        self._postmasters: set[tuple[int, str]] = set()
        self._log = self.data_dir / "service.log"
        self.port = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.stop()
        finally:
            self._bury_postgres()
            shutil.rmtree(self.data_dir, ignore_errors=True)

    def spawn(self) -> None:
        """Start it, from the main thread; `wait_ready` tells when it is."""
        assert self._process is None or self._process.poll() is not None, "it runs already"
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*LEDGER, "serve", "--port", str(self.port)],
                env=self._environ,
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                process_group=0,
                preexec_fn=_end_with_us,  # noqa: PLW1509 - one system call, no lock of Python's
            )

    def wait_ready(self) -> None:
        """Return when it has said that it is ready. Raises NotReady."""
        assert self._process is not None, "spawn it first"
        assert self._process.stdout is not None, "asked for"
        for line in self._process.stdout:
            if line.startswith(b"ready "):
                self.port = int(line.decode().strip().rsplit(":", 1)[1])
                self._remember_postmaster()
                return
        self._process.wait(START_PATIENCE_S)
        raise NotReady(self.last_words())

    def start(self) -> Self:
        self.spawn()
        self.wait_ready()
        return self

    def kill_group(self) -> None:
        """SIGKILL every process of the service's group: the parent, the API processes, the worker. Postgres is not in it."""
        assert self._process is not None, "it runs"
        self._remember_postmaster()
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._drop_pipe()

    def kill_postgres(self) -> None:
        """SIGKILL the postmaster alone."""
        os.kill(self._postmaster(), signal.SIGKILL)

    def kill_everything(self) -> None:
        """SIGKILL the postmaster and the group at once: nobody is left to start or to stop anything."""
        assert self._process is not None, "it runs"
        postmaster = self._postmaster()
        os.kill(postmaster, signal.SIGKILL)
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._drop_pipe()

    def kill_part(self, random: Random) -> str:
        """SIGKILL one of the API processes or the worker; which."""
        assert self._process is not None, "it runs"
        parts = {pid: role for pid in children_of(self._process.pid) if (role := _role(pid)) is not None}
        pid = random.choice(sorted(parts))
        os.kill(pid, signal.SIGKILL)
        return parts[pid]

    def stop(self) -> int | None:
        """SIGTERM, and SIGKILL where that is not enough; the exit status, None where it had ended before."""
        if self._process is None or self._process.poll() is not None:
            return None
        self._remember_postmaster()
        self._process.terminate()
        try:
            self._process.wait(_STOP_PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.kill_group()
        self._drop_pipe()
        return self._process.returncode

    @property
    def runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def merchant(self, name: str) -> Merchant:
        """A new merchant without rate limits, made by the command line while the service runs."""
        return new_merchant(name, self._environ)

    def last_words(self, lines: int = 12) -> str:
        """The end of what it said on standard error."""
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-lines:])

    def complaints(self) -> list[str]:
        """What it logged as an error, each reason and place once."""
        found: dict[str, None] = {}
        for line in self._log.read_text(errors="replace").splitlines():
            if '"level": "error"' in line:
                said = json.loads(line)
                found[f"{said.get('event')}: {said.get('reason')} at {said.get('at')}"] = None
        return list(found)

    def _remember_postmaster(self) -> int | None:
        """The postmaster's pid; kept with its start time, which makes it the name of one process for ever."""
        for pid in children_of(self._process.pid if self._process else 0):
            if process_name(pid) == "postgres":
                self._postmasters.add((pid, _started(pid)))
                return pid
        return None

    def _postmaster(self) -> int:
        pid = self._remember_postmaster()
        assert pid is not None, "a service that is ready has a postmaster"
        return pid

    def _bury_postgres(self) -> None:
        """Wait for our postmasters to be gone; end what does not go by itself."""
        deadline = time.monotonic() + _STOP_PATIENCE_S
        for pid, started in self._postmasters:
            while _started(pid) == started:
                if time.monotonic() > deadline:
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGQUIT)
                    deadline = time.monotonic() + 2
                time.sleep(0.02)

    def _drop_pipe(self) -> None:
        if self._process is not None and self._process.stdout is not None:
            self._process.stdout.close()


def environ(settings: Mapping[str, str]) -> dict[str, str]:
    """Our environment with these settings and no others, and with this tree's code before an installed one."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("LEDGER_")}
    return {**ours, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", **settings}


def new_merchant(name: str, environment: Mapping[str, str]) -> Merchant:
    """A new merchant without rate limits. Raises CalledProcessError with what the command said."""
    limits = ["--requests-per-minute", "0", "--requests-per-second", "0"]
    command = [*LEDGER, "merchants", "create", name, *limits, "--json"]
    done = subprocess.run(
        command, env=dict(environment), cwd="/", capture_output=True, text=True, timeout=60, check=False
    )
    if done.returncode:
        raise NotReady(f"ledger merchants create: {done.stderr.strip()}")
    made = json.loads(done.stdout)
    return Merchant(merchant_id=UUID(made["merchantId"]), api_key=made["apiKey"])


def children_of(parent: int) -> list[int]:
    """The pids of a process's children."""
    return [int(place.name) for place in Path("/proc").glob("[0-9]*") if _fields(int(place.name))[1:2] == [str(parent)]]


def process_name(pid: int) -> str:
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


def _end_with_us() -> None:
    """The service is asked to stop when we are killed: the kernel tells it."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
