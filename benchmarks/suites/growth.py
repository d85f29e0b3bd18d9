"""Whether the service keeps its speed as it grows: the same load on databases of several sizes, in turn.

A size has events, a merchant that has a tenth as many orders, and a merchant for each thousand events: at ten million
events, a million orders of one merchant and ten thousand merchants. Each size has a service of its own, which runs all
the time, and each figure is a ratio to the smallest size in the same round. A throughput alone does not prove that no
table is scanned: the server's counters of scans and of rows read are part of the result.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Final
from uuid import UUID

import psycopg
from msgspec import Struct

from benchmarks.load import commits, growth, order_body
from benchmarks.load.growth import Filled
from benchmarks.load.history import external_id
from benchmarks.load.limits import EchoLimit, InsertLimit, echo_limit
from benchmarks.load.requests import UNIQUE
from benchmarks.measure import curve
from benchmarks.measure.budget import MEMORY
from benchmarks.measure.report import Ratio, Report, Target
from benchmarks.measure.resources import Costs, child_of, resident_mb
from benchmarks.measure.samples import Sample, in_turns, ratio, show_progress, typical
from benchmarks.scratch import scratch_database
from benchmarks.suites.http import Service, new_merchant, service
from benchmarks.suites.journal import CLIENTS, IN_FLIGHT, per_second, write
from ledger.settings import Settings

EVENTS: Final = 1_000_000
SIZES: Final = (10_000, 1_000_000, 10_000_000)
_LISTS_IN_FLIGHT: Final = 8
_READ: Final = 5_000
_WARM_MAX_S: Final = 120.0
_APPENDED_TO: Final = growth.OTHERS_MIN

_R, _E = f"R: INSERT, {CLIENTS} clients", f"E: echo, {IN_FLIGHT} in flight"
_APPEND: Final = "append"
_KEPT: Final[dict[str, Target | None]] = {
    _APPEND: Target(0.9),
    "create": None,
    "read by id": Target(0.9),
    "first page": Target(0.8),
    "totals": Target(0.8),
    "search": None,
}
"""The measurements, and what share of the smallest size's speed each is to keep."""

JOURNAL: Final = ("event", "claim", "merchant_head")
_LARGE: Final = ("event", "claim", "payment_order")
_COUNTERS: Final = """
select coalesce(sum(seq_scan), 0), coalesce(sum(seq_tup_read), 0) from pg_stat_user_tables where relname = any(%s)
"""
_IDS: Final = """
select o.order_id from unnest(%s::text[]) as wanted(key) cross join lateral (
  select stream_id as order_id from claim where merchant_id = %s and kind = 1 and key = wanted.key limit 1) o
"""


class _Size(Struct, frozen=True):
    """A size under test, by the events that were asked for."""

    events: int
    url: str
    filled: Filled
    service: Service

    @property
    def name(self) -> str:
        return name_of(self.events)

    @property
    def label(self) -> str:
        """What the size is, for the picture."""
        merchants = len(self.filled.others) + 1
        return f"{self.name} events\n{merchants:,} merchants\nlargest: {self.filled.orders:,} orders"


def name_of(events: int) -> str:
    """Returns a number of events in short: 10 thousand, 1 million."""
    if events >= 999_500:
        return f"{events / 1e6:.3g} million"
    return f"{events / 1e3:.3g} thousand"


