"""Reads of the past against those of the present, and what a fold of many orders costs the creates beside it."""

from __future__ import annotations

import asyncio
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final
from uuid import UUID

import psycopg
from msgspec import Struct
from msgspec.structs import replace
from uuid_utils.compat import uuid7

from benchmarks.load.commits import new_orders
from benchmarks.load.fill import create_customers
from benchmarks.load.growth import mark_handled
from benchmarks.measure.report import Ratio, Report, Target
from benchmarks.measure.resources import Costs
from benchmarks.measure.samples import Sample, in_turns, ratio, show_progress, typical
from benchmarks.scratch import scratch_database
from benchmarks.suites.http import Service, new_merchant, service
from benchmarks.suites.journal import IN_FLIGHT, p99
from ledger.domain.orders.events import OrderDescriptionChanged
from ledger.domain.orders.evolve.order import evolve
from ledger.journal.append import Change
from ledger.journal.encryption.data_keys import DataKeys
from ledger.journal.encryption.sealing_keys import SealingKeys
from ledger.journal.journal import Journal
from ledger.security.secrets import load_sealing_keys
from ledger.settings import Settings
from projections.formats import moment
from projections.inline import Inline

ORDERS: Final = 50_000
_READ, _READ_MANY = 500, 20
_SHORT, _LONG = 5, 200
_AT_ONCE: Final = 64
_QUIET_S: Final = 11.0
"""The position of a time is searched among the events of ten seconds: no merchant has as many as this fill in those."""
_READ_SHORT, _READ_LONG = f"order of {_SHORT} events", f"order of {_LONG} events"
_PAGE, _CREATE = "page of 20 orders", "create"
_AS_OF: Final = "{} as of a time"
_TARGETS: Final = {
    _READ_SHORT: Target(5, at_most=True),
    _READ_LONG: Target(40, at_most=True),
    _PAGE: Target(30, at_most=True),
}
_TAIL: Final = Target(1.5, at_most=True)


class _Filled(Struct, frozen=True):
    """A merchant's orders, of which every one has a last event after the time `at`: those to read, by their length."""

    short: list[UUID]
    long: list[UUID]
    at: datetime


def report(server_url: str, settings: Settings, seconds: float, rounds: int, orders: int = ORDERS) -> Report:
    """Measures reads one at a time, and creates beside a list that folds so many orders, again and again."""
    alone, beside = f"{_CREATE}, {IN_FLIGHT} in flight", f"{_CREATE} beside a fold of {orders:,} orders"
    folds: list[float] = []
    with scratch_database(server_url) as url, tempfile.TemporaryDirectory(prefix="ledger-bench-") as folder:
        merchant_id, key = new_merchant(url, Path(folder))
        of_service = replace(settings, data_dir=Path(folder), environment="sandbox")
        keys = DataKeys(url, SealingKeys(load_sealing_keys(of_service)))
        filled = asyncio.run(_filled(url, keys, merchant_id, orders))
        with psycopg.connect(url, autocommit=True) as connection:
            mark_handled(connection)
            connection.execute("vacuum (analyze)")
        with service(url, settings, Path(folder)) as running:
            under_test = running.of_merchant(merchant_id, key)
            costs, reads = Costs(under_test.process.pid, url), _reads(under_test, filled, seconds)
            for run in reads.values():
                run()
            taken = in_turns(
                rounds,
                {name: costs.of(name, run) for name, run in reads.items()}
                | {
                    alone: partial(under_test.create, seconds, IN_FLIGHT),
                    beside: partial(_beside_a_fold, under_test, filled.at, seconds, folds),
                },
            )
    ratios = [
        Ratio(
            of=f"{_AS_OF.format(name)}, processor time",
            to=name,
            value=_cost(costs, _AS_OF.format(name)) / _cost(costs, name),
            target=target,
        )
        for name, target in _TARGETS.items()
    ]
    ratios.append(Ratio(of=f"{beside}, p99", to=alone, value=ratio(taken[beside], taken[alone], p99), target=_TAIL))
    return Report(
        name=f"past, {orders:,} orders that have changed since",
        samples={name: typical(some) for name, some in taken.items()},
        ratios=ratios,
        facts={f"cost of {name}": costs.line(name) for name in reads}
        | {"a list that folds all of them": f"{min(folds):.1f} s beside the creates"},
    )


