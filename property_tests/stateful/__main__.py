"""`python -m property_tests.stateful --runs 2000 --steps 50`: the stateful test at length, with what it reached."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from property_tests.stateful.running import report, run, unreached
from property_tests.stateful.service import migrated, service
from tests import postgres_server


def main() -> None:
    """Run, and exit with 1 where a rule was never reached."""
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
        reach = running.backstage.reach
        sys.stdout.write(f"{report(reached)}{reach.report()}")
        for move in reach.illegal:
            sys.stdout.write(f"  not legal: {move}\n")
        whole = reached.whole(asked.steps) >= asked.runs
        sys.exit(bool(unreached(reached) or reach.illegal or not whole))


if __name__ == "__main__":
    main()
