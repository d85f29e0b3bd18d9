"""Which requests are ended: those that take too long, and in an outage of the database those that wait for it."""

from __future__ import annotations

import asyncio

import pytest

from api.http import open_requests
from api.http.open_requests import PATIENCE_S, OpenRequests
from api.http.request import ApiRequest

pytestmark = pytest.mark.anyio

TIMEOUT_S = 600.0


class Requests:
    """The requests of a process, its database, and a clock that only the test moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.has_database = 100.0, True
        monkeypatch.setattr(open_requests, "perf_counter", lambda: self.now)
        self.open = OpenRequests(TIMEOUT_S, lambda: self.has_database)
        self.tasks: list[asyncio.Task[None]] = []

    async def begin(self, **state: bool | int) -> ApiRequest:
        request = ApiRequest({"headers": []}, None)  # type: ignore[arg-type]
        request.began, request.needs_database = self.now, True
        for name, value in state.items():
            setattr(request, name, value)
        begun = asyncio.Event()

        async def answer() -> None:
            self.open.add(request)
            begun.set()
            await asyncio.Event().wait()

        self.tasks.append(asyncio.create_task(answer()))
        await begun.wait()
        return request

    def look_after(self, seconds: float) -> None:
        self.now += seconds
        self.open.look()

    def cancellations(self) -> list[int]:
        """Returns how often the task of each request was cancelled."""
        return [task.cancelling() for task in self.tasks]


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> Requests:
    return Requests(monkeypatch)


async def test_a_request_that_takes_too_long_is_ended_once(requests: Requests) -> None:
    first = await requests.begin()
    requests.look_after(TIMEOUT_S - 1)
    second = await requests.begin()
    assert requests.cancellations() == [0, 0]
    requests.look_after(1)
    requests.look_after(1)
    assert requests.cancellations() == [1, 0]
    assert (first.has_timed_out, first.lost_database, second.has_timed_out) == (True, False, False)


async def test_requests_are_looked_at_while_there_are_any(requests: Requests) -> None:
    await requests.begin()
    requests.now += TIMEOUT_S
    async with asyncio.timeout(60):
        await asyncio.wait(requests.tasks)
        while requests.open._loop is not None:  # noqa: ASYNC110 - the timer has no event
            await asyncio.sleep(0.01)
        await requests.begin()
        requests.now += TIMEOUT_S
        await asyncio.wait(requests.tasks)
    assert all(task.cancelled() for task in requests.tasks)


async def test_a_request_whose_answer_is_known_is_not_ended(requests: Requests) -> None:
    requests.open.remove(await requests.begin())
    requests.has_database = False
    for _ in range(3):
        requests.look_after(TIMEOUT_S)
    assert requests.cancellations() == [0]


async def test_a_request_that_waits_for_the_database_is_ended_once(requests: Requests) -> None:
    request = await requests.begin()
    requests.look_after(60)
    requests.has_database = False
    requests.look_after(0)
    assert requests.cancellations() == [0], "a connection that was lost alone is replaced soon"
    for _ in range(3):
        requests.look_after(PATIENCE_S)
    assert requests.cancellations() == [1]
    assert request.lost_database


@pytest.mark.parametrize("state", [{"needs_database": False}, {"is_reading": True}, {"status": 200}])
async def test_a_request_that_does_not_wait_for_the_database_goes_on(
    requests: Requests, state: dict[str, bool | int]
) -> None:
    await requests.begin(**state)
    requests.has_database = False
    for _ in range(3):
        requests.look_after(PATIENCE_S)
    assert requests.cancellations() == [0]


async def test_a_new_request_in_an_outage_has_the_same_patience(requests: Requests) -> None:
    requests.has_database = False
    requests.look_after(0)
    requests.look_after(PATIENCE_S)
    await requests.begin()
    requests.look_after(PATIENCE_S / 2)
    assert requests.cancellations() == [0]
    requests.look_after(PATIENCE_S)
    assert requests.cancellations() == [1]


async def test_an_outage_that_is_over_ends_nothing(requests: Requests) -> None:
    await requests.begin()
    for _ in range(5):
        requests.has_database = not requests.has_database
        requests.look_after(PATIENCE_S)
    assert requests.cancellations() == [0]
