"""An audit of the whole log against a bare read of its events in the same order, by the processor time that both take."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from statistics import median
from typing import Final, Literal

import psycopg
from uuid_utils.compat import uuid7

from benchmarks.load.auditing import AuditPlan, settings_for
from benchmarks.load.fill import fill as write_orders
from benchmarks.load.growth import fill
from benchmarks.load.processes import run_one
from benchmarks.measure.report import Ratio, Report, Target
from benchmarks.measure.resources import Costs
from benchmarks.measure.samples import Sample, in_turns, ratio, show_progress, typical
from benchmarks.scratch import scratch_database
from ledger.background.log_sealing import LogSealer
from ledger.journal.encryption.data_keys import DataKeys
from ledger.journal.encryption.sealing_keys import SealingKeys
from ledger.journal.journal import Journal
from ledger.security.secrets import load_checkpoint_keys, load_sealing_keys
from ledger.settings import log_origin
from ledger.tlog.checkpoint_files import CheckpointFiles
from ledger.tlog.keys import LogKeys
from projections.inline import Inline

_MODULE: Final = "benchmarks.load.auditing"
_C, _L, _A, _TWO = "bare cursor", "check of the log alone", "audit", "audit by two processes"
_CS, _AS = "bare cursor, log with sealed events", "audit of this log"
_AUDIT, _LOG, _PROCESSES, _SEALED = Target(0.2), Target(0.7), Target(1.6), Target(0.12)
_MEMORY_MB: Final = Target(150, at_most=True)
_GROWTH: Final = Target(1.1, at_most=True)
_SMALL: Final = 10
_SEALED_ORDERS: Final = 15_000
"""How many orders the log with sealed events has: about 48,000 events. Half of the orders are paid."""

# The share of events with personal data.
_SEALED_SHARE: Final = 'select avg((substr(data, 1, 11) = \'{"sealed":"\'::bytea)::int)::float8 from event'


def report(server_url: str, rounds: int, events: int) -> Report:
    """Fills a database with so many events and one with a tenth, seals them, and audits them in turn.

    The worker does not run. A third database has
    events with personal data.
    """
    with ExitStack() as stack:
        url, small, sealed = [stack.enter_context(scratch_database(server_url)) for _ in range(3)]
        for each, size in ((small, events // _SMALL), (url, events)):
            _fill(each, size)
        sealed_share = _fill_sealed(sealed)
        costs, taken = _measure(rounds, url, sealed)
        small_peak = run_one(_MODULE, AuditPlan(url=small, what="audit")).ended
    used = {name: [_us(one, costs[name][n]) for n, one in enumerate(some)] for name, some in taken.items()}
    peak = median(one.ended for one in taken[_A])

    def share(of: str, to: str = _C) -> float:
        return median(limit / one for one, limit in zip(used[of], used[to], strict=True))

    return Report(
        name=f"audit, {taken[_A][0].done:,} events",
        samples={name: typical(some) for name, some in taken.items()},
        ratios=[
            Ratio(of=_A, to=_C, value=share(_A), target=_AUDIT),
            Ratio(of=_AS, to=_CS, value=share(_AS, _CS), target=_SEALED),
            Ratio(of=_L, to=_C, value=share(_L), target=_LOG),
            Ratio(of=_TWO, to=_A, value=ratio(taken[_TWO], taken[_A], _per_second), target=_PROCESSES),
            Ratio(of="peak of the audit's process", to="1 MB", value=peak / 1e3, target=_MEMORY_MB),
            Ratio(of="the same", to=f"a {_SMALL}th of the events", value=peak / small_peak, target=_GROWTH),
        ],
        facts={"share of events that are sealed, in the log with such": f"{sealed_share:.2f}"}
        | {
            f"processor time of {name}": f"{median(some):.1f} µs an event, of it {median(costs[name]):.1f} of Postgres"
            for name, some in used.items()
        },
    )


def _measure(rounds: int, url: str, sealed: str) -> tuple[dict[str, list[float]], dict[str, list[Sample]]]:
    """Returns the samples in turn, and of each the µs of Postgres for an event."""
    postgres: dict[str, list[float]] = {}

    def measured(
        name: str, what: Literal["audit", "log", "cursor"], workers: int = 1, of: str = url
    ) -> Callable[[], Sample]:
        def once() -> Sample:
            costs = Costs(0, of)
            one = costs.of(name, partial(run_one, _MODULE, AuditPlan(url=of, what=what, workers=workers)))()
            postgres.setdefault(name, []).append(costs.means(name)["Postgres"] * (one.ended / one.done))
            return one

        return once

    runs = {_C: measured(_C, "cursor"), _L: measured(_L, "log"), _A: measured(_A, "audit")}
    of_sealed = {_CS: measured(_CS, "cursor", of=sealed), _AS: measured(_AS, "audit", of=sealed)}
    taken = in_turns(rounds, {**runs, _TWO: measured(_TWO, "audit", 2), **of_sealed})
    return postgres, taken


def _us(one: Sample, postgres_us: float) -> float:
    return one.cpu_s / one.done * 1e6 + postgres_us


def _per_second(one: Sample) -> float:
    return one.per_second


def _keys(url: str) -> DataKeys:
    return DataKeys(url, SealingKeys(load_sealing_keys(settings_for(url))))


def _fill_sealed(url: str) -> float:
    """Writes orders with personal data, and returns the share of the events that are sealed."""
    asyncio.run(write_orders(Journal(url, Inline(), _keys(url)), uuid7(), _SEALED_ORDERS, paid_each=2))
    asyncio.run(_seal(url))
    with psycopg.connect(url) as connection:
        row = connection.execute(_SEALED_SHARE).fetchone()
    assert row is not None, "an aggregate always answers"
    return float(row[0])


def _fill(url: str, events: int) -> None:
    merchant_id = uuid7()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("insert into merchant_head (merchant_id) values (%s)", (merchant_id,))
    fill(url, merchant_id, events, _keys)
    show_progress(f"sealing {events:,} events")
    asyncio.run(_seal(url))


async def _seal(url: str) -> None:
    settings = settings_for(url)
    log_keys = LogKeys(log_origin(settings), load_checkpoint_keys(settings))
    async with LogSealer(url, log_keys, CheckpointFiles("file:///nowhere"), every_s=1.0) as sealer:
        await sealer.seal(asyncio.Event())
