"""`python -m campaigns walker [--seeds N] [--requests N] [--first S]`: random walks of merchants on a service with its worker.

It prints each finding with its seed, and exits 1 if there is one. `--first S --seeds 1` walks one seed again.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

import psycopg
from msgspec import Struct

from campaigns.chaos.evidence import MerchantEvidence, gather
from campaigns.chaos.service import Service
from campaigns.walker.checks import Given, wrong_in
from campaigns.walker.walk import Walk
from ledger.domain.money import SCALE

_AT_ONCE: Final = 3
_PATIENCE_S: Final = 60.0
_SETTINGS: Final = {
    "LEDGER_SANDBOX_DELAY_MS": "0",
    "LEDGER_PROCESSOR_TIMEOUT_S": "10",
    "LEDGER_NOT_FOUND_FINAL_S": "20",
}
_OPEN: Final = "select count(*) from payment_order where call_deadline_at is not null"
# The money that the processor gave back: refunds to cards, and payouts of what came to references.
_GIVEN_BACK: Final = """
select kind = 'REFUND', coalesce(sum(moved), 0) from sandbox_call
 where merchant_id = %s and kind in ('REFUND', 'PAY_OUT') and accepted group by 1
"""


class Walked(Struct, frozen=True):
    """A walk that has ended, and what the database has of its merchant."""

    walk: Walk
    evidence: MerchantEvidence
    given_back: Given


@asynccontextmanager
async def walked(first: int, seeds: int, requests: int) -> AsyncIterator[list[Walked]]:
    """Walks so many seeds of so many requests each, on a service of its own, and yields what they left."""
    with Service(workers=1, settings=_SETTINGS) as service:
        service.start()
        walks = [Walk(service.port, service.merchant(f"Walker {seed}"), seed) for seed in range(first, first + seeds)]
        turns = asyncio.Semaphore(_AT_ONCE)

        async def walk_on(walk: Walk) -> None:
            async with turns:
                began = time.monotonic()
                await walk.run(requests)
                _report(f"seed {walk.seed}: {walk.requests:,} requests in {time.monotonic() - began:.0f} s")

        await asyncio.gather(*[walk_on(walk) for walk in walks])
        with service.database() as url:
            await _until_quiet(url)
            evidence = {each.merchant_id: each for each in await gather(url)}
            given = {walk.seed: await _given_back(url, walk.merchant.merchant_id) for walk in walks}
        yield [Walked(walk, evidence[walk.merchant.merchant_id], given[walk.seed]) for walk in walks]


def findings(walks: Sequence[Walked]) -> list[str]:
    """Returns everything that is wrong, each with its seed."""
    return [
        f"seed {each.walk.seed}: {what}"
        for each in walks
        for what in (*each.walk.wrong, *wrong_in(each.evidence, each.given_back))
    ]


async def _until_quiet(url: str) -> None:
    """Waits until no call to the processor or to the stamping provider is under way."""
    until = time.monotonic() + _PATIENCE_S
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        while time.monotonic() < until:
            row = await (await connection.execute(_OPEN)).fetchone()
            if row == (0,):
                return
            await asyncio.sleep(0.2)


async def _given_back(url: str, merchant_id: UUID) -> dict[bool, Decimal]:
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        rows: list[Any] = await (await connection.execute(_GIVEN_BACK, (merchant_id,))).fetchall()
    return {True: Decimal(0), False: Decimal(0)} | {to_card: Decimal(moved) / SCALE for to_card, moved in rows}


async def _walk(first: int, seeds: int, requests: int) -> int:
    began = time.monotonic()
    async with walked(first, seeds, requests) as walks:
        found = findings(walks)
        counts = sum((each.walk.counts for each in walks), Counter[int]())
        orders = [order for each in walks for order in each.evidence.orders.values()]
        documents = sum(len(order.invoices.documents) for order in orders if order.invoices is not None)
        renewals = sum(order.terms.subscription_id is not None for order in orders)
    for what in found[:50]:
        _report(f"WRONG {what}")
    statuses = ", ".join(f"{status}: {times:,}" for status, times in sorted(counts.items()))
    _report(
        f"{seeds} seeds, {counts.total():,} requests ({statuses}), {len(orders):,} orders, {renewals:,} of them of "
        f"subscriptions, {documents:,} documents; {len(found)} wrong; {time.monotonic() - began:.0f} s"
    )
    return 1 if found else 0


def main(arguments: Sequence[str]) -> int:
    """Runs the walks and returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m campaigns walker", description=__doc__)
    parser.add_argument("--seeds", type=int, default=20, help="how many walks, each of a merchant of its own (20)")
    parser.add_argument("--requests", type=int, default=5000, help="the requests of each walk (5000)")
    parser.add_argument("--first", type=int, default=1, help="the first seed; the others follow it (1)")
    options = parser.parse_args(arguments)
    return asyncio.run(_walk(options.first, options.seeds, options.requests))


def _report(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
