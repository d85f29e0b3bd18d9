"""Many runs of the stateful test against one service, and what they reached."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from hypothesis import HealthCheck, Phase, settings
from hypothesis import seed as seeded
from hypothesis.stateful import run_state_machine_as_test
from property_tests.stateful.machine import Merchant
from property_tests.stateful.service import Service, Shop

BATCH = 40
"""How many merchants are made at a time."""

Reached = Counter[tuple[str, int, str | None]]
"""How often each rule was answered so: the rule, the HTTP status, the code of an error."""


def run(service: Service, runs: int, steps: int, seed: int, *, shrink: bool = True) -> Reached:
    """Raises AssertionError where the service and the oracle differ, with the steps that led there."""
    reached: Reached = Counter()
    machine = type("Merchant", (Merchant,), {"service": service, "shops": _supply(service), "reached": reached})
    phases = [Phase.generate, *([Phase.shrink] if shrink else [])]
    how = settings(
        max_examples=runs,
        stateful_step_count=steps,
        deadline=None,
        database=None,
        phases=phases,
        suppress_health_check=list(HealthCheck),
        print_blob=False,
    )
    run_state_machine_as_test(seeded(seed)(machine), settings=how)
    return reached


RULES = (
    "create", "create again", "charge", "payments", "device data", "validate", "capture", "cancel", "cancel a part", "refund", "deposit",
    "deposit, again", "dispute", "settle", "clock", "restart",
)  # fmt: skip
"""What can be drawn, by the names under which it is counted."""


def unreached(reached: Reached) -> set[str]:
    """The rules that were never carried out by the service, only refused or not drawn at all."""
    return set(RULES) - {rule for rule, status, _ in reached if status < 300}


def report(reached: Reached) -> str:
    """Each rule with its answers, a line for each."""
    lines: dict[str, list[str]] = {}
    for (rule, status, code), count in sorted(reached.items(), key=str):
        lines.setdefault(rule, []).append(f"{status}{'' if code is None else ' ' + code} x{count}")
    return "".join(f"  {rule}: {', '.join(answers)}\n" for rule, answers in lines.items())


def _supply(service: Service) -> Iterator[Shop]:
    while True:
        yield from service.shops(BATCH)
