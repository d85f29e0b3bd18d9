"""A short campaign of failovers where Patroni is installed, and what the command says where it is not."""

from __future__ import annotations

import sys

import pytest
from campaigns.chaos.checker import Figures
from campaigns.failover import command
from campaigns.failover.campaign import Failover, Plan, Result, run, slow
from campaigns.failover.programs import missing_packages

FIGURES = Figures(
    events=0, orders=0, operations=0, acknowledged=0, refused=0, unknown=0, landed=0, lost=0, doubled=0, replayed=0,
    declined=0, recovered=0, unavailable=0, about_cards=0, seconds=0.0,
)  # fmt: skip


@pytest.mark.anyio
@pytest.mark.long
@pytest.mark.skipif(bool(missing_packages()), reason=f"not installed: {', '.join(missing_packages())}")
@pytest.mark.skipif(sys.platform != "linux", reason="looks at processes through /proc")
async def test_nothing_acknowledged_is_lost_when_the_primary_is() -> None:
    result = await run(Plan(failovers=2, alone=1, clients=3))
    assert result.violations == []
    assert (result.figures.lost, result.figures.doubled, result.stuck) == (0, 0, 0)
    assert [failover.fault for failover in result.failovers] == ["switchover", "postmaster", "alone"]
    assert all(failover.back_s.keys() == {"hosts", "haproxy", "pgbouncer"} for failover in result.failovers)
    assert result.failovers[-1].waiting
    assert result.figures.acknowledged > 50
    assert result.calls > 20


def test_what_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(command, "missing_packages", lambda: ["patroni", "haproxy"])
    assert command.main([]) == 2
    assert capsys.readouterr().err == "patroni, haproxy is not installed: apt-get install patroni haproxy\n"


def test_a_route_that_is_late_at_the_median_is_found() -> None:
    failovers = [
        Failover(fault="node", promoted_s=20.0, back_s={"hosts": hosts, "haproxy": 1.0}) for hosts in (1.0, 3.0, 30.0)
    ]
    result = Result(failovers=failovers, figures=FIGURES, stuck=0, calls=0, violations=[], seconds=0.0)
    assert slow(result) == ["hosts: 3.00 s after the promotion at the median, more than 2 s"]
    assert "1.00 s, 1.00 s" in command.table(result)
