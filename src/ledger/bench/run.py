"""Runs one benchmark or all of them for `ledger bench`, and prints ratios to limits measured in the same run.

Never run one in the service's own database: each gets a scratch database.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from ledger.bench.measure import report
from ledger.bench.measure.report import Report
from ledger.bench.scratch import scratch_database, scratch_server
from ledger.bench.suites import ceiling, history, http, journal, profile, search
from ledger.settings import CannotRun, Settings

Run = Callable[[str, Settings, float, int, int], list[Report]]


def _journal(server_url: str, _settings: Settings, seconds: float, rounds: int, _events: int) -> list[Report]:
    with scratch_database(server_url) as url:
        return journal.reports(url, seconds, rounds)


def _http(server_url: str, settings: Settings, seconds: float, rounds: int, _events: int) -> list[Report]:
    reports = []
    for processes in (1, 2):
        with scratch_database(server_url) as url, tempfile.TemporaryDirectory(prefix="ledger-bench-") as folder:
            reports.append(http.report(url, settings, Path(folder), seconds, rounds, processes))
    return reports


def _profile(server_url: str, settings: Settings, seconds: float, _rounds: int, _events: int) -> list[Report]:
    with scratch_database(server_url) as url, tempfile.TemporaryDirectory(prefix="ledger-bench-") as folder:
        return [profile.report(url, settings, Path(folder), seconds)]


def _history(server_url: str, _settings: Settings, seconds: float, rounds: int, events: int) -> list[Report]:
    return [history.report(server_url, seconds, rounds, events)]


def _search(server_url: str, _settings: Settings, seconds: float, rounds: int, _events: int) -> list[Report]:
    return search.reports(server_url, seconds, rounds)


def _ceiling(server_url: str, settings: Settings, seconds: float, rounds: int, _events: int) -> list[Report]:
    return [ceiling.report(server_url, settings, seconds, rounds)]


BENCHMARKS: Final[dict[str, Run]] = {
    "journal": _journal,
    "http": _http,
    "profile": _profile,
    "history": _history,
    "search": _search,
    "ceiling": _ceiling,
}


def bench(
    settings: Settings,
    name: str | None = None,
    *,
    json: bool = False,
    seconds: float = 3.0,
    rounds: int = 3,
    events: int = history.EVENTS,
) -> None:
    """Runs the benchmark of this name, or all, and prints the reports.

    Each sample takes `seconds`, each comparison `rounds` samples; `events` is the length of the long history. Raises
    CannotRun for an unknown name, or where a program or a server is missing.
    """
    if name is not None and name not in BENCHMARKS:
        raise CannotRun(f"there is no benchmark {name}; there are {', '.join(BENCHMARKS)}")
    reports: list[Report] = []
    with scratch_server(settings) as server_url:
        machine = report.machine(server_url)
        for benchmark in [name] if name is not None else BENCHMARKS:
            reports += BENCHMARKS[benchmark](server_url, settings, seconds, rounds, events)
    if sys.stderr.isatty():
        sys.stderr.write("\r\x1b[2K")
    if json:
        sys.stdout.write(report.as_json(reports, machine).decode() + "\n")
    else:
        report.show(reports, machine)
