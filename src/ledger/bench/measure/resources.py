"""What a run costs: processor time and memory of the process under test, and how busy the whole machine was.

The kernel's counters show whether a figure missed its target because the machine was busy with something else. They are
read on Linux; elsewhere they are NaN.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from ledger.bench.measure.samples import Sample

_NAN = float("nan")


def largest_child(pid: int) -> int | None:
    """Returns the child of a process that holds the most memory: the API process of the service."""
    held: list[tuple[float, int]] = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, IndexError):  # it has just ended
            if int(_stat(int(folder.name))[1]) == pid:
                held.append((resident_mb(int(folder.name)), int(folder.name)))
    return max(held)[1] if held else None


def resident_mb(pid: int | None) -> float:
    """Returns the resident memory of a process, in MB."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
    except OSError:
        return _NAN


def cpu_s(pid: int | None) -> float:
    """Returns the processor time that a process has used, in seconds."""
    try:
        fields = _stat(pid)
    except OSError:
        return _NAN
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Costs:
    """What each kind of run costs, summed over its rounds."""

    def __init__(self, pid: int | None) -> None:
        self._pid = pid
        self._used: dict[str, tuple[float, int, float, float]] = {}

    def of(self, name: str, run: Callable[[], Sample]) -> Callable[[], Sample]:
        """Returns the same run, which adds its costs under the name."""

        def measured() -> Sample:
            cpu, (busy, total) = cpu_s(self._pid), _machine()
            one = run()
            used, (busy_now, total_now) = cpu_s(self._pid) - cpu, _machine()
            before = self._used.get(name, (0.0, 0, 0.0, 0.0))
            spent = (used, one.ended or one.done, busy_now - busy, total_now - total)
            self._used[name] = (before[0] + spent[0], before[1] + spent[1], before[2] + spent[2], before[3] + spent[3])
            return one

        return measured

    def facts(self) -> dict[str, str]:
        """Returns a line for people per kind of run.

        The processor time includes the warm-up. The requests include it only where the sample has `ended`; elsewhere
        the cost of a request is an upper bound.
        """
        return {
            f"cost of {name}": f"{used / max(1, done) * 1e6:.0f} µs of the API process each, machine {busy / max(1.0, total):.0%} busy"
            for name, (used, done, busy, total) in self._used.items()
        }


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
