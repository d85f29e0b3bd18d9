"""What Citus costs: creates, and reads of one merchant each, on a coordinator and two workers, beside one server.

The four servers share this machine, so that the rates show what a node costs and nothing of what it adds: with more
machines there are more of them. Compare processor times first.

Where Citus was not built and cannot be, the report has one line about why.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial
from itertools import count, cycle
from statistics import median
from typing import Final
from uuid import UUID

import psycopg
from campaigns.citus.build import CannotBuild
from campaigns.citus.cluster import divided_database
from msgspec import Struct
from psycopg.conninfo import make_conninfo

from benchmarks.load.commits import throwaway_keys
from benchmarks.load.fill import create_customers
from benchmarks.load.processes import event_loop
from benchmarks.measure.report import Ratio, Report, Target
from benchmarks.measure.resources import postgres_s
from benchmarks.measure.samples import Sample, in_turns, ratio, sample, typical
from benchmarks.scratch import SETTINGS, WAL_FILES, scratch_database, warm_wal
from benchmarks.suites.journal import IN_FLIGHT, open_merchants, per_second, write
from benchmarks.suites.search import filled
from ledger.journal.commit.shard_writers import writer_kind
from ledger.journal.journal import Journal
from projections.inline import Inline
from projections.lists.pages import OrderQuery
from projections.queries import Queries

SHARDS: Final = 8
MERCHANTS: Final = 64
ORDERS: Final = 20_000
"""Of the merchant whose orders are read."""

_LISTS_IN_FLIGHT: Final = 16
_READ: Final = 5_000
_PLAIN, _CITUS = "one server", "Citus"
_CREATES: Final = "creates"
_RATE: Final = Target(0.5)
_SERVERS: Final = Target(2, at_most=True)
_READS: Final = Target(0.8)


_OPEN: Final = """
select count(*) from pg_stat_activity where datname = current_database() and application_name like 'ledger-writer%'
"""


class _Database(Struct, frozen=True):
    """A database on these `servers`: one customer of each of its merchants, and the merchant whose orders are read."""

    url: str
    servers: Sequence[str]
    customers: Mapping[UUID, UUID]
    filled: UUID


_Costs = dict[str, list[float]]
"""The µs of processor time of each operation, of all servers together, by the names of the runs."""

Read = Callable[[Queries], Awaitable[object]]
"""Makes one read. Raises if it finds nothing."""


def report(server_url: str, seconds: float, rounds: int, orders: int = ORDERS) -> Report:
    """Measures both in turns. `server_url` names the one server."""
    with ExitStack() as stack:
        try:
            cluster, citus_url = stack.enter_context(divided_database(SHARDS, SETTINGS))
        except CannotBuild as reason:
            return Report(name="Citus: left out", samples={}, ratios=[], facts={"reason": str(reason)})
        nodes = [make_conninfo(node.url, dbname="ledger") for node in cluster.nodes]
        for node in nodes:
            warm_wal(node, WAL_FILES // len(nodes))
        url = stack.enter_context(scratch_database(server_url))
        of = {_PLAIN: _prepared(url, [url], orders), _CITUS: _prepared(citus_url, nodes, orders)}
        costs: _Costs = {}
        taken = in_turns(
            rounds,
            {
                _named(_CREATES, by): partial(_create, _named(_CREATES, by), one, seconds, costs)
                for by, one in of.items()
            },
        )
        reads = {by: _reads(one) for by, one in of.items()}  # some of what the creates have left
        taken |= in_turns(
            rounds,
            {
                _named(what, by): partial(_read, _named(what, by), one, reads[by][what], in_flight, seconds, costs)
                for what, in_flight in _IN_FLIGHT_OF.items()
                for by, one in of.items()
            },
        )
    return Report(
        name=f"Citus: a coordinator and two workers, {SHARDS} shards, beside one server",
        samples={name: typical(some) for name, some in taken.items()},
        ratios=_ratios(taken, costs),
        facts={
            f"processor time of {name}": f"{median(costs[name]):.0f} µs of the servers, "
            f"{median(_client_us(one) for one in some):.0f} µs of the client"
            for name, some in taken.items()
        },
    )


def _prepared(url: str, servers: Sequence[str], orders: int) -> _Database:
    merchant_id, merchants = filled(url, orders), open_merchants(url, MERCHANTS)
    customers = asyncio.run(_customers(url, merchants))
    for server in servers:
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute("vacuum (analyze)")
    return _Database(url, servers, customers, merchant_id)


async def _customers(url: str, merchants: Sequence[UUID]) -> dict[UUID, UUID]:
    journal = Journal(url, Inline(), throwaway_keys(url), new_writer=await writer_kind(url))
    created = await create_customers(journal, dict.fromkeys(merchants, 1))
    return {merchant_id: customer_id for merchant_id, (customer_id,) in created.items()}


def _named(what: str, by: str) -> str:
    return f"{what}, {by}"


def _used_s(database: _Database) -> float:
    return sum(postgres_s(server) for server in database.servers)


def _client_us(one: Sample) -> float:
    return one.cpu_s / max(1, one.done) * 1e6


def _create(name: str, database: _Database, seconds: float, costs: _Costs) -> Sample:
    merchants, customers = list(database.customers), list(database.customers.values())
    before = _used_s(database)
    one = write(database.url, "order", merchants, seconds, customers=customers)
    for server in database.servers:
        _wait_for_the_end(server)
    costs.setdefault(name, []).append((_used_s(database) - before) / max(1, one.ended) * 1e6)
    return one


def _wait_for_the_end(server: str) -> None:
    """Returns once the processes of the writers' connections have ended: what they used is counted at their end."""
    with psycopg.connect(server, autocommit=True) as connection:
        while connection.execute(_OPEN).fetchone() != (0,):
            time.sleep(0.01)
    time.sleep(0.05)  # until their parent has asked how each has ended


