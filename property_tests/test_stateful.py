"""Any life of a merchant's orders, over HTTP, is the one that an independent model foresees.

Two processes serve on one database; the model (`stateful/oracle.py`) answers first. Rules are all operations, deposits,
disputes, settlements, repeated messages, moves of the clock and the death of a process; the invariants I1 to I6 and I11 of
section 4.5 are held after each step, I7 over every event at the end. `python -m property_tests.stateful` does it at length.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest
from property_tests.stateful.reach import reach_of
from property_tests.stateful.running import report, run, unreached
from property_tests.stateful.service import service

RUNS, STEPS, SEED = 60, 50, 20_260_131


def test_the_service_does_what_the_model_says(
    postgres_url: str, template_database: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with service(postgres_url, template_database, tmp_path / "log") as running:
        reached = run(running, RUNS, STEPS, SEED, shrink=False)
        reach = asyncio.run(reach_of(running.url))
        with capsys.disabled():
            sys.stdout.write(f"\n{RUNS} runs of {STEPS} steps\n{report(reached)}{reach.report()}")
        assert not unreached(reached)
        assert not reach.illegal
        assert running.restarts
