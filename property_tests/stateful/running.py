"""Many runs of the stateful test against one service, and what they reached."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from hypothesis import HealthCheck, Phase, settings
from hypothesis import seed as seeded
from hypothesis.internal.conjecture.providers import AVAILABLE_PROVIDERS, HypothesisProvider
from hypothesis.stateful import run_state_machine_as_test
from property_tests.stateful.machine import Merchant
from property_tests.stateful.service import Service

DRAWS = "fresh draws"


class FreshDraws(HypothesisProvider):
    """Draws as Hypothesis does, each run anew.

    Its own backend looks for what it has not tried yet, and finds above all runs that it cuts short: of 200 runs of 50
    steps, 96 had 50 steps, and another 146 that it did not count were begun. As a backend of its own, the same draws make
    200 whole runs of 200. A run that fails is still repeated and shrunk by Hypothesis' own.
    """


AVAILABLE_PROVIDERS[DRAWS] = FreshDraws


class Reached(NamedTuple):
    """`answers`: how often each rule was answered so (the rule, the HTTP status, the code of an error).

    `lengths`: how many runs had how many steps, the first order's among them.
    """

    answers: Counter[tuple[str, int, str | None]]
    lengths: Counter[int]

    def whole(self, steps: int) -> int:
        """How many runs had all of their steps."""
        return sum(count for length, count in self.lengths.items() if length > steps)


def run(service: Service, runs: int, steps: int, seed: int, *, shrink: bool = True) -> Reached:
    """Raises AssertionError where the service and the oracle differ, with the steps that led there."""
    reached = Reached(Counter(), Counter())
    machine = type("Merchant", (Merchant,), {"service": service, "reached": reached.answers, "runs": reached.lengths})
    phases = [Phase.generate, *([Phase.shrink] if shrink else [])]
    how = settings(
        max_examples=runs + 1,  # the first one is the simplest that there is
        stateful_step_count=steps + 1,  # the first one opens the shop
        deadline=None,
        database=None,
        backend=DRAWS,
        phases=phases,
        suppress_health_check=list(HealthCheck),
        print_blob=False,
    )
    run_state_machine_as_test(seeded(seed)(machine), settings=how)
    return reached


RULES = (
    "create", "create again", "charge", "payments", "device data", "validate", "capture", "cancel", "cancel a part", "refund",
    "deposit", "deposit, again", "dispute", "settle", "clock", "restart", "kill", "message", "message, again", "message, reordered",
    "message before its order", "refund confirmed", "worker", "taken: deposit", "taken: deposit before its order",
    "taken: opened", "taken: won", "taken: lost", "taken: listed", "taken: matched", "taken: refused", "taken: refunded",
)  # fmt: skip
"""What can be drawn, by the names under which it is counted, and what becomes of messages."""


def unreached(reached: Reached) -> set[str]:
    """The rules that were never carried out by the service, only refused or not drawn at all."""
    return set(RULES) - {rule for rule, status, _ in reached.answers if status < 300}


def report(reached: Reached) -> str:
    """How long the runs were, and each rule with its answers, a line for each."""
    lines: dict[str, list[str]] = {}
    for (rule, status, code), count in sorted(reached.answers.items(), key=str):
        lines.setdefault(rule, []).append(f"{status}{'' if code is None else ' ' + code} x{count}")
    steps = sum(length * count for length, count in reached.lengths.items())
    head = f"  {steps} steps in {reached.lengths.total()} runs\n"
    return head + "".join(f"  {rule}: {', '.join(answers)}\n" for rule, answers in lines.items())
