"""`python -m campaigns unknown-outcomes [--payments N] [--seed S] [--disturb-every S]`: compares what the processor took with the log.

With `--processor stripe` the payments are made at Stripe World, or with `--stand-in fake` at our fake of Stripe. It exits with 1 on
any difference, and if a kind of failure did not occur often enough.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from msgspec import structs

from campaigns.stand_ins.environment import CannotStart
from campaigns.unknown_outcomes.campaign import Plan, run
from campaigns.unknown_outcomes.disturbances import KINDS, Disturbances, can_move_the_clock
from campaigns.unknown_outcomes.stripe import StandIn, run_at_stripe


def main(arguments: Sequence[str]) -> int:
    """Runs the campaign and returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m campaigns unknown-outcomes", description=__doc__)
    parser.add_argument("--payments", type=int, default=5000)
    parser.add_argument("--clients", type=int, default=24)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--disturb-every", type=float, default=None, metavar="SECONDS", help="instead of kills")
    parser.add_argument("--disturb-max", type=float, default=20.0, metavar="SECONDS")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=[*KINDS], help="what disturbs, in turn (all)")
    parser.add_argument("--processor", choices=("fake", "stripe"), default="fake")
    parser.add_argument("--stand-in", choices=[*StandIn], type=StandIn, default=StandIn.WORLD, help="for Stripe")
    parser.add_argument("--kill-every", type=float, default=Plan().kill_every_s, metavar="SECONDS")
    options = parser.parse_args(arguments)
    if options.processor == "stripe" and options.disturb_every is not None:
        parser.error("--disturb-every is for the fake processor")
    seed = int(time.time()) % 1_000_000 if options.seed is None else options.seed
    with tempfile.TemporaryDirectory(prefix="ledger-unknown-", dir="/tmp") as home:
        plan = Plan(payments=options.payments, clients=options.clients, seed=seed, kill_every_s=options.kill_every)
        if options.disturb_every is not None:
            if "clock" in options.kinds and not can_move_the_clock():
                parser.error("the clock is moved by libfaketime: install it (Debian: faketime), or leave out clock")
            every_s, max_s, kinds = options.disturb_every, options.disturb_max, tuple(options.kinds)
            disturbances = Disturbances(every_s=every_s, max_s=max_s, kinds=kinds)
            plan = structs.replace(plan, kill_every_s=None, disturbances=disturbances)
        if options.processor == "stripe":
            try:
                result = asyncio.run(run_at_stripe(plan, options.stand_in, Path(home)))
            except CannotStart as reason:
                parser.error(f"Stripe World does not run: {reason}")
        else:
            result = asyncio.run(run(plan, Path(home)))
    totals = result.verdict.totals
    for violation in result.verdict.violations[:50]:
        _print(f"VIOLATION {violation}")
    _print(
        f"seed {seed}: {totals.payments:,} payments, {totals.captured:,} minor units captured and "
        f"{totals.refunded:,} refunded on both sides, {totals.voided:,} voided, "
        f"{totals.unknown:,} of unknown outcome for a while, {result.kills} kills, {result.seconds:.0f} s"
    )
    _print("disturbed: " + (", ".join(f"{kind} {n}" for kind, n in result.disturbances.items()) or "not"))
    _print(", ".join(f"{mode} {n:,}" for mode, n in sorted(totals.calls.items())))
    return 1 if result.verdict.violations else 0


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
