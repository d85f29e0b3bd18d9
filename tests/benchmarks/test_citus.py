"""The benchmark of Citus measures the same operations on one server and on three, and is left out without Citus."""

from __future__ import annotations

import pytest
from benchmarks.suites import citus
from campaigns.citus import cluster
from campaigns.citus.build import CannotBuild, built


@pytest.mark.long
@pytest.mark.skipif(built() is None, reason="Citus was not built here: make citus")
def test_creates_and_reads_are_measured_on_one_server_and_on_three(postgres_url):
    found = citus.report(postgres_url, 0.3, 1, orders=300)
    what = ("creates", *citus._IN_FLIGHT_OF)
    assert found.samples.keys() == {f"{each}, {by}" for each in what for by in ("one server", "Citus")}
    assert all(one.done and not one.others for one in found.samples.values())
    assert len(found.ratios) == 3 * len(what)
    assert all(one.value > 0 for one in found.ratios)


def test_a_machine_without_citus_gets_one_line(monkeypatch):
    def build():
        raise CannotBuild("Citus cannot be built here: gcc is not installed")

    monkeypatch.setattr(cluster, "build", build)
    found = citus.report("", 0.3, 1)
    assert found.samples == {}
    assert found.facts == {"reason": "Citus cannot be built here: gcc is not installed"}
