"""`python -m campaigns walker [--seeds N] [--requests N] [--first S] [--citus]`: random walks of merchants on a service.

Each walk is checked as soon as it has ended. It prints each finding with its seed, what the service has logged of its
database, then how often each operation was carried out and how many documents of each kind there are. It exits 1 if
there is a finding, or if all walks together never carried out an operation or never saw a kind of document.
`--first S --seeds 1` walks one seed again. `--citus` walks on a database that Citus divides; it exits 2 where Citus was
not built.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, Final
from uuid import UUID
from zoneinfo import ZoneInfo

import psycopg
from msgspec import Struct
from tests.audit.auditing import audit_of
from tests.audit.auditing import wrong_in as wrong_in_audit

from campaigns.chaos.evidence import MerchantEvidence, gather
from campaigns.chaos.service import Service
from campaigns.citus.build import built
from campaigns.citus.cluster import divided_database
from campaigns.walker.actions import OPERATIONS, walk_to_the_end
from campaigns.walker.checks import Given, wrong_in
from campaigns.walker.months import Stamped, months_wrong, stamped
from campaigns.walker.walk import Walk
from ledger.domain.money import SCALE
from ledger.domain.orders.invoices.state import Document
from ledger.domain.orders.invoices.terms import InvoiceTerms
from ledger.domain.orders.state import Order

_AT_ONCE: Final = 5
_PATIENCE_S: Final = 60.0
_FINDINGS_MAX: Final = 20
_SHARDS: Final = 8
_SETTINGS: Final = {
    "LEDGER_SANDBOX_DELAY_MS": "0",
    "LEDGER_PROCESSOR_TIMEOUT_S": "10",
    "LEDGER_NOT_FOUND_FINAL_S": "20",
}
_ZONE: Final = ZoneInfo("America/Mexico_City")
_KINDS: Final = ("INVOICE_PUE", "INVOICE_PPD", "REP", "CREDIT_NOTE", "INVOICE_GLOBAL")
_WAYS: Final = ("further invoice", "invoice anew", "cancelled in its month", "cancelled later", "subscription's")

_OPEN: Final = "select count(*) from payment_order where merchant_id = %s and call_deadline_at is not null"
# The money that the processor gave back: refunds to cards, and payouts of what came to references.
_GIVEN_BACK: Final = """
select kind = 'REFUND', coalesce(sum(moved), 0) from sandbox_call
 where merchant_id = %s and kind in ('REFUND', 'PAY_OUT') and accepted group by 1
