"""Any life of a merchant's orders, over HTTP, is the one that an independent model foresees.

Two processes serve on one database; the model (`stateful/oracle.py`) answers first. Rules are all operations, deposits,
disputes, settlements, messages doubled, reordered and before their order, moves of the clock and the death of a process.
After each step I1 to I7 and I11 of section 4.5 are held (`stateful/asking.py`). Two halves with seeds of their own, so that
they can run side by side; `python -m property_tests.stateful` does it at length.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from property_tests.stateful.running import report, run, unreached
from property_tests.stateful.service import service

RUNS, STEPS = 100, 50


@pytest.mark.parametrize("seed", [20_260_131, 20_260_201])
def test_the_service_does_what_the_model_says(
    postgres_url: str, template_database: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], seed: int
) -> None:
    with service(postgres_url, template_database, tmp_path / "log") as running:
        reached = run(running, RUNS, STEPS, seed, shrink=False)
        reach = running.backstage.reach
        with capsys.disabled():
            sys.stdout.write(f"\n{RUNS} runs of {STEPS} steps\n{report(reached)}{reach.report()}")
        assert reached.whole(STEPS) >= RUNS
        assert not unreached(reached)
        assert not reach.illegal
