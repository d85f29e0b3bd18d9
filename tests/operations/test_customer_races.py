"""Requests on the same customer at once, through two processes: always a legal end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.operations.conftest import Open, an_order
from tests.operations.test_erasure import log_and_rows
from tests.operations.test_sealing import places_of

from ledger.domain.rejections import CustomerNotFound, DuplicateExternalId, Rejected, RequestInProgress
from ledger.operations.context.inputs import Actor, CustomerFields, CustomerInput
from ledger.operations.context.ledger import Ledger
from ledger.operations.customers.change import change_customer
from ledger.operations.customers.create import create_customer
from ledger.operations.erasure.erase_customer import delete_customer
from ledger.operations.orders.create import create_order
from ledger.operations.pipeline.execute_stream import StreamResult
from ledger.operations.pipeline.unit_of_work import IdempotencyKey
from projections.erasures import Erasures

pytestmark = pytest.mark.anyio

_AT_ONCE = 8
WORDS = ("Xochitl", "xochitl@example.com", "+525512345678", "Quetzalli")


class Processes:
    """Two ledgers on one database, for the same merchant."""

    def __init__(self, one: Ledger, other: Ledger, merchant: Actor, erasures: Erasures, url: str) -> None:
        self.one, self.other, self.merchant, self.url = one, other, merchant, url
        self._orders_of = erasures.orders_of

    async def create(self, ledger: Ledger, name: str, **fields: Any) -> Any:
        key = fields.pop("key", None)
        given = CustomerFields(external_id=name, first_name="Xochitl", email="xochitl@example.com", **fields)
        return await outcome(create_customer(ledger, self.merchant, given, key))

    async def change(self, ledger: Ledger, name: str, **fields: Any) -> Any:
        return await outcome(change_customer(ledger, self.merchant, name, CustomerFields(**fields)))

    async def delete(self, ledger: Ledger, name: str) -> Any:
        return await outcome(delete_customer(ledger, self.merchant, name, self._orders_of))

    async def assert_whole(self) -> None:
        """Asserts that the log folds and that the stored rows are those of a replay."""
        expected, stored = await log_and_rows(self.url, self.merchant)
        assert expected == stored


async def outcome(operation: Awaitable[Any]) -> Any:
    """Returns what an operation returns, or the class of the rejection that it raises."""
    try:
        return await operation
    except Rejected as rejection:
        return type(rejection)


@pytest.fixture(params=[pytest.param(8, id="short"), pytest.param(200, id="long", marks=pytest.mark.long)])
def rounds(request: pytest.FixtureRequest) -> int:
    """How many rounds a race has. `--rounds 500` with `-m long` runs that many."""
    given: int | None = request.config.getoption("--rounds")
    return int(request.param) if given is None else given


@pytest.fixture
async def processes(ledger: Ledger, open_another: Open, merchant: Actor, database_url: str) -> Any:
    async with Erasures(database_url) as erasures:
        yield Processes(ledger, await open_another(), merchant, erasures, database_url)


def rejections_of(outcomes: list[Any]) -> list[type[Rejected]]:
    return [each for each in outcomes if isinstance(each, type)]


async def in_rounds(race: Callable[[int], Awaitable[None]], rounds: int) -> None:
    """Runs that many rounds of a race, eight of them at a time."""
    for start in range(0, rounds, _AT_ONCE):
        await asyncio.gather(*[race(n) for n in range(start, min(start + _AT_ONCE, rounds))])


async def test_a_customer_that_is_changed_while_it_is_erased_is_erased(processes: Processes, rounds: int) -> None:
    async def race(n: int) -> None:
        name = f"c-{n}"
        created = await processes.create(processes.one, name)
        ordered = an_order(f"o-{n}", customer=CustomerInput(external_id=name))
        work = [
            processes.change(processes.one, name, last_name="Quetzalli"),
            processes.delete(processes.other, name),
            processes.change(processes.other, name, phone_number="+525512345678"),
            outcome(create_order(processes.one, processes.merchant, ordered)),
        ]
        outcomes = await asyncio.gather(*work[n % 4 :], *work[: n % 4])
        assert set(rejections_of(outcomes)) <= {CustomerNotFound}
        ended = [each.state for each in outcomes if isinstance(each, StreamResult)]
        assert any(customer.erased for customer in ended), "the erasure always succeeds"
        again = await processes.change(processes.one, str(created.state.customer_id), last_name="Quetzalli")
        assert again is CustomerNotFound

    await in_rounds(race, rounds)
    assert places_of(processes.url, WORDS, "event", "customer", "payment_order") == set()
    await processes.assert_whole()


async def test_of_two_creations_at_once_with_one_external_id_one_succeeds(processes: Processes, rounds: int) -> None:
    async def race(n: int) -> None:
        both = await asyncio.gather(
            processes.create(processes.one, f"c-{n}"), processes.create(processes.other, f"c-{n}")
        )
        assert rejections_of(both) == [DuplicateExternalId]
        request = IdempotencyKey(f"create-{n}", "same request")
        same = await asyncio.gather(
            processes.create(processes.one, f"k-{n}", key=request),
            processes.create(processes.other, f"k-{n}", key=request),
        )
        assert set(rejections_of(same)) <= {RequestInProgress}
        again = await processes.create(processes.one, f"k-{n}", key=request)
        assert again.repeated
        made = {each.state.customer_id for each in (*same, again) if not isinstance(each, type)}
        assert made == {again.state.customer_id}

    await in_rounds(race, rounds)
    await processes.assert_whole()


async def test_an_order_and_a_creation_at_once_share_the_customer(processes: Processes) -> None:
    for n in range(8):
        person = CustomerInput(external_id=f"c-{n}", first_name="Xochitl")
        work = [
            outcome(create_order(processes.one, processes.merchant, an_order(f"o-{n}", customer=person))),
            processes.create(processes.other, f"c-{n}"),
        ]
        order, created = await asyncio.gather(*(work if n % 2 else reversed(work)))
        if not n % 2:
            order, created = created, order
        assert created is DuplicateExternalId or created.state.customer_id == order.customer.customer_id
    await processes.assert_whole()


async def test_a_source_that_is_erased_at_once_is_a_source_or_not_found(processes: Processes) -> None:
    for n in range(8):
        await processes.create(processes.one, f"source-{n}")
        child, _ = await asyncio.gather(
            processes.create(processes.one, f"child-{n}", source_id=f"source-{n}"),
            processes.delete(processes.other, f"source-{n}"),
        )
        assert child is CustomerNotFound or child.state.source_id is not None
        assert await processes.create(processes.one, f"late-{n}", source_id=f"source-{n}") is CustomerNotFound
    await processes.assert_whole()


async def test_a_source_that_was_erased_between_the_look_up_and_the_commit_is_not_found(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ledger.operations.customers import create

    await processes.create(processes.one, "source")
    find = create.find_source

    async def erased_after_the_look_up(*arguments: Any) -> Any:
        found = await find(*arguments)
        await processes.delete(processes.other, "source")
        return found

    monkeypatch.setattr(create, "find_source", erased_after_the_look_up)
    assert await processes.create(processes.one, "child", source_id="source") is CustomerNotFound
