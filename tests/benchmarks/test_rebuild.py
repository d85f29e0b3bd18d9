"""The benchmark of a rebuild rebuilds every order, and leaves the database as the log has it."""

from __future__ import annotations

import pytest
from benchmarks.suites import rebuild


@pytest.mark.long
def test_a_rebuild_is_measured_beside_creates(postgres_url):
    report = rebuild.report(postgres_url, 0.3, rounds=1, events=3_000)
    assert [sample.done > 0 for sample in report.samples.values()] == [True] * 4
    assert [ratio.value > 0 for ratio in report.ratios] == [True] * 2
    assert len(report.facts) == 3
