"""A service with merchants on both workers of Citus, under load, while something happens to it; and what was found of it.

The checks are those of the other campaigns: each acknowledged operation is in the log once, nothing is left open, the
read models follow from the log, and the payment company was asked once for each payment.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from itertools import pairwise
from random import Random
from typing import Any, Final, Generic, TypeVar
from uuid import UUID

import psycopg
from msgspec import Struct

from campaigns.chaos.checker import Figures, Violation, judged
from campaigns.chaos.clients import MIX, REFUNDS, Ended, Load
from campaigns.chaos.evidence import gather
from campaigns.chaos.rounds import show
from campaigns.chaos.running import environ
from campaigns.chaos.service import RECOVERY_WINDOW_S
from campaigns.chaos.witness import Witness
from campaigns.citus.cluster import CitusCluster, divided_database
from campaigns.fake_processor.record import read
from campaigns.fake_processor.service import FakedService, fake_processor
from campaigns.unknown_outcomes.campaign import settle
from campaigns.unknown_outcomes.comparison import compare, payments_by_key, still_open

Found = TypeVar("Found")

_SHARDS: Final = 8
_MERCHANTS: Final = 8
_SETTLE_S: Final = 90.0
_PATIENCE_S: Final = 60.0
_ANSWER_S: Final = 20.0
_SETTINGS: Final = {"LEDGER_NOT_FOUND_FINAL_S": "8"}
_READS: Final = frozenset({"read", "list"})
_COMMITTED: Final = frozenset({200, 201, 422})

# The shard of each merchant, and the directory of its node's socket.
_PLACES: Final = """
select m.merchant_id, p.shardid, n.nodename
  from unnest(%s::uuid[]) as m (merchant_id)
  join pg_dist_placement p on p.shardid = get_shard_id_for_distribution_column('event', m.merchant_id)
  join pg_dist_node n using (groupid)
"""


class Place(Struct, frozen=True):
    """Where a merchant is: the shard of its events, and the directory of its node's socket."""

    shard: int
    node: str


class Result(Struct, Generic[Found], frozen=True, kw_only=True):
    """What happened, and what was found after it. `calls` is how many calls reached the payment company."""

    happened: Sequence[Found]
    figures: Figures
    stuck: int
    calls: int
    violations: Sequence[Violation]


class Trial:
    """The parts of a trial that runs: what happens to them is up to the campaign."""

    def __init__(
        self,
        cluster: CitusCluster,
        url: str,
        service: FakedService,
        load: Load,
        merchants: Sequence[UUID],
        random: Random,
    ) -> None:
        self.cluster, self.url, self.service, self.load, self.random = cluster, url, service, load, random
        self.merchants = merchants

    async def places(self) -> Mapping[UUID, Place]:
        """Returns where each merchant is. Raises psycopg.Error while the coordinator does not answer."""
        found = await asyncio.to_thread(fetch, self.url, _PLACES, list(self.merchants))
        return {merchant: Place(shard, node) for merchant, shard, node in found}

    async def written_after(self, moment: float) -> None:
        """Waits until a write of each merchant that was sent after a moment is answered. Raises TimeoutError."""
        missing = set(self.merchants)
        async with asyncio.timeout(_PATIENCE_S):
            while missing:
                missing -= {each.merchant_id for each in self.load.ended if each.began > moment and is_commit(each)}
                await asyncio.sleep(0.02)

    def longest_pause(self, merchants: Collection[UUID], since: float, until: float) -> float:
        """Returns the longest time between two answered writes of one of these merchants, in seconds, of those that
        reach into the time from `since` to `until`; 0 if there are no merchants.
        """
        return max((self._longest_pause(merchant, since, until) for merchant in merchants), default=0.0)

    def _longest_pause(self, merchant: UUID, since: float, until: float) -> float:
        ends = sorted(each.ended for each in self.load.ended if each.merchant_id == merchant and is_commit(each))
        return max(
            (after - before for before, after in pairwise(ends) if after > since and before < until), default=0.0
        )


def is_commit(ended: Ended) -> bool:
    """Returns whether a request was answered from a commit: its own, or that of the request that it repeats."""
    return ended.do not in _READS and ended.status in _COMMITTED


async def tried(
    happens: Callable[[Trial], Awaitable[Sequence[Found]]], *, clients: int, seed: int, pause_s: float
) -> Result[Found]:
    """Lets something happen to a service under load, on a cluster of its own, and checks everything afterwards.

    Each of so many clients waits for `pause_s` seconds before its next request.
    """
    with ExitStack() as stack:
        cluster, url = stack.enter_context(divided_database(_SHARDS))
        calls, record = cluster.home / "calls.jsonl", cluster.home / "record.jsonl"
        company = stack.enter_context(fake_processor(calls, cluster.home / "company.log", environ({})))
        service = FakedService(
            company.wait_port(), workers=2, settings=_SETTINGS, database_url=url, files=cluster.home / "files"
        )
        stack.enter_context(service)
        service.start()
        witness = Witness(record)
        stack.callback(witness.close)
        merchants = [service.merchant(f"Merchant {n}") for n in range(_MERCHANTS)]
        load = Load(
            witness,
            merchants,
            lambda: service.port,
            clients=clients,
            seed=seed,
            mix={**MIX, **REFUNDS},
            patience_s=_ANSWER_S,
            pause_s=pause_s,
        )
        trial = Trial(cluster, url, service, load, [each.merchant_id for each in merchants], Random(seed))
        load.start()
        try:
            await trial.written_after(time.monotonic())
            happened = await happens(trial)
        finally:
            await load.stop()
        await settle(service, _SETTLE_S)
        violations = [] if service.runs else [Violation("service", service.last_words())]
        evidence = await gather(url)
        verdict = judged(url, evidence, record, RECOVERY_WINDOW_S, book=lambda _: ())
        lines = read(calls)
        taken = compare(lines, evidence)
        violations += [*verdict.violations, *(Violation("payment company", what) for what in taken.violations)]
        logged = [Violation("service", line) for line in service.complaints()[-5:]] if violations else []
        return Result(
            happened=happened,
            figures=verdict.figures,
            stuck=len(still_open(payments_by_key(evidence))),
            calls=sum(line.mode is not None for line in lines),
            violations=[*violations, *logged],
        )


def report(result: Result[Found]) -> int:
    """Prints what was found, and returns the exit status of the campaign."""
    for violation in result.violations:
        show(f"VIOLATION {violation.rule}: {violation.what}")
    figures = result.figures
    show(
        f"{figures.operations:,} requests, {figures.acknowledged:,} acknowledged, {figures.unknown:,} unknown "
        f"({figures.landed:,} of them landed), {figures.lost} lost, {figures.doubled} doubled, {result.stuck} stuck; "
        f"{result.calls:,} calls of the payment company"
    )
    return 1 if result.violations else 0


def fetch(url: str, statement: str, *parameters: object) -> list[tuple[Any, ...]]:
    """Returns the rows of a statement, which is a transaction of its own."""
    with psycopg.connect(url, autocommit=True) as connection:
        return connection.execute(statement, parameters).fetchall()
