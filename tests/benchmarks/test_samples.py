"""How samples are compared: within their round, and only where something was done."""

from __future__ import annotations

import json

import pytest
from benchmarks.measure import report, samples
from benchmarks.measure.report import Ratio, Report, Target
from benchmarks.measure.samples import NothingDone, Sample


def seen(done: int, p50_ms: float = 1.0) -> Sample:
    return Sample(done=done, seconds=1.0, p50_ms=p50_ms, p99_ms=2 * p50_ms)


def test_latencies_become_percentiles():
    one = samples.sample([n / 1000 for n in range(1000)], 2.0)
    assert (one.done, one.per_second) == (1000, 500)
    assert (one.p50_ms, one.p99_ms) == (500, 990)


def test_a_pause_counts_by_its_length_whatever_the_number_of_clients():
    """32 clients that wait 3 ms and 64 that wait 35 ms, and a pause of 100 ms in a second."""
    few, many = [0.003] * 9600 + [0.1] * 32, [0.035] * 1646 + [0.135] * 64
    of_few, of_many = samples.sample(few, 1.0), samples.sample(many, 1.0)
    assert (of_few.p99_ms, of_many.p99_ms) == (3, 135)
    assert round(of_few.residual_p99_ms) == round(of_many.residual_p99_ms - 35) == 90


@pytest.mark.parametrize("latencies", [[0.004], [0.001, 0.002, 0.003], [n / 1000 for n in range(1, 500)]])
def test_the_residual_p99_leaves_a_hundredth_of_the_waiting_beyond_it(latencies: list[float]):
    left = samples.residual_p99(latencies)
    assert sum(max(each - left, 0) for each in latencies) == pytest.approx(sum(latencies) / 100)
    assert samples.residual_p99([]) == 0


def test_runs_take_turns():
    order = []

    def run(name: str) -> Sample:
        order.append(name)
        return seen(1)

    samples.in_turns(2, {name: lambda name=name: run(name) for name in "ABC"})
    assert "".join(order) == "ABCABC"


def test_a_ratio_is_taken_within_each_round():
    of, to = [seen(10), seen(100), seen(30)], [seen(10), seen(200), seen(20)]
    assert samples.ratio(of, to, lambda one: one.per_second) == 1.0


def test_a_run_without_a_success_has_no_figure():
    failed = Sample(done=0, seconds=1.0, p50_ms=0, p99_ms=0, others={"503": 9})
    with pytest.raises(NothingDone, match="503"):
        samples.in_turns(1, {"create": lambda: failed})


def test_several_processes_are_summed_and_the_slowest_gives_the_latency():
    both = samples.together([seen(10, p50_ms=1), seen(30, p50_ms=3)])
    assert (both.done, both.p50_ms, both.p99_ms) == (40, 3, 6)


def test_a_missed_target_is_reported_as_missed():
    missed = Ratio(of="journal", to="R", value=0.8, target=Target(0.9))
    late = Ratio(of="p99", to="p99", value=1.6, target=Target(1.5, at_most=True))
    assert (missed.reached, late.reached) == (False, False)
    found = json.loads(report.as_json([Report(name="x", samples={"a": seen(5)}, ratios=[missed])], {"cores": "2"}))
    (only,) = found["reports"]
    assert only["ratios"] == [{"of": "journal", "to": "R", "ratio": 0.8, "target": "≥ 0.9", "reached": False}]
    assert only["samples"]["a"]["per_second"] == 5
