"""What a page of orders costs the primary if a standby answers it, beside the primary's own cost of the same page.

Both servers run on this machine, so that their rates together show nothing: compare the primary's processor time.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import psycopg
from structlog.testing import capture_logs

from benchmarks.measure.report import Ratio, Report, Target
from benchmarks.measure.resources import backends_s
from benchmarks.measure.samples import Sample, in_turns, ratio, sample, typical
from benchmarks.scratch import running_standby, scratch_database
from benchmarks.suites.search import filled
from ledger.postgres.embedded import server
from ledger.postgres.embedded.cluster import open_cluster
from ledger.postgres.embedded.data_dir import make_data_dir
from ledger.settings import Settings
from ledger.telemetry.metrics import REPLICA_READS
from projections.lists.pages import OrderQuery
from projections.queries import Queries

ORDERS: Final = 20_000
_TARGET: Final = Target(0.1, at_most=True)
_IN_FLIGHT: Final = (1, 16, 64)
_PAGES: Final[dict[str, dict[str, Any]]] = {
    "20 to 35 orders": {},
    "those of a customer": {"customer": "cliente-000100"},
    "a search": {"search": "7ab"},
}
_OWN, _REPLICA = "by the primary", "by the replica"
_CATCH_UP_S: Final = 60.0


@contextmanager
def streaming_pair(settings: Settings) -> Iterator[tuple[str, str]]:
    """Yields the owner's connection strings of a new embedded server and of its standby, which run meanwhile."""
    place = Path(tempfile.mkdtemp(prefix="bench-", dir=make_data_dir(settings.data_dir)))
    cluster = open_cluster(make_data_dir(place))
    try:
        primary = server.start(cluster)
        try:
            with running_standby(cluster.home / "standby", primary) as standby:
                yield primary.url, standby.url
        finally:
            primary.stop()
    finally:
        for folder in (cluster.sockets, cluster.home, place):
            shutil.rmtree(folder, ignore_errors=True)


def report(settings: Settings, seconds: float, rounds: int, orders: int = ORDERS) -> Report:
    """Measures pages of orders, answered by the primary and by its standby in turn."""
    with streaming_pair(settings) as (primary_url, standby_url), scratch_database(primary_url) as url, capture_logs():
        merchant_id = filled(url, orders)
        replica_url = psycopg.conninfo.make_conninfo(
            standby_url, dbname=psycopg.conninfo.conninfo_to_dict(url)["dbname"]
        )
        runs = {
            _named(page, in_flight, by): partial(
                _measure, url, replica_url if by == _REPLICA else None, merchant_id, page, seconds, in_flight
            )
            for page in _PAGES
            for in_flight in _IN_FLIGHT
            for by in (_OWN, _REPLICA)
        }
        before = _reads()
        taken = in_turns(rounds, runs)
        reads = {outcome: number - before[outcome] for outcome, number in _reads().items()}
    names = [(page, in_flight) for page in _PAGES for in_flight in _IN_FLIGHT]
    return Report(
        name=f"lists of {orders:,} orders through a replica",
        samples={name: typical(some) for name, some in taken.items()},
        ratios=[
            Ratio(
                of=_named(*name, _REPLICA),
                to=_named(*name, _OWN),
                value=ratio(taken[_named(*name, _REPLICA)], taken[_named(*name, _OWN)], _each_us),
                target=_TARGET,
            )
            for name in names
        ],
        facts={
            "reads by outcome": ", ".join(f"{number:,.0f} {outcome}" for outcome, number in reads.items()),
            **{
                f"processor time of the primary, {page}, {in_flight} in flight": " and ".join(
                    f"{_each_us(typical(taken[_named(page, in_flight, by)])):.0f} µs {by}" for by in (_OWN, _REPLICA)
                )
                for page, in_flight in names
            },
        },
    )


def _named(page: str, in_flight: int, by: str) -> str:
    return f"{page}, {in_flight} in flight, {by}"


def _each_us(one: Sample) -> float:
    return one.cpu_s / one.done * 1e6


def _reads() -> dict[str, float]:
    """Returns how many reads had each outcome."""
    (metric,) = REPLICA_READS.collect()
    return {one.labels["outcome"]: one.value for one in metric.samples if one.name.endswith("_total")}


def _measure(url: str, replica_url: str | None, merchant_id: UUID, page: str, seconds: float, in_flight: int) -> Sample:
    return asyncio.run(_measured(url, replica_url, merchant_id, page, seconds, in_flight))


async def _measured(
    url: str, replica_url: str | None, merchant_id: UUID, page: str, seconds: float, in_flight: int
) -> Sample:
    queries = Queries(url, replica_url=replica_url)
    await queries.start()
    latencies: list[float] = []
    numbers = count()

    async def read(until: float) -> None:
        while (began := time.perf_counter()) < until:
            # Pages of different lengths, because callers of the same page share it.
            query = OrderQuery(limit=20 + next(numbers) % 16, **_PAGES[page])
            await queries.orders(merchant_id, query, datetime.now(UTC))
            latencies.append(time.perf_counter() - began)

    async def run(duration_s: float) -> None:
        until = time.perf_counter() + duration_s
        await asyncio.gather(*[read(until) for _ in range(in_flight)])

    try:
        deadline = time.monotonic() + _CATCH_UP_S
        while queries.replica is not None and queries.replica.reason and time.monotonic() < deadline:  # noqa: ASYNC110 - no event
            await asyncio.sleep(0.05)
        await run(min(0.5, seconds))
        latencies.clear()
        began, before = time.perf_counter(), backends_s(url)
        await run(seconds)
        return sample(latencies, time.perf_counter() - began, cpu_s=backends_s(url) - before)
    finally:
        await queries.stop()
