"""`python -m tests.unknown_outcomes [--payments N] [--seed S]`: what the processor took is what the ledger says it took.

The rule a stranger would break: it exits 1 on any difference, and on a way of going wrong that never came up.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.unknown_outcomes.campaign import Plan, run


def main(arguments: Sequence[str]) -> int:
    """Run the campaign; the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.unknown_outcomes", description=__doc__)
    parser.add_argument("--payments", type=int, default=5000)
    parser.add_argument("--clients", type=int, default=24)
    parser.add_argument("--seed", type=int, default=None)
    options = parser.parse_args(arguments)
    seed = int(time.time()) % 1_000_000 if options.seed is None else options.seed
    with tempfile.TemporaryDirectory(prefix="ledger-unknown-", dir="/tmp") as home:
        result = asyncio.run(run(Plan(payments=options.payments, clients=options.clients, seed=seed), Path(home)))
    figures = result.verdict.figures
    for violation in result.verdict.violations[:50]:
        _say(f"VIOLATION {violation}")
    _say(
        f"seed {seed}: {figures.payments:,} payments, {figures.captured:,} minor units captured and "
        f"{figures.refunded:,} refunded on both sides, {figures.voided:,} voided, "
        f"{figures.unknown:,} of unknown outcome for a while, {result.kills} kills, {result.seconds:.0f} s"
    )
    _say(", ".join(f"{mode} {n:,}" for mode, n in sorted(figures.calls.items())))
    return 1 if result.verdict.violations else 0


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
