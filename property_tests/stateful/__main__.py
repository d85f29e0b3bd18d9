"""`python -m property_tests.stateful --runs 2000 --steps 50`: a long run of the stateful test, with its coverage."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from property_tests.stateful.runner import report, run, unreached
from property_tests.stateful.service import migrated, service
from tests import postgres_server


def main() -> None:
    """Runs the test, and exits with 1 if a rule was never carried out."""
    parser = argparse.ArgumentParser(prog="python -m property_tests.stateful")
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--shrink", action="store_true", help="look for the shortest failing run: minutes")
    asked = parser.parse_args()
    with ExitStack() as stack:
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ledger-", dir="/tmp")))
        home.chmod(0o711)
        url = stack.enter_context(postgres_server.running(home / "postgres"))
        template = stack.enter_context(migrated(url))
        running = stack.enter_context(service(url, template, home / "log"))
        began = time.monotonic()
        reached = run(running, asked.runs, asked.steps, asked.seed, shrink=asked.shrink)
        sys.stdout.write(f"{asked.runs} runs of {asked.steps} steps in {time.monotonic() - began:.0f} s\n")
        coverage = running.ledger_access.coverage
        sys.stdout.write(f"{report(reached)}{coverage.report()}")
        for move in coverage.illegal:
            sys.stdout.write(f"  not legal: {move}\n")
        whole = reached.whole(asked.steps) >= asked.runs
        sys.exit(bool(unreached(reached) or coverage.illegal or not whole))


if __name__ == "__main__":
    main()
