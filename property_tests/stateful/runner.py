"""Runs the stateful test many times against one service, and reports what the runs reached."""

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
    """A Hypothesis backend that draws each run afresh.

    Hypothesis' own backend searches for what it has not tried yet, and mostly finds runs that it cuts short: of 200
    runs of 50 steps, 96 had 50 steps, and another 146 uncounted runs were started. The same draws as a backend of its
    own make 200 complete runs of 200. A failing run is still repeated and shrunk by Hypothesis' own backend.
    """


AVAILABLE_PROVIDERS[DRAWS] = FreshDraws


class Reached(NamedTuple):
    """What a session reached. `answers` counts the answers by rule, HTTP status and error code.

    `lengths` counts the runs by their number of steps, including the creation of the first order.
    """

    answers: Counter[tuple[str, int, str | None]]
    lengths: Counter[int]

    def whole(self, steps: int) -> int:
        """Returns how many runs had all of their steps."""
        return sum(count for length, count in self.lengths.items() if length > steps)


def run(service: Service, runs: int, steps: int, seed: int, *, shrink: bool = True) -> Reached:
    """Runs the test. Raises AssertionError if the service and the model differ, with the steps that led there."""
    reached = Reached(Counter(), Counter())
    machine = type("Merchant", (Merchant,), {"service": service, "reached": reached.answers, "runs": reached.lengths})
    phases = [Phase.generate, *([Phase.shrink] if shrink else [])]
    how = settings(
        max_examples=runs + 1,  # the first one is the simplest that there is
        stateful_step_count=steps + 1,  # the first one creates the first order
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
"""The names under which rules are counted, and the kinds of messages that are applied."""


def unreached(reached: Reached) -> set[str]:
    """Returns the rules that the service never carried out: always refused, or never drawn."""
    return set(RULES) - {rule for rule, status, _ in reached.answers if status < 300}


def report(reached: Reached) -> str:
    """Returns as text how long the runs were, and a line with the answers of each rule."""
    lines: dict[str, list[str]] = {}
    for (rule, status, code), count in sorted(reached.answers.items(), key=str):
        lines.setdefault(rule, []).append(f"{status}{'' if code is None else ' ' + code} x{count}")
    steps = sum(length * count for length, count in reached.lengths.items())
    head = f"  {steps} steps in {reached.lengths.total()} runs\n"
    return head + "".join(f"  {rule}: {', '.join(answers)}\n" for rule, answers in lines.items())
