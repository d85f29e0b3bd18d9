"""The merchant's clock over HTTP: shown, moved on, never back, and the same in every process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec
import pytest
from tests.api.bodies import order
from tests.api.storefront import ORDERS, Merchant, Storefront, opened

from api.http import dependencies
from api.http.request import ApiRequest
from ledger.background.clock import advance as clock_advance
from ledger.background.effects import Effect, SetTimer
from ledger.journal.reader import SeenEvent
from ledger.operations.context.ledger import Ledger

pytestmark = pytest.mark.anyio

CLOCK = "/api/sandbox/clock"


class Chain:
    """A reaction that sets a timer some hours after each order; the hours are in the order's external id."""

    name = "test-chain"
    topics = frozenset({"order-created.v1"})

    def react(self, recorded: SeenEvent) -> Iterable[Effect]:
        step = timedelta(hours=int(recorded.event.external_id.removeprefix("h")))
        yield SetTimer("remember", recorded.stream_id, UUID(int=0), recorded.event.at + step)


class Remembered:
    def __init__(self) -> None:
        self.times: list[tuple[UUID, datetime, datetime]] = []

    async def __call__(self, ledger: Ledger, merchant_id: UUID, stream_id: UUID, _: UUID, due_at: datetime) -> None:
        self.times.append((stream_id, due_at, ledger.clock.now(merchant_id)))


REMEMBERED = Remembered()


@pytest.fixture(autouse=True, scope="module")
def reactions() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dependencies, "REACTIONS", (Chain(),))
        patch.setattr(dependencies, "HANDLERS", {"remember": REMEMBERED})
        yield


@pytest.fixture(scope="module")
async def other(settings: Any, store: Storefront) -> AsyncIterator[Storefront]:
    """A second application on the same database, as another process would serve it."""
    async with opened(settings) as storefront:
        yield storefront


def read(answer: Any) -> datetime:
    assert answer.status_code == 200, answer.text
    return datetime.fromisoformat(answer.json()["now"])


async def test_a_clock_shows_real_time_until_it_is_moved(merchant: Merchant) -> None:
    assert abs(read(await merchant.get(CLOCK)) - datetime.now(UTC)) < timedelta(minutes=1)
    moved = await merchant.post(CLOCK, {"advanceBy": "PT36H"})
    assert moved.json()["jobsRun"] == 0
    ahead = read(moved) - datetime.now(UTC)
    assert timedelta(hours=35, minutes=59) < ahead < timedelta(hours=36, minutes=1)


async def test_a_move_holds_for_the_next_request_to_any_process(
    merchant: Merchant, other: Storefront, store: Storefront
) -> None:
    there = Merchant(merchant.merchant_id, merchant.secret, other.client)
    for n in range(6):
        before = read(await there.get(CLOCK))
        here, elsewhere = (merchant, there) if n % 2 else (there, merchant)
        moved = read(await here.post(CLOCK, {"advanceBy": "P1D"}))
        assert moved - before >= timedelta(days=1)
        assert read(await elsewhere.get(CLOCK)) >= moved
        created = await elsewhere.create(order(externalId=f"h{n}"))
        assert datetime.fromisoformat(created.json()["createdAt"]) >= moved.replace(microsecond=0)
    neighbour = await store.register()
    assert read(await neighbour.get(CLOCK)) < datetime.now(UTC) + timedelta(minutes=1)


async def test_what_becomes_due_is_done_in_the_order_of_time_each_at_its_moment(merchant: Merchant) -> None:
    hours = [5, 1, 9, 3, 30]
    made = {}
    for hour in hours:
        created = await merchant.create(order(externalId=f"h{hour}"))
        made[UUID(created.json()["id"])] = hour
    moved = await merchant.post(CLOCK, {"advanceBy": "PT10H"})
    assert (moved.status_code, moved.json().get("jobsRun")) == (200, 4), moved.text
    done = [(made[stream], due_at, at) for stream, due_at, at in REMEMBERED.times if stream in made]
    assert [hour for hour, _, _ in done] == [1, 3, 5, 9]
    assert all(timedelta() <= at - due_at < timedelta(minutes=1) for _, due_at, at in done)
    again = await merchant.post(CLOCK, {"advanceBy": "P1D"})
    assert again.json()["jobsRun"] == 1


