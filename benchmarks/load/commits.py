"""A process that commits to the journal as fast as it can, with a fixed number of commands in flight.

A command does all the work that it does in the service, deciding, folding, encoding and rendering included. Only HTTP
is left out.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import cycle
from typing import Final, Literal
from uuid import UUID

from msgspec import Struct
from msgspec.structs import replace
from uuid_utils.compat import uuid7

from benchmarks.load import order_body
from benchmarks.load.processes import Go, work
from benchmarks.measure.samples import Sample, sample
from ledger.domain.fold import fold
from ledger.domain.orders.decide.payments import decide_create
from ledger.domain.orders.evolve.order import evolve
from ledger.domain.streams import ClaimKind
from ledger.journal.append import Append, Change, Claim, StreamWrite
from ledger.journal.codec import CODEC, Codec, postgres_micros
from ledger.journal.commit.shard_writers import writer_kind
from ledger.journal.encryption.data_keys import DataKeys
from ledger.journal.encryption.sealing_keys import SealingKeys
from ledger.journal.inline import InlineProjections, InlineTable, Row
from ledger.journal.journal import Journal

Shape = Literal["lean", "order", "unsearched"]
"""`lean`: an event of 300 bytes and a small row. `order`: the README's order. `unsearched`: without search lines."""


class CommitPlan(Struct, frozen=True, kw_only=True):
    """Commands of a shape for the merchants in turn, `in_flight` at a time, for `seconds` after `warm_up_s`.

    `customers` are one of each merchant, whose orders are created; without them, orders name a customer without a row.
    """

    url: str
    shape: Shape
    merchants: list[UUID]
    customers: list[UUID] = []
    in_flight: int
    seconds: float
    warm_up_s: float = 0.3


class LeanHappened(Struct, frozen=True, kw_only=True):
    """An event of 300 bytes."""

    order_id: UUID
    at: datetime
    note: str = "x" * 204


LEAN_DDL: Final = """
create table if not exists bench_row (
  merchant_id uuid not null, stream_id uuid not null, version int4 not null, status text not null, amount int8 not null,
  updated_at timestamptz not null, primary key (merchant_id, stream_id))
"""
LEAN_TABLE: Final = InlineTable(
    "bench_row",
    (
        ("merchant_id", "uuid"),
        ("stream_id", "uuid"),
        ("version", "int4"),
        ("status", "text"),
        ("amount", "int8"),
        ("updated_at", "timestamptz"),
    ),
    "insert into bench_row (merchant_id, stream_id, version, status, amount, updated_at)"
    " select merchant_id, stream_id, version, status, amount, updated_at from {rows}"
    " on conflict (merchant_id, stream_id) do update"
    " set version = excluded.version, status = excluded.status, amount = excluded.amount, updated_at = excluded.updated_at",
)
_LEAN_CODEC: Final = Codec({"lean-happened.v1": LeanHappened})


class _LeanRows:
    """The small read model of the lean event."""

    tables: Sequence[InlineTable] = (LEAN_TABLE,)

    def rows(self, merchant_id: UUID, change: Change) -> Mapping[str, Sequence[Row]]:
        (event,) = change.events
        assert isinstance(event, LeanHappened)
        version = change.expected + 1
        row = (merchant_id.bytes, change.stream_id.bytes, version, b"PENDING", 10_000, postgres_micros(event.at))
        return {LEAN_TABLE.name: [row]}


class _Without:
    """Read models without one table."""

    def __init__(self, projections: InlineProjections, table: str) -> None:
        self._all, self._table = projections, table
        self.tables: Sequence[InlineTable] = [one for one in projections.tables if one.name != table]
        assert len(self.tables) < len(projections.tables), f"there is no table {table}"

    def rows(self, merchant_id: UUID, change: Change) -> Mapping[str, Sequence[Row]]:
        return {name: rows for name, rows in self._all.rows(merchant_id, change).items() if name != self._table}


Command = tuple[Sequence[Change], Sequence[Claim]]