def report(
    server_url: str, settings: Settings, seconds: float, rounds: int, events: int = EVENTS, picture: Path | None = None
) -> Report:
    """Measures every size up to `events`, and draws the processor time of each operation into the file `picture`."""
    with ExitStack() as stack:
        sizes = [_open(stack, server_url, settings, size) for size in (*(n for n in SIZES if n < events), events)]
        echo = stack.enter_context(echo_limit())
        before = [scans(size.url, _LARGE) for size in sizes]
        limit = InsertLimit(stack.enter_context(scratch_database(server_url)), commits.event_bytes("order"))
        body = order_body.body(f"pedido-{UNIQUE}")
        runs: dict[str, Callable[[], Sample]] = {
            _R: partial(limit.run, CLIENTS, seconds),
            _E: partial(EchoLimit.run, echo, body, IN_FLIGHT, seconds),
        }
        for size in sizes:
            size.service.create(min(seconds, 1), IN_FLIGHT)
            size.service.create(0.2, IN_FLIGHT, "card")
        read = [_order_ids(size) for size in sizes]
        measured = [_runs(size, ids, seconds) for size, ids in zip(sizes, read, strict=True)]
        for size, ids, once in zip(sizes, read, measured, strict=True):
            show_progress(f"bringing into memory what is measured: {size.name} events")
            size.service.read(ids, _WARM_MAX_S, IN_FLIGHT, uses=1)
            for run in once.values():
                run()
        costs = [Costs(size.service.process.pid, size.url) for size in sizes]
        for what in _KEPT:  # the sizes of a measurement follow each other
            for n, size in enumerate(sizes):
                runs[f"{what}, {size.name}"] = costs[n].of(what, measured[n][what])
        taken = in_turns(rounds, runs)
        memory = [resident_mb(child_of(size.service.process.pid, "api")) for size in sizes]
        scanned = [scans(size.url, _LARGE)[1] - rows for size, (_, rows) in zip(sizes, before, strict=True)]
    shares = {what: [_share(taken, what, size, sizes[0]) for size in sizes] for what in _KEPT}
    used = {what: [_cost(costs[0], what) / _cost(of_size, what) for of_size in costs] for what in _KEPT}
    if picture is not None:
        title = f"Operations for the same processor time, as a share of those with {sizes[0].name} events"
        picture.write_text(curve.draw(title, {size.events: size.label for size in sizes}, used))
    ratios = [
        Ratio(of=f"{what}, {size.name} events", to=sizes[0].name, value=shares[what][n], target=target)
        for what, target in _KEPT.items()
        for n, size in enumerate(sizes)
        if n
    ]
    ratios += [
        Ratio(of=f"API process, resident, {size.name} events", to="1 MB", value=held, target=MEMORY)
        for size, held in zip(sizes, memory, strict=True)
    ]
    ratios += [
        Ratio(of=f"{what}, {size.name} events, for the same processor time", to=sizes[0].name, value=used[what][n])
        for what in _KEPT
        for n, size in enumerate(sizes)
        if n
    ]
    limits = {what: _E if what in ("read by id", "first page") else _R for what in _KEPT}
    return Report(
        name=f"growth, {IN_FLIGHT} in flight (totals and search {_LISTS_IN_FLIGHT})",
        samples={name: typical(some) for name, some in taken.items()},
        ratios=ratios,
        facts={
            f"{size.name} events": f"{size.filled.events:,}, {size.filled.orders:,} orders of one merchant, "
            f"{len(size.filled.others) + 1:,} merchants, {size.filled.size_gb:.2f} GB; {scanned[n]:,} rows of large tables scanned"
            for n, size in enumerate(sizes)
        }
        | {
            f"cost of {what}, {size.name}": costs[n].line(what)
            for what in _KEPT
            for n, size in enumerate(sizes)
            if what != _APPEND
        },
        shares={
            "of its limit": {
                f"{what}, {size.name}": ratio(taken[f"{what}, {size.name}"], taken[limits[what]], per_second)
                for what in _KEPT
                for size in sizes
            },
            "of the smallest": {
                f"{what}, {size.name}": shares[what][n] for what in _KEPT for n, size in enumerate(sizes)
            },
        },
    )


def _open(stack: ExitStack, server_url: str, settings: Settings, events: int) -> _Size:
    """Fills a database and starts a service on it, both until the stack is closed."""
    url = stack.enter_context(scratch_database(server_url))
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ledger-bench-")))
    merchant_id, key = new_merchant(url, folder)
    filled = growth.fill(url, merchant_id, events)
    under_test = stack.enter_context(service(url, settings, folder))
    return _Size(events, url, filled, under_test.of_merchant(merchant_id, key))


def _order_ids(size: _Size) -> list[UUID]:
    """Returns the orders to read: at most `_READ`, evenly from all that the large merchant has."""
    orders = size.filled.orders
    keys = [external_id(n * orders // min(orders, _READ)) for n in range(min(orders, _READ))]
    with psycopg.connect(size.url) as connection:
        return [order_id for (order_id,) in connection.execute(_IDS, [keys, size.filled.merchant_id])]


def _runs(size: _Size, ids: list[UUID], seconds: float) -> Mapping[str, Callable[[], Sample]]:
    orders = size.filled.orders
    others = list(size.filled.others)[:_APPENDED_TO]
    customers = [size.filled.others[other] for other in others]
    now = datetime.now(UTC)
    first, last = now - timedelta(minutes=orders * 0.9), now - timedelta(minutes=orders * 0.1)
    dates = f"dateFrom={first:%Y-%m-%dT%H:%M:%SZ}&dateTo={last:%Y-%m-%dT%H:%M:%SZ}"
    listed = partial(size.service.list_orders, seconds=seconds, in_flight=_LISTS_IN_FLIGHT)
    return {
        _APPEND: partial(write, size.url, "order", others, seconds, customers=customers),
        "create": partial(size.service.create, seconds, IN_FLIGHT),
        "read by id": partial(size.service.read, ids, seconds, IN_FLIGHT),
        "first page": partial(size.service.first_page, seconds, IN_FLIGHT),
        "totals": partial(listed, f"limit=1&status=COMPLETED&{dates}"),
        "search": partial(listed, f"search={size.filled.middle}"),
    }


def _cost(costs: Costs, what: str) -> float:
    """Returns the processor time of an operation, in µs: of Postgres, and of the API process if it serves it."""
    parts = costs.means(what)
    return parts["Postgres"] + (parts["API"] if what != _APPEND else 0)


def _share(taken: Mapping[str, Sequence[Sample]], what: str, size: _Size, smallest: _Size) -> float:
    return ratio(taken[f"{what}, {size.name}"], taken[f"{what}, {smallest.name}"], per_second)


def scans(url: str, tables: Sequence[str]) -> tuple[int, int]:
    """Returns the tables' sequential scans so far, and the rows read by them."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("select pg_stat_force_next_flush()")
        row = connection.execute(_COUNTERS, [list(tables)]).fetchone()
    assert row is not None, "an aggregate always answers"
    return int(row[0]), int(row[1])
