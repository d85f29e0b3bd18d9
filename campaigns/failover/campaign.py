"""A run: three services on one cluster, each by a route of its own, payments through all of them, one failover after another.

The payment company is a process of its own with its own file: a call whose intent went down with a primary is found there.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from random import Random
from statistics import median
from typing import Final

import psycopg
from msgspec import Struct
from psycopg.conninfo import make_conninfo

from campaigns.chaos.checker import Figures, Violation, judged
from campaigns.chaos.clients import MIX, REFUNDS, Load
from campaigns.chaos.evidence import gather
from campaigns.chaos.rounds import show
from campaigns.chaos.running import environ
from campaigns.chaos.service import RECOVERY_WINDOW_S
from campaigns.chaos.witness import Witness
from campaigns.failover.alone import ANSWER_S, Probes, Route
from campaigns.failover.cluster import DATABASE, Cluster
from campaigns.failover.faults import ALONE, FAULTS, Fault
from campaigns.failover.routes import routes
from campaigns.fake_processor.record import read
from campaigns.fake_processor.service import FakedService, fake_processor
from campaigns.unknown_outcomes.campaign import settle
from campaigns.unknown_outcomes.comparison import compare, payments_by_key, still_open

BACK_S: Final = 2.0
"""How soon after a promotion a write has to succeed, at the median of a route, in seconds."""

_BACK_PATIENCE_S: Final = 60.0
_PAUSE_S: Final = 0.2
_SETTLE_S: Final = 90.0
_UNDER_LOAD_S: Final = (0.5, 2.0)
_SETTINGS: Final = {"LEDGER_NOT_FOUND_FINAL_S": "8"}


class Plan(Struct, frozen=True, kw_only=True):
    """The size of a run: failovers in the five ways in turn, then primaries that are alone. `clients` are for each route."""

    failovers: int = 20
    alone: int = 20
    clients: int = 4
    seed: int = 1

    @property
    def faults(self) -> Sequence[Fault]:
        return [*(FAULTS[n % len(FAULTS)] for n in range(self.failovers)), *[ALONE] * self.alone]


class Failover(Struct, frozen=True, kw_only=True):
    """One failover: the seconds from the fault to the promotion, and from there to the first acknowledged write by route.

    `waiting` is how many backends of a primary that was alone waited for a standby.
    """

    fault: str
    promoted_s: float
    back_s: Mapping[str, float]
    waiting: int | None = None


class Result(Struct, frozen=True, kw_only=True):
    """The failovers, and what was found after the last one. `calls` is how many calls reached the payment company."""

    failovers: Sequence[Failover]
    figures: Figures
    stuck: int
    calls: int
    violations: Sequence[Violation]
    seconds: float

    def back_s(self, route: str, fault: str | None = None) -> Sequence[float]:
        """Returns the seconds from the promotions to the first write by a route, of one fault or of all."""
        return [
            failover.back_s[route]
            for failover in self.failovers
            if route in failover.back_s and fault in {None, failover.fault}
        ]


async def run(plan: Plan) -> Result:
    """Runs a plan. Ends early at the first failover with a violation."""
    began = time.monotonic()
    with ExitStack() as stack:
        cluster = stack.enter_context(Cluster())
        await cluster.healthy()
        with psycopg.connect(make_conninfo(cluster.url, dbname="postgres"), autocommit=True) as connection:
            connection.execute(f"create database {DATABASE}")
        calls, record = cluster.home / "calls.jsonl", cluster.home / "record.jsonl"
        company = stack.enter_context(fake_processor(calls, cluster.home / "company.log", environ({})))
        port = company.wait_port()
        services = {
            name: _started(stack, cluster.home / "files", port, url)
            for name, url in stack.enter_context(routes(cluster)).items()
        }
        witness = Witness(record)
        stack.callback(witness.close)
        through = [
            _route(plan.seed * 1000 + number, name, service, witness, plan.clients)
            for number, (name, service) in enumerate(services.items())
        ]
        failovers, violations = await _under_load(plan, cluster, through)
        await settle(services["hosts"], _SETTLE_S)
        ended = [Violation(name, service.last_words()) for name, service in services.items() if not service.runs]
        said = [Violation(name, line) for name, service in services.items() for line in service.complaints()[-5:]]
        evidence, lines = await gather(cluster.url), read(calls)
        verdict = judged(cluster.url, evidence, record, RECOVERY_WINDOW_S, book=lambda _: ())
        taken = compare(lines, evidence)
        violations += [*ended, *verdict.violations, *(Violation("payment company", what) for what in taken.violations)]
        return Result(
            failovers=failovers,
            figures=verdict.figures,
            stuck=len(still_open(payments_by_key(evidence))),
            calls=sum(line.mode is not None for line in lines),
            violations=[*violations, *(said if violations else [])],
            seconds=time.monotonic() - began,
        )


def _started(stack: ExitStack, files: Path, company: int, url: str) -> FakedService:
    """Starts a service on this connection string."""
    service = FakedService(company, workers=1, settings=_SETTINGS, database_url=url, files=files)
    stack.enter_context(service)
    service.start()
    return service


def _route(seed: int, name: str, service: FakedService, witness: Witness, clients: int) -> Route:
    """Returns the clients of a service, with a merchant of its own."""
    merchant = service.merchant(name)
    load = Load(
        witness,
        [merchant],
        lambda: service.port,
        clients=clients,
        seed=seed,
        mix={**MIX, **REFUNDS},
        patience_s=ANSWER_S,
        pause_s=_PAUSE_S,
    )
    return Route(name=name, load=load, merchant=merchant)


async def _under_load(
    plan: Plan, cluster: Cluster, through: Sequence[Route]
) -> tuple[Sequence[Failover], list[Violation]]:
    """Loses one primary after the other while the clients of all routes send requests."""
    random, done, violations = Random(plan.seed), list[Failover](), list[Violation]()
    for route in through:
        route.load.start()
    try:
        for fault in plan.faults:
            await asyncio.sleep(random.uniform(*_UNDER_LOAD_S))
            failover, wrong = await _fail_over(fault, cluster, through)
            done.append(failover)
            violations += [Violation(fault.name, what) for what in wrong]
            back = ", ".join(f"{name} {back_s:.2f} s" for name, back_s in failover.back_s.items())
            show(f"  {len(done)} {fault.name}: promoted after {failover.promoted_s:.1f} s, written after {back}")
            if violations:
                break
    finally:
        for route in through:
            await route.load.stop()
    return done, violations


async def _fail_over(fault: Fault, cluster: Cluster, through: Sequence[Route]) -> tuple[Failover, list[str]]:
    """Loses the primary. Returns once writes succeed by every route and the cluster is whole again."""
    node = await asyncio.to_thread(cluster.leader)
    promotion = asyncio.create_task(cluster.promoted(node))
    probes, waiting = Probes(through), None
    wrong = await probes.begin() if fault is ALONE else []
    struck = time.monotonic()
    await fault.strike(cluster, node)
    if fault is ALONE:
        waiting = await probes.send(node)
        if not waiting:
            wrong.append("no commit waited for a standby, so that nothing was shown")
    promoted = await promotion
    fault.promoted(cluster, node)
    back_s = {}
    for route in through:  # the time counts from the promotion, in whichever order they are looked at
        try:
            back_s[route.name] = await route.load.first_write_after(promoted, _BACK_PATIENCE_S)
        except TimeoutError:
            wrong.append(f"{route.name}: no write was acknowledged within {_BACK_PATIENCE_S:g} s of the promotion")
    wrong += await probes.acknowledged_before(promoted)
    fault.mend(cluster, node)
    await cluster.healthy()
    return Failover(fault=fault.name, promoted_s=promoted - struck, back_s=back_s, waiting=waiting), wrong


def slow(result: Result) -> list[str]:
    """Returns the routes by which the median write came too late after a promotion."""
    names = dict.fromkeys(name for failover in result.failovers for name in failover.back_s)
    middles = {name: median(result.back_s(name)) for name in names}
    return [
        f"{name}: {middle:.2f} s after the promotion at the median, more than {BACK_S:g} s"
        for name, middle in middles.items()
        if middle > BACK_S
    ]
