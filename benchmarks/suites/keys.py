"""What a merchant's private keys, whose derivation takes as long as any that is tried, cost the creates of another one.

Creates come at a fixed rate that leaves the cores idle part of the time. A derivation takes a core for a tenth of a
second, wherever it runs. So creates beside keys that are sent one after the other are compared with creates alone, and
with creates beside a process that makes the same derivations outside the service.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from benchmarks.load import locked_key, order_body
from benchmarks.load.processes import child, run_one, run_together
from benchmarks.load.requests import UNIQUE, LoadPlan, Step
from benchmarks.measure.report import Ratio, Report, Target
from benchmarks.measure.samples import Sample, in_turns, ratio, show_progress, typical
from benchmarks.suites.http import Service, new_merchant, service
from benchmarks.suites.journal import IN_FLIGHT, p99
from ledger.settings import Settings

CREATES_PER_SECOND: Final = 100
_KEPT: Final = Target(1.5, at_most=True)
_ALONE, _OUTSIDE, _KEYS = "creates alone", "creates beside derivations outside the service", "creates beside keys"


def report(url: str, settings: Settings, folder: Path, seconds: float, rounds: int) -> Report:
    """Measures creates of a merchant alone, beside derivations of another process, and beside another merchant's keys."""
    with service(url, settings, folder) as under_test:
        other = under_test.of_merchant(*new_merchant(url, folder))
        step = Step(
            method="PUT", path=f"{other.base_path}/v1/merchant/fiscal-issuer", body=locked_key.body(), expect=400
        )
        keys: list[Sample] = []

        def beside_keys() -> Sample:
            created, derived = run_together(
                "benchmarks.load.requests", [_creates(under_test, seconds), other.plan([step], seconds, 1)]
            )
            keys.append(derived)
            return created

        show_progress("warming up")
        under_test.create(1, IN_FLIGHT)
        alone = partial(_create, under_test, seconds)
        taken = in_turns(rounds, {_ALONE: alone, _OUTSIDE: partial(_beside_derivations, alone), _KEYS: beside_keys})
    return Report(
        name=f"keys of another merchant, {CREATES_PER_SECOND} creates a second",
        samples={name: typical(some) for name, some in (taken | {"keys": keys}).items()},
        ratios=[
            Ratio(of=f"{_KEYS}, p99", to=to, value=ratio(taken[_KEYS], taken[to], p99), target=_KEPT)
            for to in (_OUTSIDE, _ALONE)
        ],
    )


def _creates(under_test: Service, seconds: float) -> LoadPlan:
    step = Step(path=under_test.orders, body=order_body.body(f"pedido-{UNIQUE}"), expect=201)
    return replace(under_test.plan([step], seconds, IN_FLIGHT), per_second=CREATES_PER_SECOND)


def _create(under_test: Service, seconds: float) -> Sample:
    return run_one("benchmarks.load.requests", _creates(under_test, seconds))


def _beside_derivations(create: partial[Sample]) -> Sample:
    with child("benchmarks.load.derivations"):
        return create()
