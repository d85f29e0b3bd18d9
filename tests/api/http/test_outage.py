"""Which requests an outage of the database ends."""

from __future__ import annotations

import pytest

from api.http import outage
from api.http.outage import PATIENCE_S, Outage
from api.http.request import ApiRequest


class Timeout:
    """Counts how often its request is ended."""

    def __init__(self) -> None:
        self.ended = 0

    def expire(self) -> None:
        self.ended += 1


class Requests:
    """The requests of a process, its database, and a clock that only the test moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.has_database = 100.0, True
        monkeypatch.setattr(outage, "perf_counter", lambda: self.now)
        self.outage = Outage(lambda: self.has_database)

    def begin(self, **state: bool | int) -> Timeout:
        request = ApiRequest({"headers": []}, None)  # type: ignore[arg-type]
        request.needs_database = True
        for name, value in state.items():
            setattr(request, name, value)
        request.timeout = timeout = Timeout()  # type: ignore[assignment]
        self.outage.requests[request] = self.now
        return timeout

    def look_after(self, seconds: float) -> None:
        self.now += seconds
        self.outage.look()


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> Requests:
    return Requests(monkeypatch)


def test_a_request_that_waits_for_the_database_is_ended_once(requests: Requests) -> None:
    timeout = requests.begin()
    requests.look_after(60)
    requests.has_database = False
    requests.look_after(0)
    assert timeout.ended == 0, "a connection that was lost alone is replaced soon"
    for _ in range(3):
        requests.look_after(PATIENCE_S)
    assert timeout.ended == 1


@pytest.mark.parametrize("state", [{"needs_database": False}, {"is_reading": True}, {"status": 200}])
def test_a_request_that_does_not_wait_for_the_database_goes_on(
    requests: Requests, state: dict[str, bool | int]
) -> None:
    timeout = requests.begin(**state)
    requests.has_database = False
    for _ in range(3):
        requests.look_after(PATIENCE_S)
    assert timeout.ended == 0


def test_a_new_request_in_an_outage_has_the_same_patience(requests: Requests) -> None:
    requests.has_database = False
    requests.look_after(0)
    requests.look_after(PATIENCE_S)
    timeout = requests.begin()
    requests.look_after(PATIENCE_S / 2)
    assert timeout.ended == 0
    requests.look_after(PATIENCE_S)
    assert timeout.ended == 1


def test_an_outage_that_is_over_ends_nothing(requests: Requests) -> None:
    timeout = requests.begin()
    for _ in range(5):
        requests.has_database = not requests.has_database
        requests.look_after(PATIENCE_S)
    assert timeout.ended == 0