async def test_advance_to_shows_that_moment_or_just_after_it(merchant: Merchant) -> None:
    target = (datetime.now(UTC) + timedelta(days=40)).replace(microsecond=0)
    moved = await merchant.post(CLOCK, {"advanceTo": target.isoformat()})
    assert timedelta() <= read(moved) - target < timedelta(minutes=1)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "advanceTo"),
        ({"advanceTo": "2020-01-01T00:00:00Z"}, "advanceTo"),
        ({"advanceTo": "tomorrow"}, "advanceTo"),
        ({"advanceTo": "9999-12-31T23:59:59-14:00"}, "advanceTo"),
        ({"advanceTo": "2290-01-01T00:00:00Z"}, "advanceTo"),
        ({"advanceTo": 5}, "advanceTo"),
        ({"advanceBy": "-PT1H"}, "advanceBy"),
        ({"advanceBy": "P"}, "advanceBy"),
        ({"advanceBy": "PT"}, "advanceBy"),
        ({"advanceBy": "P1DT"}, "advanceBy"),
        ({"advanceBy": "1 day"}, "advanceBy"),
        ({"advanceBy": "P1H"}, "advanceBy"),
        ({"advanceBy": "P9000Y"}, "advanceBy"),
        ({"advanceBy": "P99999999999999999999D"}, "advanceBy"),
        ({"advanceBy": "PT999999999H"}, "advanceBy"),
        ({"advanceBy": "٣"}, "advanceBy"),
        ({"advanceTo": "2090-01-01T00:00:00Z", "advanceBy": "P1D"}, "advanceTo"),
    ],
)
async def test_what_cannot_be_is_refused_with_the_field(merchant: Merchant, body: dict[str, Any], field: str) -> None:
    before = read(await merchant.get(CLOCK))
    answer = await merchant.post(CLOCK, body)
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, field)
    assert read(await merchant.get(CLOCK)) - before < timedelta(minutes=1)


async def test_a_clock_never_goes_back_and_moves_on_after_a_refusal(merchant: Merchant) -> None:
    moved = read(await merchant.post(CLOCK, {"advanceBy": "P2D"}))
    back = await merchant.post(CLOCK, {"advanceTo": (moved - timedelta(hours=1)).isoformat()})
    assert (back.status_code, back.json()["errors"][0]["field"]) == (400, "advanceTo")
    assert read(await merchant.post(CLOCK, {"advanceBy": "PT1H"})) - moved >= timedelta(hours=1)


async def test_two_who_move_one_clock_at_once_do_it_one_after_the_other(merchant: Merchant) -> None:
    answers = await asyncio.gather(*[merchant.post(CLOCK, {"advanceBy": "P1D"}) for _ in range(3)])
    assert sorted(answer.status_code for answer in answers) == [200, 409, 409]
    assert read(await merchant.get(CLOCK)) - datetime.now(UTC) < timedelta(days=1, minutes=1)


async def test_a_move_that_ends_early_is_answered_with_what_to_send_next(
    merchant: Merchant, monkeypatch: pytest.MonkeyPatch
) -> None:
    for hour in (1, 2, 3):
        await merchant.create(order(externalId=f"h{hour}"))
    monkeypatch.setattr(clock_advance, "DUE_MAX", 2)
    key = {"idempotency-key": "ten-hours"}
    first = await merchant.post(CLOCK, {"advanceBy": "PT10H"}, **key)
    assert (first.status_code, first.json()["jobsRun"], first.json()["more"]) == (200, 2, True)
    assert read(first) < datetime.fromisoformat(first.json()["advanceTo"]) - timedelta(hours=7)
    assert read(await merchant.get(CLOCK)) - read(first) < timedelta(minutes=1)
    again = await merchant.post(CLOCK, {"advanceBy": "PT10H"}, **key)
    assert (again.json(), again.headers["idempotent-replayed"]) == (first.json(), "true")
    rest = await merchant.post(CLOCK, {"advanceTo": first.json()["advanceTo"]})
    assert (rest.json()["jobsRun"], rest.json()["more"]) == (1, False)
    assert rest.json()["advanceTo"] == first.json()["advanceTo"] <= rest.json()["now"]


async def test_a_move_ends_once_its_client_has_left(merchant: Merchant, monkeypatch: pytest.MonkeyPatch) -> None:
    made = [UUID((await merchant.create(order(externalId=f"h{hour}"))).json()["id"]) for hour in (1, 2, 3)]

    def done() -> list[UUID]:
        return [stream for stream, _, _ in REMEMBERED.times if stream in made]

    with monkeypatch.context() as patch:
        patch.setattr(ApiRequest, "is_awaited", lambda _: not done())
        left = await merchant.post(CLOCK, {"advanceBy": "PT10H"})
    assert (left.json()["jobsRun"], left.json()["more"], done()) == (1, True, made[:1])
    rest = await merchant.post(CLOCK, {"advanceTo": left.json()["advanceTo"]})
    assert (rest.json()["jobsRun"], rest.json()["more"], done()) == (2, False, made)


async def test_production_has_no_clock_to_move(settings: Any, database_url: str) -> None:
    real = msgspec.structs.replace(settings, environment="production", database_url=database_url)
    async with opened(real) as store:
        merchant = await store.register()
        assert (await merchant.get(CLOCK)).status_code == 404
        assert (await merchant.post(CLOCK, {"advanceBy": "P1D"})).json()["code"] == "NOT_FOUND"
        assert (await merchant.get(ORDERS)).status_code == 200
