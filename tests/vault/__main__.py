"""`python -m tests.vault [--cards N]`: changes the sealing key of that many saved cards while they pay.

It exits 1 when a request failed, or a card is under the old key afterwards.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests import postgres_server
from tests.vault.rotation import rotate

from ledger.postgres.migrate import migrate


def main(arguments: Sequence[str]) -> int:
    """Runs the rotation and returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.vault", description=__doc__)
    parser.add_argument("--cards", type=int, default=100_000)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="ledger-vault-", dir="/tmp") as place:
        home = Path(place)
        home.chmod(0o711)
        with postgres_server.running(home / "postgres") as url:
            migrate(url)
            result = asyncio.run(rotate(url, options.cards))
    sys.stdout.write(
        f"{result.rewrapped} of {result.cards} cards rewrapped in {result.rewrap_s:.1f} s"
        f" ({result.rewrapped / result.rewrap_s:,.0f} a second)\n"
        f"{result.paid} orders paid by saved cards, {len(result.failed)} failed;"
        f" p50 {result.quantile_ms(0.5):.1f} ms, p99 {result.quantile_ms(0.99):.1f} ms\n"
    )
    for failure in result.failed[:20]:
        sys.stdout.write(f"FAILED {failure}\n")
    return 1 if result.failed or result.rewrapped < result.cards else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
