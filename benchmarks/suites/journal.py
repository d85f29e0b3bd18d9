"""How fast the journal commits, against single INSERTs of the same event (R), with many merchants and several
processes.

R is measured with 32 clients, the number with which it was fastest, and the journal with 64 commands in flight. Both
write into the same table, in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final
from uuid import UUID

import psycopg
from uuid_utils.compat import uuid7

from benchmarks.load import commits
from benchmarks.load.commits import Shape
from benchmarks.load.limits import InsertLimit
from benchmarks.load.processes import run_together
from benchmarks.measure.report import Ratio, Report, Target
from benchmarks.measure.samples import Sample, in_turns, ratio, show_progress, together, typical

CLIENTS: Final = 32
IN_FLIGHT: Final = 64
MERCHANTS: Final = (1, 50, 10_000)
PROCESSES: Final = (1, 2, 4)

# The targets of the journal, by shape: throughput against R, p99 against R's.
_THROUGHPUT: Final[dict[Shape, Target]] = {"lean": Target(1.1), "order": Target(0.9)}
_P99: Final[dict[Shape, Target | None]] = {"lean": None, "order": Target(2, at_most=True)}
_ONE_P50: Final = Target(3.5, at_most=True)


def per_second(one: Sample) -> float:
    """Returns the throughput, for `ratio`."""
    return one.per_second


def p50(one: Sample) -> float:
    """Returns the median latency, for `ratio`."""
    return one.p50_ms


def p99(one: Sample) -> float:
    """Returns the latency that one in a hundred exceeds, for `ratio`."""
    return one.p99_ms


def residual_p99(one: Sample) -> float:
    """Returns the wait that is left to one in a hundred clients at a random moment, for `ratio`."""
    return one.residual_p99_ms


def open_merchants(url: str, count: int) -> list[UUID]:
    """Returns new merchants with an empty log each."""
    merchants = [uuid7() for _ in range(count)]
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(commits.LEAN_DDL)
        connection.execute("insert into merchant_head (merchant_id) select unnest(%s::uuid[])", [merchants])
    return merchants


def write(
    url: str,
    shape: Shape,
    merchants: Sequence[UUID],
    seconds: float,
    in_flight: int = IN_FLIGHT,
    processes: int = 1,
    customers: Sequence[UUID] = (),
) -> Sample:
    """Measures commits of a shape; each of several processes has `in_flight` of its own."""
    plan = commits.CommitPlan(
        url=url,
        shape=shape,
        merchants=list(merchants),
        customers=list(customers),
        in_flight=in_flight,
        seconds=seconds,
    )
    return together(run_together("benchmarks.load.commits", [plan] * processes))


def shape_report(url: str, shape: Shape, seconds: float, rounds: int) -> Report:
    """Measures one shape of command against R, many in flight and one."""
    merchants = open_merchants(url, 1)
    limit = InsertLimit(url, event := commits.event_bytes(shape))
    many, one = f"journal, {IN_FLIGHT} in flight", "journal, one in flight"
    limit_many, limit_one = f"R: INSERT, {CLIENTS} clients", "INSERT, one client"
    runs: dict[str, Callable[[], Sample]] = {
        limit_many: partial(limit.run, CLIENTS, seconds),
        many: partial(write, url, shape, merchants, seconds),
        limit_one: partial(limit.run, 1, seconds),
        one: partial(write, url, shape, merchants, seconds, in_flight=1),
    }
    taken = in_turns(rounds, runs)
    ratios = [
        compare(taken, many, limit_many, per_second, _THROUGHPUT[shape]),
        compare(taken, many, limit_many, p99, _P99[shape]),
        compare(taken, one, limit_one, p50, _ONE_P50),
    ]
    samples = {name: typical(some) for name, some in taken.items()}
    return Report(name=f"journal, {shape}", samples=samples, ratios=ratios, facts={"event": f"{len(event)} bytes"})


def compare(
    taken: Mapping[str, Sequence[Sample]], of: str, to: str, what: Callable[[Sample], float], target: Target | None
) -> Ratio:
    """Returns the ratio of two runs by throughput or by a latency, which their names then show."""
    shown = "" if what is per_second else f", {what.__name__.replace('_', ' ')}"
    return Ratio(of=of + shown, to=to + shown, value=ratio(taken[of], taken[to], what), target=target)


def spread_report(url: str, seconds: float) -> Report:
    """Measures the README's order with one merchant and many, one process and several."""
    limit = InsertLimit(url, commits.event_bytes("order"))
    samples: dict[str, Sample] = {}
    ratios: list[Ratio] = []
    for count in MERCHANTS:
        merchants = open_merchants(url, count)
        for processes in PROCESSES:
            name = f"{count:,} merchant{'s'[: count > 1]}, {processes} process{'es'[: 2 * (processes > 1)]}"
            show_progress(name)
            single = limit.run(CLIENTS, seconds)
            samples[name] = write(url, "order", merchants, seconds, processes=processes)
            value = ratio([samples[name]], [single], per_second)
            ratios.append(Ratio(of=name, to=f"R: {single.per_second:,.0f}/s", value=value))
    return Report(name=f"journal, spread ({IN_FLIGHT} in flight per process)", samples=samples, ratios=ratios)


def reports(url: str, seconds: float, rounds: int) -> list[Report]:
    """Measures everything about the journal, on one database."""
    return [
        shape_report(url, "lean", seconds, rounds),
        shape_report(url, "order", seconds, rounds),
        spread_report(url, seconds),
    ]
