"""`python -m campaigns reconciliation [--planted N] [--days N] [--seed S]`: plants differences of each kind, and counts those found.

In simulated days first, then in the sandbox, then at the stand-in for Stripe. It exits 1 if one is missed, if a
difference is found that none has planted, or if one that a look-up can repair is not repaired.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
import tempfile
import time
from collections.abc import Collection, Sequence
from pathlib import Path
from random import Random

import structlog
from tests import postgres_server

from campaigns.chaos.installation import installed
from campaigns.races.command import template_of
from campaigns.reconciliation import days, sandbox, stripe
from campaigns.reconciliation.planting import Figures


def main(arguments: Sequence[str]) -> int:
    """Runs the three parts, the last two on a Postgres of their own, and returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m campaigns reconciliation", description=__doc__)
    parser.add_argument("--planted", type=int, default=100, metavar="N", help="differences of each kind (100)")
    parser.add_argument("--days", type=int, default=1000, metavar="N", help="simulated days without one (1000)")
    parser.add_argument("--seed", type=int, default=None)
    options = parser.parse_args(arguments)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    seed = int(time.time()) % 1_000_000 if options.seed is None else options.seed
    wrong = _simulate(options.days, options.planted, Random(seed), seed)
    with tempfile.TemporaryDirectory(prefix="ledger-reconciliation-", dir="/tmp") as name:
        place = Path(name)
        place.chmod(0o711)
        with postgres_server.running(place / "postgres") as server:
            template = template_of(server)
            with installed(server, template, {}) as own:
                wrong += _report("sandbox", *asyncio.run(sandbox.run(own.url, options.planted)), sandbox.REPAIRED)
            with installed(server, template, {}) as own:
                found = asyncio.run(stripe.run(own.url, options.planted, place))
                wrong += _report("Stripe", *found, stripe.REPAIRED)
    return 1 if wrong else 0


def _simulate(count: int, planted: int, random: Random, seed: int) -> int:
    """Prints what the simulated days have, and returns how many figures are wrong."""
    clean = days.clean_days(count, random)
    _print(f"seed {seed}: {clean} differences in {count:,} clean days of {days.ORDERS_A_DAY} orders each")
    wrong = int(clean > 0)
    for name, (found, others) in days.planted(planted, random).items():
        _print(f"days     {name:<44} {found} of {planted} found, {others} others")
        wrong += found != planted or others != 0
    return wrong


def _report(where: str, figures: dict[str, Figures], others: int, repaired: Collection[str]) -> int:
    """Prints the figures of a place, and returns how many are wrong."""
    wrong = int(others > 0)
    for name, each in figures.items():
        _print(f"{where:<8} {name:<44} {each.found} of {each.planted} found, {each.repaired} repaired")
        wrong += each.found != each.planted or (name in repaired and each.repaired != each.planted)
    _print(f"{where:<8} {others} differences that none has planted, or that a repair has left")
    return wrong


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
