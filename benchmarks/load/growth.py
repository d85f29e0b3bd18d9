"""Databases of several sizes: a merchant with a tenth of all events as orders, and many others with the rest.

The rows are what the service writes and its worker packs, so that a replay of the log gives the same. Left out is what
only the worker reads: the names of payments at their processors, and deadlines.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final
from uuid import UUID

import psycopg
from msgspec import Struct
from psycopg import sql
from uuid_utils.compat import uuid7

from benchmarks.load.commits import throwaway_keys
from benchmarks.load.fill import create_customers
from benchmarks.load.history import PENDING_EACH, HistoryPlan, LogPlan, external_id
from benchmarks.load.processes import run_together
from benchmarks.measure.samples import show_progress
from ledger.background.reactions.registry import REACTIONS
from ledger.journal.encryption.data_keys import DataKeys
from ledger.journal.journal import Journal
from projections.inline import Inline
from projections.search.compaction import SearchCompactor

EVENTS_PER_MERCHANT: Final = 1_000
OTHERS_MIN: Final = 10
_EVENTS_PER_ORDER: Final = 5 - 4 / PENDING_EACH
_ORDERS_PER_CUSTOMER: Final = 50
_PROCESSES: Final = 2
_TABLES: Final = ("event", "payment_order", "claim", "search_block")
_VACUUM_OFF: Final = sql.SQL("alter table {} set (autovacuum_enabled = off)")
_VACUUM_ON: Final = sql.SQL("alter table {} reset (autovacuum_enabled)")

# The worker has handled every log: it does not read millions of events while a benchmark runs.
_HANDLED: Final = """
insert into reaction_cursor (merchant_id, reaction, position)
select merchant_id, reaction, position from merchant_head cross join unnest(%s::text[]) as r(reaction)
on conflict (merchant_id, reaction) do update set position = excluded.position
"""


class Filled(Struct, frozen=True, kw_only=True):
    """What a database holds: `merchant_id` with so many orders, and other merchants, each with its one customer."""

    merchant_id: UUID
    orders: int
    others: dict[UUID, UUID]
    events: int
    size_gb: float

    @property
    def middle(self) -> str:
        """The external id of the merchant's middle order."""
        return external_id(self.orders // 2)


def mark_handled(connection: psycopg.Connection) -> None:
    """Records that the worker has handled every log, so that it does not read them while a benchmark runs."""
    connection.execute(_HANDLED, [[reaction.name for reaction in REACTIONS]])


def fill(url: str, merchant_id: UUID, events: int, keys: Callable[[str], DataKeys] = throwaway_keys) -> Filled:
    """Writes so many events, nearly, of this merchant and of new ones. The merchant's log exists.

    `keys` returns those that seal the customers' data in a database.
    """
    orders = max(1, events // 10)
    others = [uuid7() for _ in range(max(OTHERS_MIN, events // EVENTS_PER_MERCHANT - 1))]
    each = max(1, round((events / _EVENTS_PER_ORDER - orders) / len(others)))
    show_progress(f"filling {events:,} events: customers")
    customers = asyncio.run(_customers(url, merchant_id, -(-orders // _ORDERS_PER_CUSTOMER), others, keys))
    with psycopg.connect(url, autocommit=True) as connection:
        positions: dict[UUID, int] = dict(
            connection.execute("select merchant_id, position from merchant_head").fetchall()
        )
        for table in _TABLES:  # it would vacuum again and again what is complete in a minute
            connection.execute(_VACUUM_OFF.format(sql.Identifier(table)))
        now = datetime.now(UTC)
        logs = [
            LogPlan(
                merchant_id=merchant,
                number=number,
                position=positions[merchant],
                customers=customers[merchant],
                orders=each if number else orders,
                step_s=3_600 if number else 60,
                ends_at=now,
            )
            for number, merchant in enumerate((merchant_id, *others))
        ]
        show_progress(f"filling {events:,} events: orders")
        run_together("benchmarks.load.history", [HistoryPlan(url=url, logs=part) for part in _parts(logs)])
        mark_handled(connection)
        show_progress(f"filling {events:,} events: search")
        asyncio.run(_pack(url))
        show_progress(f"filling {events:,} events: vacuum")
        connection.execute("vacuum (analyze)")
        for table in _TABLES:
            connection.execute(_VACUUM_ON.format(sql.Identifier(table)))
        connection.execute("checkpoint")
        row = connection.execute(
            "select sum(position)::int8, pg_database_size(current_database()) from merchant_head"
        ).fetchone()
        assert row is not None, "an aggregate always answers"
    return Filled(
        merchant_id=merchant_id,
        orders=orders,
        others={other: customers[other][0] for other in others},
        events=row[0],
        size_gb=row[1] / 1e9,
    )


def _parts(logs: list[LogPlan]) -> list[list[LogPlan]]:
    """Returns the logs in parts of about as many orders, one for each process."""
    parts: list[list[LogPlan]] = [[] for _ in range(_PROCESSES)]
    totals = [0] * _PROCESSES
    for log in logs:
        smallest = totals.index(min(totals))
        parts[smallest].append(log)
        totals[smallest] += log.orders
    return parts


async def _customers(
    url: str, merchant_id: UUID, count: int, others: list[UUID], keys: Callable[[str], DataKeys]
) -> dict[UUID, list[UUID]]:
    """Creates customers through the journal, so many of the merchant and one of each other; returns their ids."""
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        await connection.execute("insert into merchant_head (merchant_id) select unnest(%s::uuid[])", [others])
    counts = {merchant_id: count, **dict.fromkeys(others, 1)}
    return await create_customers(Journal(url, Inline(), keys(url)), counts)


async def _pack(url: str) -> None:
    """Packs search lines as the worker does."""
    async with SearchCompactor(url) as compactor:
        while await compactor.pack():
            pass