def _reads(database: _Database) -> dict[str, Read]:
    """Returns what is read, by its name. The merchants' orders are those that the creates have left."""
    one, of_many = (
        cycle(_orders(database.url, merchants)) for merchants in ([database.filled], list(database.customers))
    )
    numbers = count()

    async def find(queries: Queries) -> object:
        merchant_id, order_id = next(one)
        return await _found(queries, merchant_id, order_id)

    async def find_of_many(queries: Queries) -> object:
        merchant_id, order_id = next(of_many)
        return await _found(queries, merchant_id, order_id)

    async def list_page(queries: Queries, search: str | None = None) -> object:
        # Pages of different lengths, because callers of the same page share it.
        query = OrderQuery(limit=20 + next(numbers) % 16, search=search)
        return await queries.orders(database.filled, query, datetime.now(UTC))

    search = partial(list_page, search="7ab")
    reads = (find, find, find_of_many, list_page, list_page, search, search)
    return dict(zip(_IN_FLIGHT_OF, reads, strict=True))


_IN_FLIGHT_OF: Final[Mapping[str, int]] = {
    "by id, one in flight": 1,
    f"by id, {IN_FLIGHT} in flight": IN_FLIGHT,
    f"by id, {MERCHANTS} merchants, {IN_FLIGHT} in flight": IN_FLIGHT,
    "first page, one in flight": 1,
    f"first page, {_LISTS_IN_FLIGHT} in flight": _LISTS_IN_FLIGHT,
    "search, one in flight": 1,
    f"search, {_LISTS_IN_FLIGHT} in flight": _LISTS_IN_FLIGHT,
}
"""What is read, and by how many readers at once."""


async def _found(queries: Queries, merchant_id: UUID, order_id: UUID) -> object:
    order = await queries.order(merchant_id, str(order_id))
    assert order is not None, f"order {order_id} is there"
    return order


def _orders(url: str, merchants: Sequence[UUID]) -> Sequence[tuple[UUID, UUID]]:
    """Returns orders of each of these merchants in turn, as many of each."""
    statement = "select merchant_id, order_id from payment_order where merchant_id = %s limit %s"
    with psycopg.connect(url, autocommit=True) as connection:
        of_each = [connection.execute(statement, (each, _READ // len(merchants))).fetchall() for each in merchants]
    return [order for turn in zip(*of_each, strict=False) for order in turn]


def _read(name: str, database: _Database, read: Read, in_flight: int, seconds: float, costs: _Costs) -> Sample:
    one: Sample = event_loop()(_measured(name, database, read, in_flight, seconds, costs))
    return one


async def _measured(
    name: str, database: _Database, read: Read, in_flight: int, seconds: float, costs: _Costs
) -> Sample:
    queries = Queries(database.url)
    await queries.start()
    latencies: list[float] = []

    async def read_until(until: float) -> None:
        while (began := time.perf_counter()) < until:
            await read(queries)
            latencies.append(time.perf_counter() - began)

    async def run(duration_s: float) -> None:
        until = time.perf_counter() + duration_s
        await asyncio.gather(*[read_until(until) for _ in range(in_flight)])

    try:
        await run(min(0.5, seconds))
        latencies.clear()
        before = _used_s(database)
        began, used = time.perf_counter(), time.process_time()
        await run(seconds)
        used, took = time.process_time() - used, time.perf_counter() - began
        costs.setdefault(name, []).append((_used_s(database) - before) / len(latencies) * 1e6)
        return sample(latencies, took, cpu_s=used)
    finally:
        await queries.stop()


def _ratios(taken: Mapping[str, Sequence[Sample]], costs: Mapping[str, Sequence[float]]) -> list[Ratio]:
    ratios = []
    for what, target in ((_CREATES, _RATE), *((what, _READS) for what in _IN_FLIGHT_OF)):
        of, to = _named(what, _CITUS), _named(what, _PLAIN)
        servers = median(one / plain for one, plain in zip(costs[of], costs[to], strict=True))
        ratios += [
            Ratio(of=of, to=to, value=ratio(taken[of], taken[to], per_second), target=target),
            Ratio(
                of=f"{of}, processor time of all servers",
                to=to,
                value=servers,
                target=_SERVERS if what == _CREATES else None,
            ),
            Ratio(of=f"{of}, processor time of the client", to=to, value=ratio(taken[of], taken[to], _client_us)),
        ]
    return ratios
