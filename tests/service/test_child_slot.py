"""The place of a child in its service: what is started when, and what is reported."""

import pytest

from ledger.back_off import RecentEndings
from ledger.service import child_slot
from ledger.service.child_slot import ChildSlot


class Child:
    """A child process that ends when the test asks for it."""

    ending = "exited with 7"

    def __init__(self, pid, is_ready):
        self.pid, self.is_ready, self.alive, self.stopped = pid, is_ready, True, ""

    def is_alive(self):
        return self.alive

    def end_if_stopped(self):
        return self.stopped

    def end(self):
        assert not self.alive


class Place:
    """A slot, its children in their order, and a clock that only the test moves."""

    def __init__(self, monkeypatch):
        self.now, self.children, self.is_ready, self.refusal = 1000.0, [], True, None
        monkeypatch.setattr(child_slot.time, "monotonic", lambda: self.now)
        self.slot = ChildSlot("api", self.start)

    def start(self):
        if self.refusal:
            raise self.refusal
        self.children.append(Child(len(self.children) + 1, self.is_ready))
        return self.children[-1]

    def end_child(self):
        self.children[-1].alive = False
        return self.slot.tick(may_start=True)


@pytest.fixture
def place(monkeypatch):
    return Place(monkeypatch)


def test_a_child_is_replaced_without_end_and_each_ending_is_reported(place):
    for n in range(1, 100):
        assert place.end_child().startswith(f"the api process (pid {n}) exited with 7; starting another")
        assert not place.slot.is_ready()
        place.now += 5.0  # the longest pause
        assert place.slot.tick(may_start=True) == ""
        assert place.slot.is_ready()


def test_the_pause_before_a_start_grows_and_is_not_cut_short(place):
    assert place.end_child() == "the api process (pid 1) exited with 7; starting another"
    place.slot.tick(may_start=True)
    assert place.end_child() == "the api process (pid 2) exited with 7; starting another in 0.1 s"
    place.now += 0.05
    place.slot.tick(may_start=True)
    assert len(place.children) == 2
    place.now += 0.06
    place.slot.tick(may_start=True)
    assert len(place.children) == 3


def test_a_child_that_never_becomes_ready_is_reported_once_until_one_is(place):
    place.is_ready = False
    reported = [place.end_child()]
    for _ in range(10):
        place.now += 5.0
        place.slot.tick(may_start=True)
        reported.append(place.end_child())
    assert [line.partition("; starting")[0] for line in reported if line] == [
        "the api process (pid 1) exited with 7",
        "the api process exited with 7 before it was ready",
    ]
    place.is_ready = True
    place.now += 5.0
    place.slot.tick(may_start=True)
    assert "(pid 12) exited with 7" in place.end_child()


def test_no_child_is_started_before_the_caller_allows_it(place):
    place.end_child()
    place.now += 5.0
    place.slot.tick(may_start=False)
    assert len(place.children) == 1
    place.slot.tick(may_start=True)
    assert len(place.children) == 2


def test_a_system_that_refuses_another_process_is_asked_again(place):
    place.end_child()
    place.refusal = BlockingIOError(11, "Resource temporarily unavailable")
    place.now += 5.0
    reported = [place.slot.tick(may_start=True)]
    place.now += 5.0
    reported.append(place.slot.tick(may_start=True))
    assert reported[0].startswith("the api process cannot be started: Resource temporarily unavailable; starting")
    assert reported[1] == ""
    place.refusal = None
    place.now += 5.0
    place.slot.tick(may_start=True)
    assert place.slot.is_ready()


def test_pauses_double_up_to_their_maximum_and_begin_again_after_a_minute():
    endings = RecentEndings(2.0)
    assert [endings.pause_s(n) for n in range(8)] == [0.0, 0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0]
    assert endings.pause_s(200.0) == 0.0
