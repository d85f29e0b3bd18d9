"""The board: everybody's figures, read by anybody, and totals that never fall."""

import os

import pytest

from ledger.telemetry.shared_metrics import MetricSample, SharedMetrics, create_shared_metrics, summed


@pytest.fixture
def descriptor():
    descriptor = create_shared_metrics()
    yield descriptor
    os.close(descriptor)


def hang(descriptor, place, *readings, role="api"):
    """What a process does that has these figures."""
    board = SharedMetrics(descriptor, place, role)
    board._sources.append(lambda: readings)
    board.publish()
    return board


def seen(board):
    return {who: {(r.name, r.labels): r.value for r in readings} for who, readings in board.read()}


def test_everybody_sees_the_figures_of_everybody(descriptor):
    hang(descriptor, 0, MetricSample("asked_total", ("GET",), 3.0))
    other = hang(descriptor, 2, MetricSample("asked_total", ("GET",), 4.0), role="worker")
    assert seen(other) == {"api-0": {("asked_total", ("GET",)): 3.0}, "worker-2": {("asked_total", ("GET",)): 4.0}}


def test_whoever_takes_a_place_over_goes_on_from_what_only_grows(descriptor):
    hang(
        descriptor,
        0,
        MetricSample("asked_total", (), 3.0),
        MetricSample("open", (), 7.0),
        MetricSample("took", (), [1.0, 2.0, 0.5]),
    )
    successor = hang(
        descriptor,
        0,
        MetricSample("asked_total", (), 1.0),
        MetricSample("open", (), 2.0),
        MetricSample("took", (), [0.0, 1.0, 0.25]),
    )
    assert seen(successor)["api-0"] == {("asked_total", ()): 4.0, ("open", ()): 2.0, ("took", ()): [1.0, 3.0, 0.75]}
    successor.publish()
    assert seen(successor)["api-0"][("asked_total", ())] == 4.0, "what was before is counted once"


def test_figures_that_are_half_written_are_not_shown(descriptor):
    board = hang(descriptor, 0, MetricSample("asked_total", (), 3.0))
    os.pwrite(descriptor, b"\xff\xff", 12)
    assert seen(board) == {}


def test_an_empty_board_is_empty(descriptor):
    assert seen(SharedMetrics(descriptor, 0, "api")) == {}


def test_figures_of_one_name_and_labels_are_added_up():
    readings = [MetricSample("a", ("x",), 1.0), MetricSample("a", ("y",), 2.0), MetricSample("a", ("x",), 3.0)]
    assert summed(readings) == [MetricSample("a", ("x",), 4.0), MetricSample("a", ("y",), 2.0)]
