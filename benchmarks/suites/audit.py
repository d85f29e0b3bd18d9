"""An audit of the whole log against a bare read of its events in the same order, by the processor time that both take."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Final, Literal

import psycopg
from uuid_utils.compat import uuid7

from benchmarks.load.auditing import AuditPlan, settings_for
from benchmarks.load.growth import fill
from benchmarks.load.processes import run_one
from benchmarks.measure.report import Ratio, Report, Target
from benchmarks.measure.resources import Costs
from benchmarks.measure.samples import Sample, in_turns, ratio, show_progress, typical
from benchmarks.scratch import scratch_database
from ledger.background.log_sealing import LogSealer
from ledger.journal.encryption.data_keys import DataKeys
from ledger.journal.encryption.sealing_keys import SealingKeys
from ledger.security.secrets import load_checkpoint_keys, load_sealing_keys
from ledger.settings import log_origin
from ledger.tlog.checkpoint_files import CheckpointFiles
from ledger.tlog.keys import LogKeys

_MODULE: Final = "benchmarks.load.auditing"
_C, _L, _A, _TWO = "bare cursor", "check of the log alone", "audit", "audit by two processes"
_AUDIT, _LOG, _PROCESSES = Target(0.2), Target(0.7), Target(1.6)
_MEMORY_MB: Final = Target(150, at_most=True)
_GROWTH: Final = Target(1.1, at_most=True)
_SMALL: Final = 10


def report(server_url: str, rounds: int, events: int) -> Report:
    """Fills a database with so many events and one with a tenth, seals them, and audits them in turn.

    The worker does not run.
    """
    with scratch_database(server_url) as url, scratch_database(server_url) as small:
        for each, size in ((small, events // _SMALL), (url, events)):
            _fill(each, size)
        costs, taken = _measure(rounds, url)
        small_peak = run_one(_MODULE, AuditPlan(url=small, what="audit")).ended
    used = {name: [_us(one, costs[name][n]) for n, one in enumerate(some)] for name, some in taken.items()}
    peak = median(one.ended for one in taken[_A])

    def share(of: str) -> float:
        return median(limit / one for one, limit in zip(used[of], used[_C], strict=True))

    return Report(
        name=f"audit, {taken[_A][0].done:,} events",
        samples={name: typical(some) for name, some in taken.items()},
        ratios=[
            Ratio(of=_A, to=_C, value=share(_A), target=_AUDIT),
            Ratio(of=_L, to=_C, value=share(_L), target=_LOG),
            Ratio(of=_TWO, to=_A, value=ratio(taken[_TWO], taken[_A], _per_second), target=_PROCESSES),
            Ratio(of="peak of the audit's process", to="1 MB", value=peak / 1e3, target=_MEMORY_MB),
            Ratio(of="the same", to=f"a {_SMALL}th of the events", value=peak / small_peak, target=_GROWTH),
        ],
        facts={
            f"processor time of {name}": f"{median(some):.1f} µs an event, of it {median(costs[name]):.1f} of Postgres"
            for name, some in used.items()
        },
    )


def _measure(rounds: int, url: str) -> tuple[dict[str, list[float]], dict[str, list[Sample]]]:
    """Returns the samples in turn, and of each the µs of Postgres for an event."""
    postgres: dict[str, list[float]] = {}

    def measured(name: str, what: Literal["audit", "log", "cursor"], workers: int) -> Callable[[], Sample]:
        def once() -> Sample:
            costs = Costs(0, url)
            one = costs.of(name, partial(run_one, _MODULE, AuditPlan(url=url, what=what, workers=workers)))()
            postgres.setdefault(name, []).append(costs.means(name)["Postgres"] * (one.ended / one.done))
            return one

        return once

    runs = {_C: measured(_C, "cursor", 1), _L: measured(_L, "log", 1), _A: measured(_A, "audit", 1)}
    taken = in_turns(rounds, {**runs, _TWO: measured(_TWO, "audit", 2)})
    return postgres, taken


def _us(one: Sample, postgres_us: float) -> float:
    return one.cpu_s / one.done * 1e6 + postgres_us


def _per_second(one: Sample) -> float:
    return one.per_second


def _fill(url: str, events: int) -> None:
    settings, merchant_id = settings_for(url), uuid7()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("insert into merchant_head (merchant_id) values (%s)", (merchant_id,))

    def keys(url: str) -> DataKeys:
        return DataKeys(url, SealingKeys(load_sealing_keys(settings)))

    fill(url, merchant_id, events, keys)
    show_progress(f"sealing {events:,} events")
    asyncio.run(_seal(url))


async def _seal(url: str) -> None:
    settings = settings_for(url)
    log_keys = LogKeys(log_origin(settings), load_checkpoint_keys(settings))
    async with LogSealer(url, log_keys, CheckpointFiles("file:///nowhere"), every_s=1.0) as sealer:
        await sealer.seal(asyncio.Event())
