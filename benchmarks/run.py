"""Runs one benchmark or all of them, and prints ratios to limits measured in the same run.

Never run one in the service's own database: each gets a scratch database.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from msgspec import Struct

from benchmarks.measure import report
from benchmarks.measure.report import Report
from benchmarks.scratch import scratch_database, scratch_server
from benchmarks.suites import (
    audit,
    ceiling,
    citus,
    documents,
    growth,
    http,
    journal,
    keys,
    past,
    peers,
    processors,
    profile,
    rebuild,
    renewals,
    replica,
    sealing,
    search,
    webhooks,
)
from ledger.settings import CannotRun, Settings


class Sizes(Struct, frozen=True):
    """How many events the largest size has, and how many subscriptions are due at once; None is the suite's own.

    `missed` is how many messages an endpoint gets that is enabled again. `node_modules` is the folder with the npm
    packages of the journal's peers, `picture` the file of a picture.
    """

    events: int = growth.EVENTS
    subscriptions: int | None = None
    missed: int = webhooks.MISSED
    node_modules: Path | None = None
    picture: Path | None = None


Run = Callable[[str, Settings, float, int, Sizes], list[Report]]


def _journal(server_url: str, _settings: Settings, seconds: float, rounds: int, _sizes: Sizes) -> list[Report]:
    with scratch_database(server_url) as url:
        return journal.reports(url, seconds, rounds)


def _peers(server_url: str, _settings: Settings, seconds: float, rounds: int, sizes: Sizes) -> list[Report]:
    with scratch_database(server_url) as url:
        return [peers.report(url, seconds, rounds, sizes.node_modules)]


def _http(server_url: str, settings: Settings, seconds: float, rounds: int, _sizes: Sizes) -> list[Report]:
    reports = []
    for processes in (1, 2):
        with scratch_database(server_url) as url, tempfile.TemporaryDirectory(prefix="ledger-bench-") as folder:
            reports.append(http.report(url, settings, Path(folder), seconds, rounds, processes))
    return reports


def _profile(server_url: str, settings: Settings, seconds: float, _rounds: int, _sizes: Sizes) -> list[Report]:
    with scratch_database(server_url) as url, tempfile.TemporaryDirectory(prefix="ledger-bench-") as folder:
        return [profile.report(url, settings, Path(folder), seconds)]


def _growth(server_url: str, settings: Settings, seconds: float, rounds: int, sizes: Sizes) -> list[Report]:
    return [growth.report(server_url, settings, seconds, rounds, sizes.events, sizes.picture)]


def _search(server_url: str, _settings: Settings, seconds: float, rounds: int, _sizes: Sizes) -> list[Report]:
    return search.reports(server_url, seconds, rounds)


def _ceiling(server_url: str, settings: Settings, seconds: float, rounds: int, _sizes: Sizes) -> list[Report]:
    return [ceiling.report(server_url, settings, seconds, rounds)]


def _renewals(server_url: str, settings: Settings, seconds: float, rounds: int, sizes: Sizes) -> list[Report]:
    with scratch_database(server_url) as url, tempfile.TemporaryDirectory(prefix="ledger-bench-") as folder:
        count = sizes.subscriptions or renewals.RENEWALS
        return [renewals.report(url, settings, Path(folder), seconds, rounds, count)]


def _renewal_day(server_url: str, settings: Settings, seconds: float, rounds: int, sizes: Sizes) -> list[Report]:
    with scratch_database(server_url) as url, tempfile.TemporaryDirectory(prefix="ledger-bench-") as folder:
        count = sizes.subscriptions or renewals.RENEWAL_DAY
        return [renewals.day_report(url, settings, Path(folder), seconds, rounds, count)]


def _documents(server_url: str, settings: Settings, seconds: float, rounds: int, _sizes: Sizes) -> list[Report]:
    with scratch_database(server_url) as url, tempfile.TemporaryDirectory(prefix="ledger-bench-") as folder:
        return [documents.report(url, settings, Path(folder), seconds, rounds)]


def _webhooks(server_url: str, settings: Settings, seconds: float, rounds: int, sizes: Sizes) -> list[Report]:
    return webhooks.reports(server_url, settings, seconds, rounds, sizes.missed)


def _keys(server_url: str, settings: Settings, seconds: float, rounds: int, _sizes: Sizes) -> list[Report]:
    with scratch_database(server_url) as url, tempfile.TemporaryDirectory(prefix="ledger-bench-") as folder:
        return [keys.report(url, settings, Path(folder), seconds, rounds)]


def _rebuild(server_url: str, _settings: Settings, seconds: float, rounds: int, sizes: Sizes) -> list[Report]:
    return [rebuild.report(server_url, seconds, rounds, min(sizes.events, rebuild.EVENTS))]


def _replica(_server_url: str, settings: Settings, seconds: float, rounds: int, _sizes: Sizes) -> list[Report]:
    return [replica.report(settings, seconds, rounds)]


def _past(server_url: str, settings: Settings, seconds: float, rounds: int, sizes: Sizes) -> list[Report]:
    return [past.report(server_url, settings, seconds, rounds, min(sizes.events // 10, past.ORDERS))]


def _citus(server_url: str, _settings: Settings, seconds: float, rounds: int, _sizes: Sizes) -> list[Report]:
    return [citus.report(server_url, seconds, rounds)]


def _sealing(server_url: str, settings: Settings, seconds: float, rounds: int, _sizes: Sizes) -> list[Report]:
    return [sealing.report(server_url, settings, seconds, rounds)]


def _processors(server_url: str, settings: Settings, seconds: float, rounds: int, _sizes: Sizes) -> list[Report]:
    return processors.reports(server_url, settings, seconds, rounds)


def _audit(server_url: str, _settings: Settings, _seconds: float, rounds: int, sizes: Sizes) -> list[Report]:
    return [audit.report(server_url, rounds, sizes.events)]


BENCHMARKS: Final[dict[str, Run]] = {
    "journal": _journal,
    "peers": _peers,
    "http": _http,
    "profile": _profile,
    "growth": _growth,
    "audit": _audit,
    "search": _search,
    "ceiling": _ceiling,
    "documents": _documents,
    "renewals": _renewals,
    "renewal-day": _renewal_day,
    "processors": _processors,
    "webhooks": _webhooks,
    "keys": _keys,
    "rebuild": _rebuild,
    "replica": _replica,
    "past": _past,
    "sealing": _sealing,
    "citus": _citus,
}


def bench(
    settings: Settings,
    name: str | None = None,
    *,
    json: bool = False,
    seconds: float = 3.0,
    rounds: int = 3,
    events: int = growth.EVENTS,
    subscriptions: int | None = None,
    missed: int = webhooks.MISSED,
    node_modules: Path | None = None,
    picture: Path | None = None,
) -> None:
    """Runs the benchmark of this name, or all, and prints the reports.

    Each sample takes `seconds`, each comparison `rounds` samples; `events` is what the largest size of `growth` has,
    whose picture is drawn into the file `picture`; `subscriptions` is how many are due at once (None: 1,000, and 10,000
    on the renewal day); `missed` is how many messages the endpoints of `webhooks` get that are enabled again;
    `node_modules` is the folder with the peers' npm packages (None: that of the working
    directory). Raises CannotRun for an unknown name, or if a program or a server is missing.
    """
    if name is not None and name not in BENCHMARKS:
        raise CannotRun(f"there is no benchmark {name}; there are {', '.join(BENCHMARKS)}")
    reports: list[Report] = []
    sizes = Sizes(events, subscriptions, missed, node_modules, picture)
    with scratch_server(settings) as server_url:
        machine = report.machine(server_url)
        for benchmark in [name] if name is not None else BENCHMARKS:
            reports += BENCHMARKS[benchmark](server_url, settings, seconds, rounds, sizes)
    if sys.stderr.isatty():
        sys.stderr.write("\r\x1b[2K")
    if json:
        sys.stdout.write(report.as_json(reports, machine).decode() + "\n")
    else:
        report.show(reports, machine)
