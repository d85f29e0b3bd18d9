"""Creates with the worker's sealing of the log against creates without it, in turns, each on a service of its own."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final

from benchmarks.load.order_body import Way
from benchmarks.measure.budget import CARD, CREATE
from benchmarks.measure.report import Ratio, Report, Target
from benchmarks.measure.resources import Costs
from benchmarks.measure.samples import Sample, in_turns, show_progress, typical
from benchmarks.scratch import scratch_database
from benchmarks.suites.http import Service, service
from benchmarks.suites.journal import IN_FLIGHT
from ledger.settings import Settings

_OFF: Final = "no sealing"
_EVERY_S: Final = {"sealing each 10 s": 10.0, "sealing each second": 1.0, _OFF: 0.0}
"""The default; ten times as often, which shows what the rounds cost apart from the events; and never."""
_WAYS: Final[dict[str, tuple[Way, Target]]] = {CREATE: ("pending", Target(0.98)), CARD: ("card", Target(0.97))}
_REST_S: Final = 11.0
"""The same for all: until the slowest rounds have come to the events of a run."""
_WAL: Final = Target(1.02, at_most=True)


def report(server_url: str, settings: Settings, seconds: float, rounds: int) -> Report:
    """Measures the processor time and the write-ahead log of a create, its sealing included."""
    with ExitStack() as stack:
        services: dict[str, Service] = {}
        costs: dict[str, Costs] = {}
        for name, seal_s in _EVERY_S.items():
            url = stack.enter_context(scratch_database(server_url))
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ledger-bench-")))
            services[name] = stack.enter_context(service(url, settings, folder, seal_s=seal_s))
            costs[name] = Costs(services[name].process.pid, url)
        show_progress("warming up")
        runs: dict[str, Callable[[], Sample]] = {}
        for what, (way, _) in _WAYS.items():
            for name, one in services.items():
                one.create(1, IN_FLIGHT, way)
                runs[f"{what}, {name}"] = costs[name].of(what, partial(_and_rest, one, seconds, way))
        taken = in_turns(rounds, runs)
    return Report(
        name=f"sealing, {IN_FLIGHT} in flight",
        samples={name: typical(some) for name, some in taken.items()},
        ratios=[
            ratio
            for what, (_, target) in _WAYS.items()
            for name in _EVERY_S
            if name != _OFF
            for ratio in (
                Ratio(
                    of=f"{what}, {name}, for the same processor time",
                    to=f"{what}, {_OFF}",
                    value=sum(costs[_OFF].means(what).values()) / sum(costs[name].means(what).values()),
                    target=target,
                ),
                Ratio(
                    of=f"{what}, {name}, write-ahead log",
                    to=f"{what}, {_OFF}",
                    value=costs[name].wal_kb(what) / costs[_OFF].wal_kb(what),
                    target=_WAL,
                ),
            )
        ],
        facts={f"cost of {what}, {name}": one.line(what) for what in _WAYS for name, one in costs.items()},
    )


def _and_rest(one: Service, seconds: float, way: Way) -> Sample:
    """Creates orders, and waits until their events are sealed: the round whose events they are falls into the run."""
    created = one.create(seconds, IN_FLIGHT, way)
    time.sleep(_REST_S)
    return created
