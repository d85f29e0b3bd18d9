"""A rebuild of orders that all differ, against the comparison alone; and how long commits wait beside it."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import Final
from uuid import UUID

import psycopg
from uuid_utils.compat import uuid7

from benchmarks.load.commits import new_orders, throwaway_keys
from benchmarks.load.growth import fill
from benchmarks.load.processes import run_one
from benchmarks.load.rebuilding import RebuildPlan
from benchmarks.measure.report import Ratio, Report, Target
from benchmarks.measure.samples import Sample, in_turns, ratio, sample, show_progress, typical
from benchmarks.scratch import scratch_database
from ledger.journal.journal import Journal
from projections.inline import Inline

EVENTS: Final = 100_000
_MODULE: Final = "benchmarks.load.rebuilding"
_ORDERS: Final = ["payment_order"]
_IN_FLIGHT: Final = 4
_KEPT: Final = Target(0.6)
_WAIT: Final = Target(0.2, at_most=True)
_C, _R, _B = "comparison of orders", "rebuild of orders", "creates beside a rebuild"

# Every order is as an earlier release might have rendered it.
_DAMAGE: Final = "update payment_order set payments = ''"


def report(server_url: str, rounds: int, events: int = EVENTS) -> Report:
    """Fills a database with so many events, and rebuilds its orders in each round. The worker does not run."""
    with scratch_database(server_url) as url:
        merchant_id = uuid7()
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("insert into merchant_head (merchant_id) values (%s)", (merchant_id,))
        filled = fill(url, merchant_id, events)
        waits: list[float] = []
        taken = in_turns(
            rounds,
            {
                _C: partial(_compared, url),
                _R: partial(_rebuilt, url),
                _B: partial(_beside, url, merchant_id, waits),
            },
        )
    return Report(
        name=f"rebuild, {filled.events:,} events",
        samples={name: typical(some) for name, some in taken.items()},
        ratios=[
            Ratio(of=_R, to=_C, value=ratio(taken[_R], taken[_C], _per_second), target=_KEPT),
            Ratio(
                of=f"longest wait of {_IN_FLIGHT} clients beside a rebuild", to="1 s", value=max(waits), target=_WAIT
            ),
        ],
        facts={"processor time of the rebuild's own process": f"{_cpu_us(taken[_R]):.0f} µs an order"},
    )


def _per_second(one: Sample) -> float:
    return one.per_second


def _cpu_us(taken: list[Sample]) -> float:
    one = typical(taken)
    return one.cpu_s / one.done * 1e6


def _damage(url: str) -> None:
    show_progress("damaging every order")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(_DAMAGE)
        connection.execute("vacuum payment_order")


def _compared(url: str) -> Sample:
    return run_one(_MODULE, RebuildPlan(url=url, tables=_ORDERS, writes=False))


def _rebuilt(url: str) -> Sample:
    _damage(url)
    done = run_one(_MODULE, RebuildPlan(url=url, tables=_ORDERS, writes=True))
    assert done.ended == done.done, "every order differed"
    return done


def _beside(url: str, merchant_id: UUID, waits: list[float]) -> Sample:
    """Creates orders of the merchant that is rebuilt, until that has ended."""
    _damage(url)
    return asyncio.run(_creates(url, merchant_id, waits))


async def _creates(url: str, merchant_id: UUID, waits: list[float]) -> Sample:
    journal = Journal(url, Inline(), throwaway_keys(url))
    await journal.start()
    make, latencies = new_orders(), list[float]()
    rebuilding = asyncio.create_task(
        asyncio.to_thread(run_one, _MODULE, RebuildPlan(url=url, tables=_ORDERS, writes=True))
    )
    began = time.perf_counter()

    async def create() -> None:
        while not rebuilding.done():
            sent = time.perf_counter()
            await journal.commit(merchant_id, uuid7(), *make())
            latencies.append(time.perf_counter() - sent)

    await asyncio.gather(*(create() for _ in range(_IN_FLIGHT)))
    await rebuilding
    await journal.stop()
    waits.append(max(latencies))
    return sample(latencies, time.perf_counter() - began)
