"""`python -m campaigns vault [--cards N] [--rounds N]`: changes the sealing key of that many saved cards while they pay, and
runs each race for saved cards that often.

It exits 1 when a request failed, a card is under the old key afterwards, or a race came to an illegal end.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests import postgres_server
from tests.operations.conftest import register
from tests.operations.test_saved_card_races import RACES, Arena, run

from campaigns.vault.rotation import NEW, rotate, with_keys
from ledger.postgres.migrate import migrate
from ledger.wiring import open_ledger


def main(arguments: Sequence[str]) -> int:
    """Runs the rotation and returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m campaigns vault", description=__doc__)
    parser.add_argument("--cards", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=100)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="ledger-vault-", dir="/tmp") as place:
        home = Path(place)
        home.chmod(0o711)
        with postgres_server.running(home / "postgres") as url:
            migrate(url)
            result = asyncio.run(rotate(url, options.cards))
            asyncio.run(_race(url, options.rounds))
    sys.stdout.write(
        f"{result.rewrapped} of {result.cards} cards rewrapped in {result.rewrap_s:.1f} s"
        f" ({result.rewrapped / result.rewrap_s:,.0f} a second)\n"
        f"{result.paid} orders paid by saved cards, {len(result.failed)} failed;"
        f" p50 {result.quantile_ms(0.5):.1f} ms, p99 {result.quantile_ms(0.99):.1f} ms\n"
    )
    for failure in result.failed[:20]:
        sys.stdout.write(f"FAILED {failure}\n")
    return 1 if result.failed or result.rewrapped < result.cards else 0


async def _race(url: str, rounds: int) -> None:
    settings = with_keys(url, NEW)
    async with open_ledger(settings) as one, open_ledger(settings) as two:
        began = time.monotonic()
        arena = Arena(one, two, await register(one), url)
        await run(arena, rounds)
    sys.stdout.write(f"{rounds} rounds of {len(RACES)} races, all legal, {time.monotonic() - began:.0f} s\n")
