"""`python -m campaigns messages [--orders N] [--copies N] [--lost SHARE] [--seed S]`: compares orders whose messages came doubled,
shuffled, early or never with orders whose messages came once and in order.

It exits with 1 if an order ended otherwise, or if a message still waits.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from campaigns.messages.campaign import Plan, run


def main(arguments: Sequence[str]) -> int:
    """Runs the campaign and returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m campaigns messages", description=__doc__)
    parser.add_argument("--orders", type=int, default=1000)
    parser.add_argument("--copies", type=int, default=3)
    parser.add_argument("--lost", type=float, default=0.1, metavar="SHARE", help="of the messages that never come")
    parser.add_argument("--seed", type=int, default=None)
    options = parser.parse_args(arguments)
    seed = int(time.time()) % 1_000_000 if options.seed is None else options.seed
    with tempfile.TemporaryDirectory(prefix="ledger-messages-", dir="/tmp") as home:
        plan = Plan(orders=options.orders, copies=options.copies, lost=options.lost, seed=seed)
        result = asyncio.run(run(plan, Path(home)))
    for violation in result.violations[:50]:
        _print(f"VIOLATION {violation}")
    _print(
        f"seed {seed}: {options.orders:,} orders twice, {result.sent:,} messages sent, {result.lost:,} never came, "
        f"{result.fetched:,} fetched, {len(result.violations)} violations, {result.seconds:.0f} s"
    )
    _print(", ".join(f"{kind} {status}" for kind, status in result.states.items()))
    return 1 if result.violations else 0


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
