"""What another API process adds: creates per second with 1, 2 and 4 of them, and what a create costs each part.

Every process adds a writer with batches of its own, and each batch has a cost of its own in Postgres. On a machine with
fewer cores than processes the rates show that the processes share them, and the costs show what more cores would allow.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final

from benchmarks.load import commits
from benchmarks.load.limits import InsertLimit
from benchmarks.measure.report import Ratio, Report
from benchmarks.measure.resources import Costs
from benchmarks.measure.samples import in_turns, ratio, typical
from benchmarks.scratch import scratch_database
from benchmarks.suites.http import service
from benchmarks.suites.journal import CLIENTS, IN_FLIGHT, per_second
from ledger.settings import Settings

PROCESSES: Final = (1, 2, 4)
_R: Final = "single INSERTs (R)"


def report(
    server_url: str, settings: Settings, seconds: float, rounds: int, numbers: Sequence[int] = PROCESSES
) -> Report:
    """Measures creates over HTTP with each number of API processes, in turns with single INSERTs."""
    with ExitStack() as stack:
        runs, costs = {}, {}
        for processes in numbers:
            url = stack.enter_context(scratch_database(server_url))
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ledger-bench-")))
            under_test = stack.enter_context(service(url, settings, folder, processes))
            under_test.create(1, IN_FLIGHT)
            name = _name(processes)
            costs[name] = Costs(under_test.process.pid, url)
            runs[name] = costs[name].of(name, partial(under_test.create, seconds, IN_FLIGHT))
        url = stack.enter_context(scratch_database(server_url))
        limit = InsertLimit(url, commits.event_bytes("order"))
        taken = in_turns(rounds, {_R: partial(limit.run, CLIENTS, seconds), **runs})
    facts = {}
    for processes in numbers:
        means = costs[_name(processes)].means(_name(processes))
        facts[_name(processes)] = (
            f"{means['API']:.0f} µs of the API processes, {means['worker']:.0f} of the worker, {means['Postgres']:.0f} of "
            f"Postgres per create; with a core for each, the API processes end at {processes * 1e6 / means['API']:,.0f}/s "
            f"and a core of Postgres at {1e6 / means['Postgres']:,.0f}/s"
        )
    return Report(
        name="Ceiling: creates by the number of API processes",
        samples={name: typical(some) for name, some in taken.items()},
        ratios=[Ratio(of=name, to=_R, value=ratio(taken[name], taken[_R], per_second)) for name in runs],
        facts=facts,
    )


def _name(processes: int) -> str:
    return f"API processes: {processes}"
