"""A program of the ledger as a process of the harness: in a group of its own, with its output read, ended with its context.

Start processes from the main thread only. The kernel ends them with the thread that forked them, which is how they end when
the harness is killed.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Self
from uuid import UUID

from campaigns.chaos.clients import Merchant
from ledger.postgres.embedded.account import Account

ROOT = Path(__file__).parents[2]
LEDGER = [sys.executable, "-P", "-c", "from ledger.cli.main import main; main()"]
"""The console command, whatever directory it was installed into."""

_ABOUT = ("method", "route", "status", "error_code", "of", "reason", "at")
"""What is repeated of a line about an error: what differs between two errors, and not between two requests."""

_DATABASE = ("database_", "journal_")
_STOP_PATIENCE_S = 15.0
_PR_SET_PDEATHSIG = 1
_prctl = ctypes.CDLL(None).prctl


class NotReady(Exception):
    """The process did not become ready; the message is its output."""


class Running:
    """A process that prints `ready …` once it is. Use it in a `with` block. Its other output is in `log`.

    It runs under `account` if one is given.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        log: Path,
        account: Account | None = None,
    ) -> None:
        self._log = log
        with log.open("ab") as said:
            self._process = subprocess.Popen(
                arguments,
                env=dict(environment),
                cwd="/",
                user=account.uid if account else None,
                group=account.gid if account else None,
                extra_groups=[] if account else None,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=said,
                process_group=0,
                preexec_fn=_end_with_us,  # noqa: PLW1509 - one system call, no lock of Python's
                text=True,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def runs(self) -> bool:
        return self._process.poll() is None

    def line(self) -> str:
        """Returns its next line of standard output, "" once it has ended."""
        assert self._process.stdout is not None, "asked for"
        return self._process.stdout.readline().strip()

    def wait_ready(self) -> list[str]:
        """Returns the words after `ready`. Raises NotReady if the process ends without it."""
        while line := self.line():
            if line.split()[0] == "ready":
                return line.split()[1:]
        raise NotReady(last_words(self._log))

    def wait_port(self) -> int:
        """Waits until it is ready and returns the port that it serves on."""
        return int(self.wait_ready()[0].rsplit(":", 1)[1])

    def kill_group(self) -> None:
        """Sends SIGKILL to its process group."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._close()

    def stop(self) -> int | None:
        """Sends SIGTERM, and SIGKILL if that is not enough; returns the exit status, None if it had ended before."""
        if not self.runs:
            self._close()
            return None
        self._process.terminate()
        try:
            self._process.wait(_STOP_PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.kill_group()
        self._close()
        return self._process.returncode

    def _close(self) -> None:
        if self._process.stdout is not None:
            self._process.stdout.close()


def last_words(log: Path, lines: int = 12) -> str:
    """Returns the end of a process's standard error."""
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])


def complaints(log: Path) -> list[str]:
    """Returns what was logged as an error, each reason and place once: a request is one that was answered with a 5xx."""
    found: dict[str, None] = {}
    for said in _lines(log):
        if said.get("level") in {"error", "critical"}:
            about = (f"{name}={said[name]}" for name in _ABOUT if name in said)
            found[f"{said.get('event')}: {', '.join(about)}"] = None
    return list(found)


def of_database(log: Path) -> list[str]:
    """Returns what was logged of the database and of the journal's commits, in full: it says why writes were refused."""
    return [json.dumps(said) for said in _lines(log) if str(said.get("event")).startswith(_DATABASE)]


def _lines(log: Path) -> Iterator[dict[str, Any]]:
    for line in log.read_text(errors="replace").splitlines():
        with suppress(json.JSONDecodeError):  # other lines are those of Postgres and of the interpreter
            said = json.loads(line)
            if isinstance(said, dict):
                yield said


def environ(settings: Mapping[str, str]) -> dict[str, str]:
    """Returns this environment with these settings and no others, and with this tree's code before an installed one."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("LEDGER_")}
    return {**ours, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", **settings}


def new_merchant(name: str, environment: Mapping[str, str]) -> Merchant:
    """Returns a new merchant without rate limits, made by the command line. Raises NotReady with the command's output."""
    limits = ["--requests-per-minute", "0", "--requests-per-second", "0"]
    command = [*LEDGER, "merchants", "create", name, *limits, "--json"]
    done = subprocess.run(
        command, env=dict(environment), cwd="/", capture_output=True, text=True, timeout=60, check=False
    )
    if done.returncode:
        raise NotReady(f"ledger merchants create: {done.stderr.strip()}")
    made = json.loads(done.stdout)
    return Merchant(merchant_id=UUID(made["merchantId"]), api_key=made["apiKey"])


def _end_with_us() -> None:
    """Has the kernel send it SIGTERM when this process is killed."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
