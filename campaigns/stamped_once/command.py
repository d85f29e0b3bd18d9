"""`python -m campaigns stamped-once [--orders N] [--kills N]`: kills processes while documents are stamped, and counts them.

It exits with 1 on any difference, and if nothing was killed, refused or sent in vain.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence

from campaigns.stamped_once.campaign import Plan, run


def main(arguments: Sequence[str]) -> int:
    """Runs the campaign and returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m campaigns stamped-once", description=__doc__)
    parser.add_argument("--orders", type=int, default=Plan().orders, help="the orders of each of two merchants (40)")
    parser.add_argument("--kills", type=int, default=Plan().kills, help="how often something is killed (20)")
    options = parser.parse_args(arguments)
    result = asyncio.run(run(Plan(orders=options.orders, kills=options.kills)))
    for violation in result.violations[:50]:
        sys.stdout.write(f"VIOLATION {violation}\n")
    totals = result.totals
    sys.stdout.write(
        f"{totals.orders:,} orders, {totals.documents:,} documents, {totals.stamps:,} stamps in {totals.attempts:,} "
        f"attempts; {result.kills} kills, {result.abandoned} calls not sent, {result.refused} refused; "
        f"{result.seconds:.0f} s\n"
    )
    missed = not (result.kills and result.abandoned and result.refused)
    return 1 if result.violations or missed else 0
