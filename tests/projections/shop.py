"""A merchant with orders, which the real journal writes to a real database, for the tests of queries."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from tests.domain.builders import NOON, created
from uuid_utils.compat import uuid7

from ledger.domain.customers.events import CustomerCreated, CustomerDetailsChanged
from ledger.domain.customers.evolve import evolve as evolve_customer
from ledger.domain.customers.state import Customer
from ledger.domain.orders.evolve.order import evolve
from ledger.domain.orders.state import Order
from ledger.domain.streams import ClaimKind
from ledger.journal.append import Change, Claim
from ledger.journal.journal import Journal


class Shop:
    """One merchant. Its orders are pending unless further events follow their creation in the same commit."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.merchant_id = uuid7()
        self.ana = CustomerCreated(
            customer_id=uuid7(),
            external_id="ana",
            at=NOON,
            first_name="Ana",
            last_name="López",
            email="ana@example.com",
        )
        self.states: dict[UUID, tuple[Order, int]] = {}

    async def open(self) -> Shop:
        await self.journal.open_log(self.merchant_id)
        await self.change(self.ana.customer_id, 0, [self.ana], None, self.customer)
        return self

    @property
    def customer(self) -> Customer:
        return evolve_customer(None, self.ana)

    async def order(self, external_id: str, *more: Any, at: datetime = NOON, **terms: Any) -> Order:
        """Commits the creation of an order and these events after it, and returns the order."""
        order_id = uuid7()
        terms = {"customer_id": self.ana.customer_id, "order_number": f"PO{external_id}", **terms}
        events = [created(order_id=order_id, external_id=external_id, at=at, **terms), *more]
        claim = Claim(ClaimKind.ORDER_EXTERNAL_ID, external_id, order_id)
        return await self._commit(order_id, events, None, 0, [claim])

    async def then(self, order: Order, *events: Any) -> Order:
        """Commits these events of an order together, and returns it."""
        before, version = self.states[order.terms.order_id]
        return await self._commit(order.terms.order_id, list(events), before, version, [])

    async def change(self, stream_id: UUID, expected: int, events: Sequence[Any], before: Any, after: Any) -> None:
        await self.journal.commit(self.merchant_id, uuid7(), [Change(stream_id, expected, events, before, after)])

    async def _commit(
        self, order_id: UUID, events: list[Any], before: Order | None, version: int, claims: list[Claim]
    ) -> Order:
        after = before
        for event in events:
            after = evolve(after, event)
        assert after is not None
        change = Change(order_id, version, events, before, after)
        await self.journal.commit(self.merchant_id, uuid7(), [change], claims)
        self.states[order_id] = after, version + len(events)
        return after


async def customer(shop: Shop, name: str, email: str | None, source_id: UUID | None = None) -> Customer:
    """Creates another customer of the shop, with an external id."""
    created = CustomerCreated(customer_id=uuid7(), external_id=name, at=NOON, email=email, source_id=source_id)
    state = evolve_customer(None, created)
    claim = Claim(ClaimKind.CUSTOMER_EXTERNAL_ID, name, state.customer_id)
    change = Change(state.customer_id, 0, [created], None, state)
    await shop.journal.commit(shop.merchant_id, uuid7(), [change], [claim])
    return state


async def change_email(shop: Shop, before: Customer, version: int, email: str | None) -> Customer:
    """Changes a customer's e-mail, or removes it."""
    changed = CustomerDetailsChanged(customer_id=before.customer_id, at=NOON, email=email)
    after = evolve_customer(before, changed)
    await shop.change(before.customer_id, version, [changed], before, after)
    return after
