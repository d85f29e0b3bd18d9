"""Races for saved cards: two requests at once, through two processes, always come to a legal end.

A legal end: every method that the log has live can be charged, every number in the vault belongs to one of them or is
left to the sweep, and a payment that is refused has charged nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

import pytest
from tests.operations.conftest import APPROVED, Open, an_order, by_card, register
from tests.operations.test_saved_cards import by_saved, method_of
from tests.operations.test_sealing import fetch

from ledger.domain.orders.statuses import OrderStatus
from ledger.domain.rejections import CustomerNotFound, PaymentMethodNotFound, Rejected
from ledger.operations.context.inputs import Actor, CustomerInput
from ledger.operations.context.ledger import Ledger
from ledger.operations.context.results import OrderResult
from ledger.operations.erasure.erase_customer import delete_customer
from ledger.operations.orders.create import create_order
from ledger.operations.payment_methods.change import MethodUpdate, delete_payment_method, update_payment_method
from ledger.operations.payment_methods.sweep import sweep_cards
from projections.erasures import Erasures

pytestmark = pytest.mark.anyio


class Arena:
    """Two processes on one database, with a customer of its own for each round."""

    def __init__(self, one: Ledger, two: Ledger, merchant: Actor, url: str) -> None:
        self.one, self.two, self.merchant, self.url = one, two, merchant, url
        self.round = 0

    @property
    def customer(self) -> CustomerInput:
        return CustomerInput(external_id=f"c-{self.round}", first_name="Ana")

    async def save(self, ledger: Ledger, name: str) -> OrderResult:
        order = an_order(f"{name}-{self.round}", by_card(persist=True), customer=self.customer)
        return await create_order(ledger, self.merchant, order)

    async def pay(self, ledger: Ledger, name: str, method_id: UUID) -> OrderResult:
        order = an_order(f"{name}-{self.round}", by_saved(method_id), customer=self.customer)
        return await create_order(ledger, self.merchant, order)

    def charges(self) -> int:
        """Returns how many charges the processor has recorded."""
        return int(fetch(self.url, "select count(*) from sandbox_charge")[0][0])

    async def assert_legal(self) -> None:
        """Checks that the vault and the log agree once the sweep has run."""
        await sweep_cards(self.one, age_s=0.0)
        mine = f"merchant_id = '{self.merchant.merchant_id}'"
        live = f"select payment_method_id from payment_method where doc is not null and {mine} order by 1"
        kept = f"select payment_method_id from vault_card where {mine} order by 1"
        assert fetch(self.url, live) == fetch(self.url, kept)


async def at_once(*work: Awaitable[Any]) -> list[Any]:
    return await asyncio.gather(*work, return_exceptions=True)


async def save_twice(arena: Arena) -> None:
    """Two orders save the same card of one customer, new or not: one method, and both are paid."""
    if arena.round % 2:
        await create_order(arena.one, arena.merchant, an_order(f"first-{arena.round}", customer=arena.customer))
    results = await at_once(arena.save(arena.one, "a"), arena.save(arena.two, "b"))
    assert [result.order.status for result in results] == [OrderStatus.COMPLETED] * 2, results
    assert len({method_of(result) for result in results}) == 1


async def delete_while_it_pays(arena: Arena) -> None:
    """Paid and deleted, or refused and not charged."""
    saved = await arena.save(arena.one, "a")
    method_id, customer_id = method_of(saved), saved.customer.customer_id
    before = arena.charges()
    paid, deleted = await at_once(
        arena.pay(arena.two, "b", method_id),
        delete_payment_method(arena.one, arena.merchant, customer_id, method_id),
    )
    assert deleted is False, deleted
    if isinstance(paid, Exception):
        assert isinstance(paid, PaymentMethodNotFound), paid
    else:
        assert paid.order.status is OrderStatus.COMPLETED
    assert arena.charges() - before == (0 if isinstance(paid, Exception) else 1)
    with pytest.raises(PaymentMethodNotFound):
        await arena.pay(arena.one, "c", method_id)


async def delete_while_it_is_saved_again(arena: Arena) -> None:
    """Deleted under its old id; saved under a new one, or before the deletion."""
    saved = await arena.save(arena.one, "a")
    method_id, customer_id = method_of(saved), saved.customer.customer_id
    again, deleted = await at_once(
        arena.save(arena.two, "b"), delete_payment_method(arena.one, arena.merchant, customer_id, method_id)
    )
    assert deleted is False, deleted
    assert again.order.status is OrderStatus.COMPLETED, again
    if method_of(again) != method_id:
        assert (await arena.pay(arena.one, "c", method_of(again))).order.status is OrderStatus.COMPLETED


async def change_while_it_is_deleted(arena: Arena) -> None:
    """Changed and then deleted, or not found."""
    saved = await arena.save(arena.one, "a")
    method_id, customer_id = method_of(saved), saved.customer.customer_id
    update = MethodUpdate(billing={"city": "Oaxaca"}, nickname="x", is_default=True)
    changed, deleted = await at_once(
        update_payment_method(arena.two, arena.merchant, customer_id, method_id, update),
        delete_payment_method(arena.one, arena.merchant, customer_id, method_id),
    )
    assert deleted is False, deleted
    assert not isinstance(changed, Exception) or isinstance(changed, PaymentMethodNotFound), changed


async def erase_while_it_is_saved(arena: Arena) -> None:
    """Saved and erased, or refused: in the end the customer has neither a method nor a number."""
    first = await arena.save(arena.one, "a")
    async with Erasures(arena.url) as payers:
        saved, erased = await at_once(
            arena.save(arena.two, "b"),
            delete_customer(arena.one, arena.merchant, f"c-{arena.round}", payers.orders_of),
        )
    assert not isinstance(erased, Exception), erased
    assert not isinstance(saved, Exception) or isinstance(saved, CustomerNotFound), saved
    await sweep_cards(arena.one, age_s=0.0)
    query = f"select 1 from vault_card where customer_id = '{first.customer.customer_id}'"
    assert fetch(arena.url, query) == []
    with pytest.raises(Rejected):
        await arena.save(arena.two, "c")


RACES: list[Callable[[Arena], Awaitable[None]]] = [
    save_twice,
    delete_while_it_pays,
    delete_while_it_is_saved_again,
    change_while_it_is_deleted,
    erase_while_it_is_saved,
]


@pytest.fixture
async def arena(ledger: Ledger, merchant: Actor, open_another: Open, database_url: str) -> Arena:
    return Arena(ledger, await open_another(), merchant, database_url)


async def run(arena: Arena, rounds: int) -> None:
    for number in range(rounds):
        for race in RACES:
            arena.round += 1
            await race(arena)
        if number % 25 == 0 or number == rounds - 1:
            await arena.assert_legal()


async def test_every_race_comes_to_a_legal_end(arena: Arena) -> None:
    await run(arena, 2)


@pytest.mark.long
async def test_a_hundred_races_come_to_a_legal_end(arena: Arena) -> None:
    """`python -m campaigns vault` runs five hundred."""
    await run(arena, 20)


async def test_a_number_without_a_method_is_not_charged_by_another_merchant(arena: Arena) -> None:
    method_id = method_of(await arena.save(arena.one, "a"))
    stranger = await register(arena.one)
    assert arena.one.vault is not None
    assert await arena.one.vault.open(stranger.merchant_id, method_id, method_id) is None
    assert await arena.one.vault.open(arena.merchant.merchant_id, method_id, method_id) == APPROVED