def _reads(under_test: Service, filled: _Filled, seconds: float) -> dict[str, Callable[[], Sample]]:
    query = f"asOf={moment(filled.at)}"
    return {
        _READ_SHORT: partial(under_test.read, filled.short, seconds, 1),
        _AS_OF.format(_READ_SHORT): partial(under_test.read_as_of, filled.short, query, seconds, 1),
        _READ_LONG: partial(under_test.read, filled.long, seconds, 1),
        _AS_OF.format(_READ_LONG): partial(under_test.read_as_of, filled.long, query, seconds, 1),
        _PAGE: partial(under_test.first_page, seconds, 1),
        _AS_OF.format(_PAGE): partial(under_test.list_orders, query, seconds, 1),
    }


def _cost(costs: Costs, name: str) -> float:
    parts = costs.means(name)
    return parts["API"] + parts["Postgres"]


def _beside_a_fold(under_test: Service, at: datetime, seconds: float, folds: list[float]) -> Sample:
    """Creates orders while lists of one status fold every order, one after the other."""
    ended = threading.Event()

    def fold() -> None:
        while not ended.is_set():
            began = time.perf_counter()
            under_test.list_orders(f"asOf={moment(at)}&status=PENDING", 0.1, 1)
            folds.append(time.perf_counter() - began)

    folding = threading.Thread(target=fold)
    folding.start()
    try:
        return under_test.create(seconds, IN_FLIGHT)
    finally:
        ended.set()
        folding.join()


async def _filled(url: str, keys: DataKeys, merchant_id: UUID, orders: int) -> _Filled:
    """Writes orders of a merchant, some with several changes, then a change of each after the time."""
    customers = (await create_customers(Journal(url, Inline(), keys), {merchant_id: orders // 50 or 1}))[merchant_id]
    journal, make = Journal(url, Inline(), keys), new_orders(customers)
    await journal.start()
    created: list[Change] = []
    numbers = iter(range(orders))

    async def create() -> None:
        for _ in numbers:
            changes, claims = make()
            await journal.commit(merchant_id, uuid7(), changes, claims)
            created.extend(changes)

    async def change(wanted: Iterator[Change], times: int) -> None:
        for last in wanted:
            for _ in range(times):
                last = await _change(journal, merchant_id, last)  # noqa: PLW2901 - the change before
            newest[last.stream_id] = last

    newest: dict[UUID, Change] = {}
    show_progress(f"creating {orders:,} orders")
    await asyncio.gather(*[create() for _ in range(_AT_ONCE)])
    newest |= {each.stream_id: each for each in created}
    short, long = (
        [each.stream_id for each in created[:_READ]],
        [each.stream_id for each in created[_READ:][:_READ_MANY]],
    )
    for order_ids, length in ((short, _SHORT), (long, _LONG)):
        wanted = iter([newest[order_id] for order_id in order_ids])
        await asyncio.gather(*[change(wanted, length - 2) for _ in range(_AT_ONCE)])
    show_progress("waiting until no event was recorded within the difference that clocks may have")
    await asyncio.sleep(_QUIET_S)
    at = datetime.now(UTC)
    await asyncio.sleep(0.01)
    show_progress(f"changing {orders:,} orders")
    every = iter(list(newest.values()))
    await asyncio.gather(*[change(every, 1) for _ in range(_AT_ONCE)])
    await journal.stop()
    return _Filled(short, long, at)


async def _change(journal: Journal, merchant_id: UUID, last: Change) -> Change:
    """Changes an order once more, and returns the change."""
    version, before = last.expected + len(last.events), last.after
    event = OrderDescriptionChanged(description=f"Pedido {version}", at=datetime.now(UTC))
    change = Change(last.stream_id, version, [event], before, evolve(before, event))
    await journal.commit(merchant_id, uuid7(), [change])
    return change
