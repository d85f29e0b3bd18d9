"""`python -m campaigns.stand_ins [start|compare]`: starts what stands in for Stripe, or compares its two parts.

`start` prints the addresses and serves until it is interrupted; what cannot start is said. `compare` makes every call of `script` on
both and exits 1 if they differ where `expected` has no reason, or if one of them cannot start.
"""

from __future__ import annotations

import signal
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from campaigns.fake_stripe.running import fake_stripe
from campaigns.stand_ins.comparison import Outcome, Side, compare
from campaigns.stand_ins.environment import CannotStart, stripe_world
from campaigns.stand_ins.expected import RULES


def main(arguments: Sequence[str]) -> int:
    """Returns the exit status."""
    match arguments:
        case [] | ["start"]:
            return start()
        case ["compare"]:
            return report_comparison()
        case _:
            sys.stderr.write(f"{__doc__}\n")
            return 2


def start() -> int:
    """Serves until it is interrupted."""
    with tempfile.TemporaryDirectory() as place, ExitStack() as stack:
        record = Path(place) / "record.jsonl"
        fake = stack.enter_context(fake_stripe(record, Path(place) / "fake.log"))
        sys.stdout.write(f"fake of Stripe: {fake.wait_ready()[0]} (keys sk_test_fake, pk_test_fake; record {record})\n")
        sys.stdout.flush()
        try:
            world = stack.enter_context(stripe_world(Path(place) / "world.log"))
            sys.stdout.write(f"Stripe World: {world.wait_ready()[0]}/worlds/NAME (any key; each NAME is an account)\n")
        except CannotStart as reason:
            sys.stdout.write(f"Stripe World does not run: {reason}\n")
        sys.stdout.flush()
        with suppress(KeyboardInterrupt):
            signal.pause()
    return 0


def report_comparison() -> int:
    """Compares both, prints what differs, and returns 1 if anything does."""
    try:
        outcome = compared()
    except CannotStart as reason:
        sys.stderr.write(f"Not compared: {reason}\n")
        return 1
    for difference in outcome.differences:
        sys.stdout.write(f"{difference}\n")
    for rule in outcome.unused:
        sys.stdout.write(f"the rule covers no difference: {rule.place} {rule.step}\n")
    sys.stdout.write(
        f"{outcome.calls} calls, {outcome.expected} expected differences, {len(outcome.differences)} others\n"
    )
    return 1 if outcome.differences or outcome.unused else 0


def compared() -> Outcome:
    """Starts both, makes every call on both, and returns what differs. Raises CannotStart."""
    with tempfile.TemporaryDirectory() as place, ExitStack() as stack:
        world = stack.enter_context(stripe_world(Path(place) / "world.log"))
        fake = stack.enter_context(fake_stripe(Path(place) / "record.jsonl", Path(place) / "fake.log"))
        ours = stack.enter_context(Side(fake.wait_ready()[0], "sk_test_fake"))
        theirs = stack.enter_context(Side(f"{world.wait_ready()[0]}/worlds/compared", "sk_test_any"))
        return compare(ours, theirs, RULES)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # contexts end in order, and clean up
    sys.exit(main(sys.argv[1:]))