"""
# What the stamping provider has stamped, with the motive of a cancellation.
_STAMPED: Final = "select xml, cancelled from sandbox_stamp where merchant_id = %s and xml is not null"


class Walked(Struct, frozen=True):
    """A walk that has ended, and what the database has of its merchant."""

    walk: Walk
    evidence: MerchantEvidence
    given_back: Given
    documents: Sequence[Stamped]
    audited: Sequence[str]


class Tally:
    """What all walks of a run have reached."""

    def __init__(self) -> None:
        self.found = self.orders = self.renewals = 0
        self.statuses, self.reached, self.documents = Counter[int](), Counter[str](), Counter[str]()

    def add(self, walked: Walked, found: Sequence[str]) -> None:
        """Counts a walk, and prints it with its findings."""
        orders = walked.evidence.orders.values()
        documents = Counter(each.document.kind for each in walked.documents) + Counter(_ways(orders))
        self.found += len(found)
        self.orders += len(orders)
        self.renewals += sum(order.terms.subscription_id is not None for order in orders)
        self.statuses += walked.walk.statuses
        self.reached += walked.walk.reached
        self.documents += documents
        for what in found[:_FINDINGS_MAX]:
            _report(f"WRONG seed {walked.walk.seed}: {what}")
        _report(
            f"seed {walked.walk.seed}: {walked.walk.requests:,} requests, {len(orders):,} orders, "
            f"{len(walked.documents):,} documents, {len(walked.walk.months)} months, {len(found)} wrong"
        )

    def missed(self) -> list[str]:
        """Returns the operations and kinds of documents that no walk has reached."""
        return [
            *(name for name in OPERATIONS if not self.reached[name]),
            *(kind for kind in (*_KINDS, *_WAYS) if not self.documents[kind]),
        ]

    def report(self, seconds: float) -> None:
        """Prints what was reached."""
        _report("\n".join(f"{times:8,} {name}" for name, times in sorted(self.reached.items())))
        _report("\n".join(f"{times:8,} documents: {kind}" for kind, times in sorted(self.documents.items())))
        statuses = ", ".join(f"{status}: {times:,}" for status, times in sorted(self.statuses.items()))
        for name in self.missed():
            _report(f"WRONG no walk has reached: {name}")
        _report(
            f"{self.statuses.total():,} requests ({statuses}), {self.orders:,} orders, {self.renewals:,} of them of "
            f"subscriptions; {self.found} wrong; {seconds:.0f} s"
        )


def service_to_walk_on(database_url: str | None = None, files: Path | None = None) -> Service:
    """Returns a service for walks, on a database of its own if none is named. It has not started."""
    return Service(workers=1, settings=_SETTINGS, database_url=database_url, files=files)


async def walk_seeds(service: Service, first: int, seeds: int, requests: int, ended: Callable[[Walked], None]) -> None:
    """Walks so many seeds of so many requests each, on a service. Calls `ended` with each walk at its end."""
    turns = asyncio.Semaphore(_AT_ONCE)

    async def walk_on(seed: int) -> None:
        async with turns:
            walk = Walk(service.port, await asyncio.to_thread(service.merchant, f"Walker {seed}"), seed)
            await walk_to_the_end(walk, requests)
            with service.database() as url:
                await until_quiet(url, walk.merchant.merchant_id)
                ended(await walked(url, walk))

    await asyncio.gather(*[walk_on(seed) for seed in range(first, first + seeds)])
    for line in service.logged_of_database()[:_FINDINGS_MAX]:  # if answers were 503, it says why
        _report(f"log: {line}")


async def walked(url: str, walk: Walk) -> Walked:
    merchant_id = walk.merchant.merchant_id
    (evidence,) = await gather(url, merchant_id)
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        given: list[Any] = await (await connection.execute(_GIVEN_BACK, (merchant_id,))).fetchall()
        rows = await (await connection.execute(_STAMPED, (merchant_id,), binary=True)).fetchall()
    given_back = {True: Decimal(0), False: Decimal(0)} | {kind: Decimal(moved) / SCALE for kind, moved in given}
    documents = await asyncio.to_thread(lambda: [stamped(xml, motive) for xml, motive in rows])
    audited = wrong_in_audit(await asyncio.to_thread(audit_of, url, merchant_id))
    return Walked(walk, evidence, given_back, documents, audited)


def findings(walked: Walked) -> list[str]:
    """Returns everything that is wrong after a walk."""
    walk, evidence = walked.walk, walked.evidence
    months = [f"months: {what}" for what in months_wrong(evidence, walked.documents, walk.months)]
    audited = [f"audit: {what}" for what in walked.audited]
    return [*walk.wrong, *wrong_in(evidence, walked.given_back), *months, *audited]


def _ways(orders: Iterable[Order]) -> Iterator[str]:
    """Yields how documents of orders came about and ended."""
    for order in orders:
        for document in () if order.invoices is None else order.invoices.documents:
            yield from _ways_of(order, document)


def _ways_of(order: Order, document: Document) -> Iterator[str]:
    terms, cancellation = document.terms, document.cancellation
    if isinstance(terms, InvoiceTerms) and terms.supplements is not None:
        yield "further invoice"
    if isinstance(terms, InvoiceTerms) and terms.replaces is not None:
        yield "invoice anew"
    if order.terms.subscription_id is not None:
        yield "subscription's"
    if document.is_cancelled and cancellation is not None:
        months = [at.astimezone(_ZONE).strftime("%Y-%m") for at in (terms.issued_at, cancellation.updated_at)]
        yield "cancelled in its month" if months[0] == months[1] else "cancelled later"


async def until_quiet(url: str, merchant_id: UUID) -> None:
    """Waits until no call to the processor or to the stamping provider is under way."""
    until = time.monotonic() + _PATIENCE_S
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        while time.monotonic() < until:
            row = await (await connection.execute(_OPEN, (merchant_id,))).fetchone()
            if row == (0,):
                return
            await asyncio.sleep(0.2)


def main(arguments: Sequence[str]) -> int:
    """Runs the walks and returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m campaigns walker", description=__doc__)
    parser.add_argument("--seeds", type=int, default=20, help="how many walks, each of a merchant of its own (20)")
    parser.add_argument("--requests", type=int, default=5000, help="the requests of each walk (5000)")
    parser.add_argument("--first", type=int, default=1, help="the first seed; the others follow it (1)")
    parser.add_argument("--citus", action="store_true", help="on a coordinator and two workers of Citus")
    options = parser.parse_args(arguments)
    if options.citus and built() is None:
        sys.stderr.write("Citus was not built here: make citus\n")
        return 2
    tally, began = Tally(), time.monotonic()
    with ExitStack() as stack:
        where = _on_citus(stack) if options.citus else ()
        service = stack.enter_context(service_to_walk_on(*where))
        asyncio.run(walk_seeds(service.start(), options.first, options.seeds, options.requests, partial(_check, tally)))
    tally.report(time.monotonic() - began)
    return 1 if tally.found or tally.missed() else 0


def _on_citus(stack: ExitStack) -> tuple[str, Path]:
    """Returns a divided database, which runs as long as the stack, and a folder for files of documents."""
    cluster, url = stack.enter_context(divided_database(_SHARDS))
    return url, cluster.home / "files"


def _check(tally: Tally, walked: Walked) -> None:
    tally.add(walked, findings(walked))


def _report(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
