"""`python -m campaigns citus-kills [--kills N] [--clients N] [--seed S]`: kills nodes of Citus and the service under load.

A service runs on a coordinator and two workers, with merchants on both. In turn a worker of Citus, the other one, the
coordinator, and an API process with the worker of the service are killed while clients send requests. It prints how
long each merchant was without an answered write. It exits 1 if anything acknowledged is lost, doubled or stuck; 2 where
Citus was not built.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
import time
from collections.abc import Sequence
from functools import partial
from statistics import median
from typing import Final

from msgspec import Struct

from campaigns.chaos.rounds import show
from campaigns.citus.build import built
from campaigns.citus.cluster import CitusCluster
from campaigns.citus.trial import Trial, report, tried
from campaigns.fake_processor.service import FakedService

NODES: Final = ("coordinator", "worker 1", "worker 2")
WAYS: Final = ("worker 1", "worker 2", "coordinator", "service")
"""What is killed, in turn."""

_BACK_PATIENCE_S: Final = 60.0
_PAUSE_S: Final = 0.1
_UNDER_LOAD_S: Final = (0.5, 2.0)


class Kill(Struct, frozen=True, kw_only=True):
    """A kill, the seconds until its server answered again, and the longest pauses between two answered writes of a
    merchant: of those on a worker that was killed, and of the others.
    """

    of: str
    down_s: float
    there_s: float
    elsewhere_s: float


async def kill_parts(kills: int, trial: Trial) -> Sequence[Kill]:
    """Kills one thing after the other while the clients send requests."""
    done = list[Kill]()
    for n in range(kills):
        await asyncio.sleep(trial.random.uniform(*_UNDER_LOAD_S))
        places, of = await trial.places(), WAYS[n % len(WAYS)]
        struck = time.monotonic()
        if of == "service":
            trial.service.kill_parts(trial.random)
            killed = ""
        else:
            killed = str(trial.cluster.nodes[NODES.index(of)].cluster.sockets)
            await _kill_node(trial.cluster, NODES.index(of))
        back = time.monotonic()
        await trial.written_after(back)
        there = {merchant for merchant, place in places.items() if place.node == killed}
        done.append(
            Kill(
                of=of,
                down_s=back - struck,
                there_s=trial.longest_pause(there, struck, back),
                elsewhere_s=trial.longest_pause(places.keys() - there, struck, back),
            )
        )
        show(
            f"  {n + 1} {of}: down for {done[-1].down_s:.2f} s; a merchant there was without a write for "
            f"{done[-1].there_s:.2f} s, one elsewhere for {done[-1].elsewhere_s:.2f} s"
        )
        await asyncio.to_thread(_wait_for_both, trial.service)
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
    result = asyncio.run(
        tried(partial(kill_parts, options.kills), clients=options.clients, seed=seed, pause_s=_PAUSE_S)
    )
    for way in WAYS:
        if of := [kill for kill in result.happened if kill.of == way]:
            show(
                f"{way:>12}  {len(of):>3} kills, down for {median(kill.down_s for kill in of):.2f} s; without a write: "
                f"merchants there {_median_and_most([kill.there_s for kill in of])}, "
                f"elsewhere {_median_and_most([kill.elsewhere_s for kill in of])}"
            )
    return report(result)


def _median_and_most(seconds: Sequence[float]) -> str:
    return f"{median(seconds):.2f} s, {max(seconds):.2f} s at most" if any(seconds) else "none"