def _lean() -> Command:
    stream_id = uuid7()
    return [Change(stream_id, 0, [LeanHappened(order_id=stream_id, at=datetime.now(UTC))], None, None)], ()


def lean_append(merchant_id: UUID) -> Append:
    """Returns the lean command encoded, as the journal submits it to its writer."""
    changes, claims = _lean()
    (change,) = changes
    stream = StreamWrite(change.stream_id.bytes, 0, [_LEAN_CODEC.encode(event) for event in change.events])
    return Append(merchant_id.bytes, uuid7().bytes, b"{}", [stream], claims, _LeanRows().rows(merchant_id, change))


def new_orders(customers: Sequence[UUID] = ()) -> Callable[[], Command]:
    """Returns a function that makes the README's order with a new external id each time, for the customers in turn."""
    template = order_body.command(uuid7(), uuid7(), "", "PO0000000000")
    payers = cycle(customers or [template.customer_id])

    def make() -> Command:
        order_id = uuid7()
        external_id = f"pedido-{order_id.hex}"
        terms = replace(template.terms, external_id=external_id)
        command = replace(template, order_id=order_id, customer_id=next(payers), terms=terms, at=datetime.now(UTC))
        events = decide_create(None, command)
        order = fold(evolve, None, events)
        return [Change(order_id, 0, events, None, order)], [Claim(ClaimKind.ORDER_EXTERNAL_ID, external_id, order_id)]

    return make


def event_bytes(shape: Shape) -> bytes:
    """Returns the bytes of the one event that a command of this shape appends: what the limit R inserts."""
    changes, _ = new_orders()() if shape != "lean" else _lean()
    (event,) = changes[0].events
    return (CODEC if shape != "lean" else _LEAN_CODEC).encode(event).data


def throwaway_keys(url: str) -> DataKeys:
    """Returns keys that seal a benchmark's own data."""
    return DataKeys(url, SealingKeys([bytes(32)]))


async def _journal(plan: CommitPlan) -> Journal:
    if plan.shape == "lean":
        return Journal(plan.url, _LeanRows(), codec=_LEAN_CODEC)
    from projections.inline import Inline

    keys, new_writer = throwaway_keys(plan.url), await writer_kind(plan.url)
    if plan.shape == "unsearched":
        return Journal(plan.url, _Without(Inline(), "search_line"), keys, new_writer=new_writer)
    return Journal(plan.url, Inline(), keys, new_writer=new_writer)


async def run(plan: CommitPlan, go: Go) -> Sample:
    """Commits what the plan describes. Raises psycopg.OperationalError if the database does not answer."""
    journal = await _journal(plan)
    await journal.start()
    make = _lean if plan.shape == "lean" else new_orders(plan.customers)
    merchants = cycle(plan.merchants)
    latencies: list[float] = []
    others: dict[str, int] = {}
    ended = 0
    go()
    begins_at = time.perf_counter() + plan.warm_up_s
    ends_at = begins_at + plan.seconds

    async def write() -> None:
        nonlocal ended
        now = time.perf_counter()
        while now < ends_at:
            began = now
            changes, claims = make()
            try:
                await journal.commit(next(merchants), uuid7(), changes, claims)
            except Exception as fault:  # noqa: BLE001 - a sample counts what went wrong instead of ending
                others[type(fault).__name__] = others.get(type(fault).__name__, 0) + 1
            else:
                ended += 1
            now = time.perf_counter()
            if began >= begins_at and now <= ends_at:
                latencies.append(now - began)

    writers = [asyncio.ensure_future(write()) for _ in range(plan.in_flight)]
    await asyncio.sleep(plan.warm_up_s)
    used = time.process_time()
    await asyncio.sleep(plan.seconds)
    used = time.process_time() - used
    await asyncio.gather(*writers)
    await journal.stop()
    return replace(sample(latencies, plan.seconds, cpu_s=used, others=others), ended=ended)


if __name__ == "__main__":
    work(CommitPlan, run)
