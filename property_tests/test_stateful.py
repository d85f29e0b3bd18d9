"""Any sequence of requests and events about a merchant's orders, over HTTP, agrees with an independent model.

Two processes serve on one database; the model (`stateful/model.py`) predicts first. The rules are all operations,
deposits, disputes, settlements, repeated, reordered and early messages, advances of the clock, and killed processes.
After each step I1 to I7 and I11 of section 4.5 are checked (`stateful/base_machine.py`). `python -m property_tests.stateful` runs it
at length.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from property_tests.stateful.runner import report, run, unreached
from property_tests.stateful.service import service

STEPS = 50


@pytest.mark.parametrize(
    ("seed", "runs", "unreached_max"),
    [
        (20_260_131, 10, 8),
        pytest.param(20_260_131, 60, 0, marks=pytest.mark.long),
        pytest.param(20_260_201, 150, 0, marks=pytest.mark.long),
    ],
    ids=["10", "60", "150"],
)
def test_the_service_agrees_with_the_model(
    postgres_url: str,
    template_database: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    seed: int,
    runs: int,
    unreached_max: int,
) -> None:
    """Few runs do not reach every rule: up to `unreached_max` rules may be missing."""
    with service(postgres_url, template_database, tmp_path / "log") as running:
        reached = run(running, runs, STEPS, seed, shrink=False)
        coverage = running.ledger_access.coverage
        with capsys.disabled():
            sys.stdout.write(f"\n{runs} runs of {STEPS} steps\n{report(reached)}{coverage.report()}")
        assert reached.whole(STEPS) >= runs
        missing = unreached(reached)
        assert len(missing) <= unreached_max, missing
        assert not coverage.illegal
