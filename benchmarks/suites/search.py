"""The list of orders of a merchant with many orders: every filter and search, and what they cost an append.

A first page is measured with its exact total. Searches include words that nearly every order contains and words that
hardly any contains.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from statistics import median
from typing import Any, Final
from uuid import UUID

import msgspec
import psycopg
from uuid_utils.compat import uuid7

from benchmarks.load.commits import throwaway_keys
from benchmarks.load.fill import fill
from benchmarks.measure.report import Ratio, Report, Target
from benchmarks.measure.samples import Sample, in_turns, ratio, sample, show_progress, typical
from benchmarks.scratch import scratch_database
from benchmarks.suites.journal import open_merchants, per_second, write
from ledger.domain.orders.statuses import OrderStatus
from ledger.journal.commit.shard_writers import writer_kind
from ledger.journal.journal import Journal
from projections.inline import Inline
from projections.lists.pages import OrderQuery
from projections.queries import Queries
from projections.search.compaction import SearchCompactor

ORDERS: Final = 200_000
FIRST_PAGE_MS: Final = 20.0
_KEPT: Final = Target(0.9)
_FIRST_PAGE: Final = Target(1, at_most=True)
_TIMES: Final = 15
_LIMIT: Final = f"{FIRST_PAGE_MS:g} ms"

# Removes the indexes that lists and searches added to the append; see migration 0004.
_WITHOUT: Final = """
drop index payment_order_customer, payment_order_due, payment_order_created, payment_order_status, customer_source;
create index on payment_order (merchant_id, created_at, order_id);
create index on payment_order (merchant_id, status, created_at, order_id);
"""


def queries(orders: int) -> dict[str, dict[str, Any]]:
    """Returns the queries by a readable name. Those about one order are about the middle one."""
    middle = orders // 2
    now = datetime.now(UTC)
    some: dict[str, Any] = {"created_from": now - timedelta(days=40, hours=7), "created_to": now - timedelta(days=3)}
    customer = f"cliente-{middle // 5:06}"
    pending = (OrderStatus.PENDING,)
    older_half = "0" * (8 - len(str(middle)))
    return {
        "no filter": {},
        "status": {"statuses": pending},
        "two statuses": {"statuses": (OrderStatus.COMPLETED, OrderStatus.FAILED)},
        "date range": some,
        "status and date range": some | {"statuses": pending},
        "not overdue": {"exclude_overdue": True},
        "not overdue, status, date range": some | {"statuses": pending, "exclude_overdue": True},
        "customer": {"customer": customer},
        "customer and related": {"customer": customer, "related": True},
        "customer, status, not overdue": {"customer": customer, "statuses": pending, "exclude_overdue": True},
        "search: an order number": {"search": f"po{middle * 48_271 % 2**31:010x}"},
        "search: the end of one": {"search": f"{middle * 48_271 % 2**31:010x}"[-6:]},
        "search: an external id": {"search": f"2026-{middle:07}"},
        "search: an invoice number": {"search": f"a-{middle + 1:06}"},
        "search: an e-mail": {"search": f"CLIENTE.{middle // 5:06}@"},
        "search: a domain of 10": {"search": "tienda-99.example"},
        "search: 1 letter": {"search": "7"},
        "search: 2 letters": {"search": "7a"},
        "search: 3 letters": {"search": "7ab"},
        "search: nothing has it": {"search": "no such thing"},
        "search, status, date range": some | {"search": "7ab", "statuses": pending},
        "search: all orders have it": {"search": "pedido-2026"},
        "search: half the e-mails": {"search": "@example.com"},
        "search: a word of e-mails": {"search": "tienda-"},
        "search: in ids and e-mails": {"search": "1234"},
        "search: the older half": {"search": f"pedido-2026-{older_half}"},
        "search: one letter, status": {"search": "e", "statuses": pending},
    }


def first_pages(url: str, merchant_id: UUID, orders: int) -> tuple[dict[str, Sample], dict[str, int]]:
    """Measures the first page of each query, alone and warm; returns samples and how many orders each query finds."""
    return asyncio.run(_first_pages(url, merchant_id, orders))


async def _first_pages(url: str, merchant_id: UUID, orders: int) -> tuple[dict[str, Sample], dict[str, int]]:
    reader = Queries(url)
    await reader.start()
    samples, totals = {}, {}
    for name, query in queries(orders).items():
        show_progress(f"first page: {name}")
        latencies: list[float] = []
        for _ in range(_TIMES + 1):
            began = time.perf_counter()
            body = await reader.orders(merchant_id, OrderQuery(**query), datetime.now(UTC))
            latencies.append(time.perf_counter() - began)
        samples[name] = sample(latencies[1:], sum(latencies[1:]))
        totals[name] = msgspec.json.decode(body)["pagination"]["total"]
    await reader.stop()
    return samples, totals


def filled(url: str, orders: int) -> UUID:
    """Creates a merchant with that many orders, compacted and vacuumed as the worker and the server do in time."""
    merchant_id = uuid7()

    async def prepare() -> None:
        new_writer = await writer_kind(url)
        await fill(Journal(url, Inline(), throwaway_keys(url), new_writer=new_writer), merchant_id, orders)
        async with SearchCompactor(url) as compactor:
            while await compactor.pack():
                show_progress("packing")

    asyncio.run(prepare())
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("vacuum (analyze)")
    return merchant_id


def pages_report(url: str, orders: int) -> Report:
    """Measures the first page of every filter and search, and its total."""
    samples, totals = first_pages(url, filled(url, orders), orders)
    found = ", ".join(f"{name} {total:,}" for name, total in totals.items())
    ratios = to_the_limit(samples)
    return Report(name=f"first page of {orders:,} orders", samples=samples, ratios=ratios, facts={"found": found})


def to_the_limit(samples: Mapping[str, Sample]) -> list[Ratio]:
    """Returns what each page takes, and the median of the searches, as ratios to what a page may take."""
    medians = {f"{name}, p50": one.p50_ms for name, one in samples.items()}
    searches = [p50_ms for name, p50_ms in medians.items() if name.startswith("search")]
    medians[f"the median of these {len(searches)} searches"] = median(searches)
    return [
        Ratio(of=name, to=_LIMIT, value=p50_ms / FIRST_PAGE_MS, target=_FIRST_PAGE) for name, p50_ms in medians.items()
    ]


def append_report(server_url: str, seconds: float, rounds: int) -> Report:
    """Measures appends of the README's order with and without what lists and searches need, in turn."""
    with scratch_database(server_url) as bare, scratch_database(server_url) as whole:
        with psycopg.connect(bare, autocommit=True) as connection:
            connection.execute(_WITHOUT)
        without, withal = "append without search", "append with search"
        taken = in_turns(
            rounds,
            {
                without: partial(write, bare, "unsearched", open_merchants(bare, 1), seconds),
                withal: partial(write, whole, "order", open_merchants(whole, 1), seconds),
            },
        )
    kept = Ratio(of=withal, to=without, value=ratio(taken[withal], taken[without], per_second), target=_KEPT)
    return Report(name="append and search", samples={n: typical(some) for n, some in taken.items()}, ratios=[kept])


def reports(server_url: str, seconds: float, rounds: int, orders: int = ORDERS) -> list[Report]:
    """Measures pages, then appends."""
    with scratch_database(server_url) as url:
        pages = pages_report(url, orders)
    return [pages, append_report(server_url, seconds, rounds)]
