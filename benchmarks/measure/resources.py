"""What a run costs: processor time by part of the service, WAL of each operation, and how busy the machine was.

The kernel's counters show whether a figure missed its target because the machine was busy with something else. They are
read on Linux; elsewhere they are NaN.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import psycopg
from msgspec import Struct

from benchmarks.measure.samples import Sample

_NAN = float("nan")
_PARTS: Final = ("API", "worker", "Postgres")


def child_of(pid: int, role: str) -> int | None:
    """Returns a child of the service's process that has this role, `api` or `worker`."""
    return next((child for child in _children(pid) if _last_argument(child) == role), None)


def peak_mb(pid: int | None) -> float:
    """Returns the most resident memory that a process has had, in MB."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return _NAN
    return next((int(line.split()[1]) * 1024 / 1e6 for line in lines if line.startswith("VmHWM:")), _NAN)


def resident_mb(pid: int | None) -> float:
    """Returns the resident memory of a process, in MB."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
    except OSError:
        return _NAN


def cpu_s(pid: int) -> float:
    """Returns the processor time that the threads of a process have used, in seconds."""
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
    except OSError:
        return _NAN
    used = 0
    for task in tasks:
        with suppress(OSError):  # it has just ended
            used += int((task / "schedstat").read_text().split()[0])
    return used / 1e9


class _Used(Struct, frozen=True):
    """Seconds of processor time by part, bytes of WAL, and ticks of the machine: busy ones, and all."""

    parts: dict[str, float]
    wal: float
    busy: float
    ticks: float

    def since(self, before: _Used) -> _Used:
        parts = {part: used - before.parts[part] for part, used in self.parts.items()}
        return _Used(parts, self.wal - before.wal, self.busy - before.busy, self.ticks - before.ticks)


class Costs:
    """What each kind of run costs, summed over its rounds.

    The worker works off what it is given for some time after a run: its cost is right in the mean of several rounds.
    """

    def __init__(self, service: int, url: str, echo: int | None = None) -> None:
        self._service, self._url, self._echo = service, url, echo
        self._runs: dict[str, list[tuple[_Used, int]]] = {}
        self._echoes: list[tuple[float, int]] = []
        self._inserts: list[tuple[float, int]] = []

    def of(self, name: str, run: Callable[[], Sample]) -> Callable[[], Sample]:
        """Returns the same run, which adds its costs under the name."""

        def measured() -> Sample:
            before = self._used()
            one = run()
            self._runs.setdefault(name, []).append((self._used().since(before), one.ended or one.done))
            return one

        return measured

    def of_echo(self, run: Callable[[], Sample]) -> Callable[[], Sample]:
        """Returns the same run of the echo, whose processor time other costs are compared to."""

        def measured() -> Sample:
            before = cpu_s(self._echo or 0)
            one = run()
            self._echoes.append((cpu_s(self._echo or 0) - before, one.ended or one.done))
            return one

        return measured

    def of_insert(self, run: Callable[[], Sample]) -> Callable[[], Sample]:
        """Returns the same run of single INSERTs, whose processor time other costs are compared to: pgbench's too."""

        def measured() -> Sample:
            before, generator = self._used(), _ended_children_s()
            one = run()
            used = self._used().since(before).parts["Postgres"] + _ended_children_s() - generator
            self._inserts.append((used, one.ended or one.done))
            return one

        return measured

    @property
    def echo_us(self) -> float:
        """The µs of processor time of an echo."""
        return _each(self._echoes)

    @property
    def insert_us(self) -> float:
        """The µs of processor time of a single INSERT: of Postgres and of pgbench."""
        return _each(self._inserts)

    def wal_kb(self, name: str) -> float:
        """Returns the kilobytes of write-ahead log per operation of a kind of run."""
        return _each([(used.wal, done) for used, done in self._runs[name]]) / 1e9  # _each returns millionths

    def means(self, name: str) -> dict[str, float]:
        """Returns the µs of processor time per operation of a kind of run, by part of the service."""
        runs = self._runs[name]
        return {part: _each([(used.parts[part], done) for used, done in runs]) for part in _PARTS}

    def facts(self) -> dict[str, str]:
        """Returns a line for people per kind of run. The costs and the requests include the warm-up."""
        facts = {"cost of an echo": f"{self.echo_us:.0f} µs"} if self._echoes else {}
        if self._inserts:
            facts["cost of an INSERT"] = f"{self.insert_us:.0f} µs of pgbench and Postgres"
        return facts | {f"cost of {name}": self.line(name) for name in self._runs}

    def line(self, name: str) -> str:
        """Returns what a kind of run cost, as a line for people."""
        runs, part = self._runs[name], self.means(name)
        busy = sum(used.busy for used, _ in runs) / max(1.0, sum(used.ticks for used, _ in runs))
        in_echoes = f" ({part['API'] / self.echo_us:.1f} echoes)" if self._echoes else ""
        return (
            f"{part['API']:.0f} µs of the API process{in_echoes}, {part['worker']:.0f} of the worker, "
            f"{part['Postgres']:.0f} of Postgres, {self.wal_kb(name):.1f} KB of WAL; machine {busy:.0%} busy"
        )

    def _used(self) -> _Used:
        roles = {"api": "API", "worker": "worker"}
        parts = dict.fromkeys(_PARTS, 0.0)
        for pid in _children(self._service):
            if (role := _last_argument(pid)) in roles:
                parts[roles[role]] += cpu_s(pid)
        with psycopg.connect(self._url, autocommit=True) as connection:
            row = connection.execute("select pg_backend_pid(), pg_current_wal_lsn() - '0/0'").fetchone()
            assert row is not None, "a server answers"
            parts["Postgres"] = _postgres_s(row[0])
        return _Used(parts, float(row[1]), *_machine())


