"""`python -m campaigns rolling-upgrade [--operations N] [--apart S] [--former COMMIT]`: two releases on one database under load.

It exits 1 if any request fails, and if anything acknowledged is lost, doubled or stuck; 2 where there is no former release, or
nothing that moves a clock.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from campaigns.chaos.rounds import show
from campaigns.rolling_upgrade.campaign import Plan, run
from campaigns.rolling_upgrade.former import NoFormerRelease
from campaigns.unknown_outcomes.disturbances import can_move_the_clock


def main(arguments: Sequence[str]) -> int:
    """Runs the campaign and returns the exit status."""
    default = Plan()
    parser = argparse.ArgumentParser(prog="python -m campaigns rolling-upgrade", description=__doc__)
    parser.add_argument("--operations", type=int, default=default.operations, help="all together (20,000)")
    parser.add_argument("--clients", type=int, default=default.clients)
    parser.add_argument(
        "--apart", type=float, default=default.apart_s, metavar="SECONDS", help="between the two clocks (5)"
    )
    parser.add_argument("--former", metavar="COMMIT", help="the former release (the newest tag or migration)")
    parser.add_argument("--seed", type=int, default=None, help="which requests; drawn where absent")
    options = parser.parse_args(arguments)
    if options.apart and not can_move_the_clock():
        sys.stderr.write("the clock is moved by libfaketime: apt-get install faketime, or pass --apart 0\n")
        return 2
    seed = int(time.time()) % 1_000_000 if options.seed is None else options.seed
    plan = Plan(
        operations=options.operations,
        clients=options.clients,
        apart_s=options.apart,
        seed=seed,
        former=options.former,
    )
    with tempfile.TemporaryDirectory(prefix="ledger-upgrade-", dir="/tmp") as place:
        home = Path(place)
        home.chmod(0o711)
        try:
            result = asyncio.run(run(plan, home))
        except NoFormerRelease as reason:
            sys.stderr.write(f"{reason}\n")
            return 2
    for violation in result.violations:
        show(f"VIOLATION {violation.rule}: {violation.what}")
    figures, served = result.figures, ", ".join(f"{name} {count:,}" for name, count in result.served.items())
    show(
        f"seed {seed}; former release {result.former[:12]}, without {', '.join(result.migrations) or 'no migration'}; clocks "
        f"{plan.apart_s:g} s apart: {figures.operations:,} operations ({served}), {figures.acknowledged:,} acknowledged, "
        f"{figures.unknown:,} unknown, {figures.unavailable:,} with 503, {figures.lost} lost, {figures.doubled} doubled, "
        f"{result.stuck} stuck; {result.seconds:.0f} s"
    )
    return 1 if result.violations else 0
