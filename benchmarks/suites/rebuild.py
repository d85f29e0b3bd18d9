"""A rebuild of orders that all differ, against the comparison of every read model; and how long commits wait beside it.

What is compared is the processor time of the rebuild's process and of Postgres.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from functools import partial
from statistics import median
from typing import Any, Final
from uuid import UUID

import psycopg
from uuid_utils.compat import uuid7

from benchmarks.load.commits import new_orders, throwaway_keys
from benchmarks.load.growth import fill
from benchmarks.load.processes import run_one
from benchmarks.load.rebuilding import RebuildPlan
from benchmarks.measure.report import Ratio, Report, Target
from benchmarks.measure.resources import postgres_s
from benchmarks.measure.samples import Sample, in_turns, sample, show_progress, typical
from benchmarks.scratch import scratch_database
from ledger.journal.journal import Journal
from projections.inline import Inline
from projections.read_models import NAMES, ORDERS

EVENTS: Final = 100_000
_MODULE: Final = "benchmarks.load.rebuilding"
_ORDERS: Final = [ORDERS]
_IN_FLIGHT: Final = 4
_KEPT: Final = Target(0.6)
_WAIT: Final = Target(0.2, at_most=True)
_C, _R = "comparison of every read model", "rebuild of orders"
_A, _B = "creates alone", "creates beside a rebuild"

# Every order is as an earlier release might have rendered it.
_DAMAGE: Final = "update payment_order set payments = ''"


def report(server_url: str, seconds: float, rounds: int, events: int = EVENTS) -> Report:
    """Fills a database with so many events, and rebuilds its orders in each round. The worker does not run."""
    with scratch_database(server_url) as url:
        merchant_id = uuid7()
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("insert into merchant_head (merchant_id) values (%s)", (merchant_id,))
        filled = fill(url, merchant_id, events)
        waits: list[float] = []
        alone: list[float] = []
        costs: dict[str, list[float]] = {_C: [], _R: []}
        taken = in_turns(
            rounds,
            {
                _C: partial(_compared, url, costs[_C]),
                _R: partial(_rebuilt, url, costs[_R]),
                _A: partial(_alone, url, merchant_id, seconds, alone),
                _B: partial(_beside, url, merchant_id, waits),
            },
        )
    share = median(compared / rebuilt for compared, rebuilt in zip(costs[_C], costs[_R], strict=True))
    return Report(
        name=f"rebuild, {filled.events:,} events",
        samples={name: typical(some) for name, some in taken.items()},
        ratios=[
            Ratio(of=f"{_R}, by processor time", to=_C, value=share, target=_KEPT),
            Ratio(
                of=f"longest wait of {_IN_FLIGHT} clients beside a rebuild", to="1 s", value=max(waits), target=_WAIT
            ),
        ],
        facts={"longest wait of creates alone": f"{max(alone):.3f} s"}
        | {f"processor time of {name}": f"{median(some):.0f} µs an order" for name, some in costs.items()},
    )


def _damage(url: str) -> None:
    show_progress("damaging every order")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(_DAMAGE)
        connection.execute("vacuum payment_order")


def _compared(url: str, costs: list[float]) -> Sample:
    return _run(url, RebuildPlan(url=url, tables=list(NAMES), writes=False), costs)


def _rebuilt(url: str, costs: list[float]) -> Sample:
    _damage(url)
    done = _run(url, RebuildPlan(url=url, tables=_ORDERS, writes=True), costs)
    assert done.ended == done.done, "every order differed"
    return done


def _run(url: str, plan: RebuildPlan, costs: list[float]) -> Sample:
    """Runs it, and adds to `costs` the µs of processor time for an order: of its process, and of Postgres."""
    before = postgres_s(url)
    done = run_one(_MODULE, plan)
    costs.append((done.cpu_s + postgres_s(url) - before) / done.done * 1e6)
    return done


def _alone(url: str, merchant_id: UUID, seconds: float, waits: list[float]) -> Sample:
    return asyncio.run(_creates(url, merchant_id, asyncio.sleep(seconds), waits))


def _beside(url: str, merchant_id: UUID, waits: list[float]) -> Sample:
    """Creates orders of the merchant that is rebuilt, until that has ended."""
    _damage(url)
    rebuilding = asyncio.to_thread(run_one, _MODULE, RebuildPlan(url=url, tables=_ORDERS, writes=True))
    return asyncio.run(_creates(url, merchant_id, rebuilding, waits))


async def _creates(url: str, merchant_id: UUID, beside: Coroutine[Any, Any, Any], waits: list[float]) -> Sample:
    """Creates orders until something else has ended, and adds the longest wait to `waits`."""
    journal = Journal(url, Inline(), throwaway_keys(url))
    await journal.start()
    make, latencies = new_orders(), list[float]()
    running = asyncio.create_task(beside)
    began = time.perf_counter()

    async def create() -> None:
        while not running.done():
            sent = time.perf_counter()
            await journal.commit(merchant_id, uuid7(), *make())
            latencies.append(time.perf_counter() - sent)

    await asyncio.gather(*(create() for _ in range(_IN_FLIGHT)))
    await running
    await journal.stop()
    waits.append(max(latencies))
    return sample(latencies, time.perf_counter() - began)
