"""`python -m campaigns citus-kills [--kills N] [--clients N] [--seed S]`: kills nodes of Citus and the service under load.

A service runs on a coordinator and two workers, with merchants on both. In turn a worker of Citus, the other one, the
coordinator, and an API process with the worker of the service are killed while clients send requests. It exits 1 if
anything acknowledged is lost, doubled or stuck; 2 where Citus was not built.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from random import Random
from statistics import median
from typing import Final

from msgspec import Struct

from campaigns.chaos.checker import Figures, Violation, judged
from campaigns.chaos.clients import MIX, REFUNDS, Load
from campaigns.chaos.evidence import gather
from campaigns.chaos.rounds import show
from campaigns.chaos.running import environ
from campaigns.chaos.service import RECOVERY_WINDOW_S
from campaigns.chaos.witness import Witness
from campaigns.citus.build import built
from campaigns.citus.cluster import CitusCluster, divided_database
from campaigns.fake_processor.record import read
from campaigns.fake_processor.service import FakedService, fake_processor
from campaigns.unknown_outcomes.campaign import settle
from campaigns.unknown_outcomes.comparison import compare, payments_by_key, still_open

NODES: Final = ("coordinator", "worker 1", "worker 2")
WAYS: Final = ("worker 1", "worker 2", "coordinator", "service")
"""What is killed, in turn."""

_SHARDS: Final = 8
_MERCHANTS: Final = 8
_SETTLE_S: Final = 90.0
_BACK_PATIENCE_S: Final = 60.0
_ANSWER_S: Final = 20.0
_PAUSE_S: Final = 0.1
_UNDER_LOAD_S: Final = (0.5, 2.0)
_SETTINGS: Final = {"LEDGER_NOT_FOUND_FINAL_S": "8"}


class Kill(Struct, frozen=True):
    """A kill, and the seconds from it to the first acknowledged write that was sent later, of any merchant."""

    of: str
    back_s: float


class Result(Struct, frozen=True, kw_only=True):
    """The kills, and what was found after the last one. `calls` is how many calls reached the payment company."""

    kills: Sequence[Kill]
    figures: Figures
    stuck: int
    calls: int
    violations: Sequence[Violation]


async def run(kills: int, clients: int, seed: int) -> Result:
    """Runs the campaign on a cluster of its own."""
    with ExitStack() as stack:
        cluster, url = stack.enter_context(divided_database(_SHARDS))
        home = cluster.home
        calls, record = home / "calls.jsonl", home / "record.jsonl"
        company = stack.enter_context(fake_processor(calls, home / "company.log", environ({})))
        service = FakedService(
            company.wait_port(), workers=2, settings=_SETTINGS, database_url=url, files=home / "files"
        )
        stack.enter_context(service)
        service.start()
        witness = Witness(record)
        stack.callback(witness.close)
        load = Load(
            witness,
            [service.merchant(f"Merchant {n}") for n in range(_MERCHANTS)],
            lambda: service.port,
            clients=clients,
            seed=seed,
            mix={**MIX, **REFUNDS},
            patience_s=_ANSWER_S,
            pause_s=_PAUSE_S,
        )
        done = await _under_load(kills, cluster, service, load, Random(seed))
        await settle(service, _SETTLE_S)
        violations = [] if service.runs else [Violation("service", service.last_words())]
        evidence = await gather(url)
        verdict = judged(url, evidence, record, RECOVERY_WINDOW_S, book=lambda _: ())
        lines = read(calls)
        taken = compare(lines, evidence)
        violations += [*verdict.violations, *(Violation("payment company", what) for what in taken.violations)]
        said = [Violation("service", line) for line in service.complaints()[-5:]] if violations else []
        return Result(
            kills=done,
            figures=verdict.figures,
            stuck=len(still_open(payments_by_key(evidence))),
            calls=sum(line.mode is not None for line in lines),
            violations=[*violations, *said],
        )


async def _under_load(
    kills: int, cluster: CitusCluster, service: FakedService, load: Load, random: Random
) -> Sequence[Kill]:
    """Kills one thing after the other while the clients send requests."""
    done = list[Kill]()
    load.start()
    try:
        for n in range(kills):
            await asyncio.sleep(random.uniform(*_UNDER_LOAD_S))
            of, struck = WAYS[n % len(WAYS)], time.monotonic()
            if of == "service":
                service.kill_parts(random)
            else:
                await _kill_node(cluster, NODES.index(of))
            done.append(Kill(of, await load.first_write_after(struck, _BACK_PATIENCE_S)))
            show(f"  {n + 1} {of}: written after {done[-1].back_s:.2f} s")
            await asyncio.to_thread(_wait_for_both, service)
    finally:
        await load.stop()
    return done


async def _kill_node(cluster: CitusCluster, number: int) -> None:
    """Kills the server of a node, and returns once it answers again."""
    node = cluster.nodes[number]
    pid = node.pid
    assert pid is not None, "every node runs"
    os.kill(pid, signal.SIGKILL)
    while node.pid is not None:  # noqa: ASYNC110 - no event
        await asyncio.sleep(0.01)
    while not await asyncio.to_thread(node.tick):  # noqa: ASYNC110 - no event
        await asyncio.sleep(0.02)


def _wait_for_both(service: FakedService) -> None:
    """Returns when the service has replaced the processes that were killed."""
    until = time.monotonic() + _BACK_PATIENCE_S
    while not {"api", "worker"} <= set(service.roles().values()) and time.monotonic() < until:
        time.sleep(0.05)


def main(arguments: Sequence[str]) -> int:
    """Runs the campaign and returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m campaigns citus-kills", description=__doc__)
    parser.add_argument("--kills", type=int, default=20, help="of four things in turn (20)")
    parser.add_argument("--clients", type=int, default=8, help="how many send requests (8)")
    parser.add_argument("--seed", type=int, default=None, help="which requests, and when; drawn where absent")
    options = parser.parse_args(arguments)
    if built() is None:
        sys.stderr.write("Citus was not built here: make citus\n")
        return 2
    seed = int(time.time()) % 1_000_000 if options.seed is None else options.seed
    show(f"citus-kills: a coordinator and two workers (seed {seed})")
    result = asyncio.run(run(options.kills, options.clients, seed))
    for violation in result.violations:
        show(f"VIOLATION {violation.rule}: {violation.what}")
    for way in WAYS:
        if times := [kill.back_s for kill in result.kills if kill.of == way]:
            show(f"{way:>12}  {len(times):>3} kills, written after {median(times):.2f} s, {max(times):.2f} s at most")
    figures = result.figures
    show(
        f"{figures.operations:,} operations, {figures.acknowledged:,} acknowledged, {figures.unknown:,} unknown "
        f"({figures.landed:,} of them landed), {figures.lost} lost, {figures.doubled} doubled, {result.stuck} stuck; "
        f"{result.calls:,} calls of the payment company"
    )
    return 1 if result.violations else 0
