"""Costs are compared with those of an echo and an INSERT of the same run."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from benchmarks.measure.budget import CARD, CREATE, READ, cost_ratios
from benchmarks.measure.resources import Costs, _Used
from benchmarks.measure.samples import Sample


def ten() -> Sample:
    return Sample(done=10, seconds=1, p50_ms=1, p99_ms=1)


def test_costs_are_ratios_to_an_echo_and_an_insert_of_the_same_run(monkeypatch, database_url):
    costs = Costs(os.getpid(), database_url)
    monkeypatch.setattr(Costs, "echo_us", 50)
    monkeypatch.setattr(Costs, "insert_us", 100)
    monkeypatch.setattr(costs, "means", lambda _: {"API": 200, "worker": 30, "Postgres": 60})
    monkeypatch.setattr(costs, "wal_kb", lambda _: 5.0)
    found = {one.of: one for one in cost_ratios(costs, 140, has_targets=True)}
    assert {name: one.value for name, one in found.items()} == {
        f"{CREATE}, API process": 4,
        f"{CARD}, API process": 4,
        f"{READ}, API process": 4,
        f"{CREATE}, worker and Postgres": pytest.approx(0.9),
        f"{CREATE}, worker": 30,
        f"{CARD}, worker": 30,
        f"{CREATE}, WAL": 5,
        f"{CARD}, WAL": 5,
        "API process, resident": 140,
    }
    missed = {name for name, one in found.items() if not one.reached}
    slow = {f"{CREATE}, API process", f"{READ}, API process", f"{CREATE}, worker and Postgres", f"{CREATE}, worker"}
    assert missed == slow
    assert all(one.target is None for one in cost_ratios(costs, 140, has_targets=False))


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's counters are read on Linux")
def test_the_cost_of_an_insert_includes_its_generator(database_url, monkeypatch):
    costs = Costs(os.getpid(), database_url)
    of_postgres = iter((1.0, 1.5))
    monkeypatch.setattr(costs, "_used", lambda: _Used({"Postgres": next(of_postgres)}, 0, 0, 0))

    def run() -> Sample:
        subprocess.run([sys.executable, "-S", "-c", "while __import__('time').process_time() < 0.2: pass"], check=True)
        return ten()

    assert costs.of_insert(run)() == ten()
    assert costs.insert_us >= 0.9 * (0.5 + 0.2) / 10 * 1e6
    assert set(costs.facts()) == {"cost of an INSERT"}