def backends_s(url: str) -> float:
    """Returns the seconds of processor time that a server of this machine has used for the service's connections that
    are open.
    """
    query = "select pid from pg_stat_activity where datname = current_database() and application_name like 'ledger-%'"
    with psycopg.connect(url, autocommit=True) as connection:
        return sum(cpu_s(pid) for (pid,) in connection.execute(query))


def _ended_children_s() -> float:
    """Returns the processor time of this process's children that have ended: of pgbench, between two calls."""
    times = os.times()
    return times.children_user + times.children_system


def _each(runs: list[tuple[float, int]]) -> float:
    """Returns the mean cost of an operation, in millionths."""
    return sum(used for used, _ in runs) / max(1, sum(done for _, done in runs)) * 1e6


def postgres_s(url: str) -> float:
    """Returns the processor time of the server of a database, in seconds."""
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute("select pg_backend_pid()").fetchone()
        assert row is not None, "a server answers"
        return _postgres_s(row[0])


def _postgres_s(backend: int) -> float:
    """Returns the processor time of the server that a backend belongs to: of its processes, and of those that ended."""
    try:
        postmaster = int(_stat(backend)[1])
        ended = sum(int(ticks) for ticks in _stat(postmaster)[13:15]) / os.sysconf("SC_CLK_TCK")
    except OSError:
        return _NAN
    return ended + cpu_s(postmaster) + sum(cpu_s(pid) for pid in _children(postmaster))


def _children(pid: int) -> Iterator[int]:
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, IndexError):  # it has just ended
            if int(_stat(int(folder.name))[1]) == pid:
                yield int(folder.name)


def _last_argument(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").rpartition(b"\0")[2].decode(errors="replace")
    except OSError:
        return ""


def _stat(pid: int | None) -> list[str]:
    """Returns the fields of /proc/PID/stat after the name, which may contain any character: state, parent, …"""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def _machine() -> tuple[float, float]:
    """Returns the ticks that the processors were busy, and all ticks, since the start of the machine."""
    try:
        ticks = [float(field) for field in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    except OSError:
        return _NAN, _NAN
    return sum(ticks) - ticks[3] - ticks[4], sum(ticks)
