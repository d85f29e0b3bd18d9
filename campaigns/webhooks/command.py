"""`python -m campaigns webhooks [--kills N] [--consumer-kills N] [--seed S]`: kills parts of a service that posts webhooks.

It exits 1 on any violation, and if no message was refused or came again.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence

from campaigns.webhooks.campaign import Plan, run


def main(arguments: Sequence[str]) -> int:
    """Runs the campaign and returns the exit status."""
    default = Plan()
    parser = argparse.ArgumentParser(prog="python -m campaigns webhooks", description=__doc__)
    parser.add_argument("--kills", type=int, default=default.kills, help="of worker, API and Postgres in turn (60)")
    parser.add_argument("--consumer-kills", type=int, default=default.consumer_kills, help="of the consumer (100)")
    parser.add_argument("--seed", type=int, default=default.seed, help="which requests, and when it strikes")
    options = parser.parse_args(arguments)
    plan = Plan(kills=options.kills, consumer_kills=options.consumer_kills, seed=options.seed)
    result = asyncio.run(run(plan))
    for violation in result.violations:
        sys.stdout.write(f"VIOLATION {violation}\n")
    arrived = ", ".join(f"{name} {count:,}" for name, count in result.arrived.items())
    sys.stdout.write(
        f"{' and '.join(f'{count:,}' for count in result.events)} events of two merchants; arrived: {arrived}; "
        f"{result.refused} refused at first, {result.repeated} came again; {plan.kills} kills, "
        f"{plan.consumer_kills} of the consumer; {result.seconds:.0f} s\n"
    )
    return 1 if result.violations or not result.refused or not result.repeated else 0
