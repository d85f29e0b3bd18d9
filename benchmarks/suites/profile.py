"""The budget of an operation: processor time of the API process by stage, of the worker and of Postgres, and its WAL.

A sampler (py-spy) reads the stack of the API process while it serves a load over HTTP. A sample counts for the
innermost frame that belongs to a stage. The stage's share of all samples is its share of the processor time.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from functools import partial
from pathlib import Path
from typing import Final

from benchmarks.load import order_body
from benchmarks.load.limits import EchoLimit, echo_limit
from benchmarks.load.requests import UNIQUE
from benchmarks.measure.report import Report
from benchmarks.measure.resources import Costs, child_of
from benchmarks.measure.samples import Sample, show_progress
from benchmarks.suites.http import Service, newest_orders, order_ids, service
from benchmarks.suites.journal import IN_FLIGHT
from ledger.settings import CannotRun, Settings

OPERATIONS: Final = ("create", "create with card", "refund", "read", "first page of 20 orders")
_SAMPLES_PER_SECOND: Final = 400
_AROUND_S: Final = 1.0
"""The load begins before the sampler and ends after it, so that no sample is of an idle process."""

_HERE: Final = f"{Path(__file__).parents[2] / 'src'}/"
_FRAME: Final = re.compile(r"\((.+?):\d+\)$")
_OTHER: Final = "event loop, tasks, standard library"
_WAITING: Final = "_follow_parent "
"""The function in which a thread waits for the parent. On a busy machine the sampler takes it for one that runs."""
_STAGES: Final = (
    ("api/fields", "body: parse"),
    ("api/decoding", "body: parse"),
    ("api/http", "request and answer"),
    ("api", "resource"),
    ("ledger/domain/orders/decide", "decide"),
    ("ledger/domain/orders/evolve", "fold"),
    ("ledger/domain", "domain"),
    ("ledger/operations", "operation"),
    ("ledger/personal_data", "seal"),
    ("ledger/journal/encryption", "seal"),
    ("ledger/journal/codec", "encode events"),
    ("ledger/journal", "journal: commit and writer"),
    ("ledger/postgres", "journal: commit and writer"),
    ("ledger/processors", "sandbox processor"),
    ("projections", "read models: rows and documents"),
    ("ledger/service/child_main", _OTHER),
    ("ledger/service", "server: connections"),
    ("ledger/telemetry", "metrics and logs"),
    ("ledger", "keys, limits, money, ids"),
    ("psycopg", "Postgres client"),
    ("uvicorn", "server: connections"),
    ("starlette", "request and answer"),
)
"""The stage of a module, by the beginning of its path; the first that fits counts."""


def report(url: str, settings: Settings, folder: Path, seconds: float, names: Collection[str] = OPERATIONS) -> Report:
    """Measures each of these operations for so many seconds.

    Raises CannotRun without py-spy, or if it may not sample.
    """
    sampler = _sampler()
    facts: dict[str, str] = {}
    with service(url, settings, folder) as under_test, echo_limit() as echo:
        under_test.create(1, IN_FLIGHT)
        under_test.create(1, IN_FLIGHT, "card")
        api = child_of(under_test.process.pid, "api")
        costs = Costs(under_test.process.pid, url, echo.pid)
        body = order_body.body(f"pedido-{UNIQUE}")
        costs.of_echo(partial(EchoLimit.run, echo, body, IN_FLIGHT, min(seconds, 2)))()
        samples = {}
        for name, prepared in _operations(under_test, url).items():
            if name not in names:
                continue
            show_progress(f"profiling: {name}")
            run = prepared(seconds + 2 * _AROUND_S)
            with tempfile.NamedTemporaryFile(prefix="ledger-stacks-") as stacks:
                sampling = subprocess.Popen(
                    [*sampler, str(api), "--duration", str(max(1, round(seconds))), "--output", stacks.name],
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    text=True,
                )
                samples[name] = costs.of(name, run)()
                errors = sampling.communicate()[1]
                if sampling.returncode:
                    raise CannotRun(f"py-spy cannot sample the API process: {' '.join(errors.split())[-300:]}")
                shares = _shares(Path(stacks.name).read_text())
            facts[name] = costs.line(name)
            spent = costs.means(name)["API"]
            facts |= {f"{name}, {stage}": f"{share * spent:.1f} µs ({share:.0%})" for stage, share in shares}
    return Report(name=f"Profile, {IN_FLIGHT} in flight", samples=samples, ratios=[], facts=facts)


def _operations(under_test: Service, url: str) -> dict[str, Callable[[float], Callable[[], Sample]]]:
    """Returns the operations: each prepares a run of so many seconds."""

    def refunds(seconds: float) -> Callable[[], Sample]:
        made = under_test.create(seconds / 2, IN_FLIGHT, "card")
        return partial(under_test.refund, newest_orders(url, under_test.merchant_id, made.done), seconds, IN_FLIGHT)

    def reads(seconds: float) -> Callable[[], Sample]:
        return partial(under_test.read, order_ids(url, under_test.merchant_id), seconds, IN_FLIGHT)

    def creates(seconds: float) -> Callable[[], Sample]:
        return partial(under_test.create, seconds, IN_FLIGHT)

    def cards(seconds: float) -> Callable[[], Sample]:
        return partial(under_test.create, seconds, IN_FLIGHT, "card")

    def pages(seconds: float) -> Callable[[], Sample]:
        return partial(under_test.first_page, seconds, IN_FLIGHT)

    return dict(zip(OPERATIONS, (creates, cards, refunds, reads, pages), strict=True))


def _sampler() -> list[str]:
    """Returns the sampler's command without the process id, which the caller appends.

    Raises CannotRun if the sampler is not installed.
    """
    beside = Path(sys.executable).with_name("py-spy")
    command = str(beside) if beside.exists() else shutil.which("py-spy")
    if command is None:
        raise CannotRun(
            "python -m benchmarks profile needs py-spy: install the extra `dev`, or run `pip install py-spy`"
        )
    rate = ["--rate", str(_SAMPLES_PER_SECOND)]
    return [command, "record", *rate, "--format", "raw", "--full-filenames", "--pid"]


def _shares(stacks: str) -> Iterator[tuple[str, float]]:
    """Yields each stage with its share of the samples, the greatest first. A line is `frame;frame;… samples`."""
    spent: Counter[str] = Counter()
    for line in stacks.splitlines():
        frames, _, times = line.rpartition(" ")
        if _WAITING in frames:
            continue
        spent[_stage(frames.split(";"))] += int(times)
    for stage, samples in spent.most_common():
        yield stage, samples / spent.total()


def _stage(frames: list[str]) -> str:
    for frame in reversed(frames):
        path = _FRAME.search(frame)
        if path is None:
            continue
        file = path[1].removeprefix(_HERE).rpartition("site-packages/")[2]
        for beginning, stage in _STAGES:
            if file.startswith(beginning):
                return stage
    return _OTHER
