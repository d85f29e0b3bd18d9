"""`python -m campaigns failover [--failovers N] [--alone N] [--seed S]`: loses the primary of a Patroni cluster under load.

It exits 1 if anything acknowledged is lost, doubled or stuck, and if writes come back too late; 2 where the programs are not
installed.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Sequence
from statistics import median

from campaigns.chaos.rounds import show
from campaigns.failover.campaign import Plan, Result, run, slow
from campaigns.failover.faults import ALONE, FAULTS
from campaigns.failover.programs import how_to_install, missing_packages
from campaigns.failover.routes import NAMES


def main(arguments: Sequence[str]) -> int:
    """Runs the campaign and returns the exit status."""
    default = Plan()
    parser = argparse.ArgumentParser(prog="python -m campaigns failover", description=__doc__)
    parser.add_argument("--failovers", type=int, default=default.failovers, help="in five ways in turn (20)")
    parser.add_argument("--alone", type=int, default=default.alone, help="primaries that go on without standbys (20)")
    parser.add_argument("--clients", type=int, default=default.clients, help="for each of the three routes (4)")
    parser.add_argument("--seed", type=int, default=None, help="which requests, and when; drawn where absent")
    options = parser.parse_args(arguments)
    if missing := missing_packages():
        sys.stderr.write(f"{how_to_install(missing)}\n")
        return 2
    seed = int(time.time()) % 1_000_000 if options.seed is None else options.seed
    plan = Plan(failovers=options.failovers, alone=options.alone, clients=options.clients, seed=seed)
    show(f"failover: three nodes, synchronous; routes {', '.join(NAMES)} (seed {seed})")
    result = asyncio.run(run(plan))
    late = slow(result)
    for violation in result.violations:
        show(f"VIOLATION {violation.rule}: {violation.what}")
    for what in late:
        show(f"VIOLATION {what}")
    show(table(result))
    return 1 if result.violations or late else 0


def table(result: Result) -> str:
    """Returns the figures of a run: a line for each way to lose the primary, and one of what was counted."""
    lines = [f"{'':>11}  failovers  promoted after" + "".join(f"{f'{name} p50, max':>22}" for name in NAMES)]
    for fault in (*FAULTS, ALONE):
        some = [failover for failover in result.failovers if failover.fault == fault.name]
        if some:
            promoted = f"{median(failover.promoted_s for failover in some):.1f} s"
            times = "".join(f"{_times(result.back_s(name, fault.name)):>22}" for name in NAMES)
            lines.append(f"{fault.name:>11}  {len(some):>9}  {promoted:>14}{times}")
    figures = result.figures
    lines.append(
        f"{figures.operations:,} operations, {figures.acknowledged:,} acknowledged, {figures.unknown:,} unknown "
        f"({figures.landed:,} of them landed), {figures.lost} lost, {figures.doubled} doubled, {result.stuck} stuck; "
        f"{result.calls:,} calls of the payment company; {result.seconds:.0f} s"
    )
    return "\n".join(lines)


def _times(seconds: Sequence[float]) -> str:
    return f"{median(seconds):.2f} s, {max(seconds):.2f} s" if seconds else "never"
