"""An audit of a random history finds nothing: of orders in every way that the rules allow, with sealing in between."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any
from uuid import UUID, uuid4

import pytest
from msgspec.structs import replace
from property_tests.test_public_events import Story
from tests.audit.auditing import audit_of, wrong_in
from tests.audit.shops import seal
from tests.operations.conftest import an_order, by_card, database_url, ledger, module_ledger, module_url, register
from uuid_utils.compat import uuid7

from ledger.domain.orders.events import OrderCreated
from ledger.domain.orders.evolve.order import evolve
from ledger.domain.streams import ClaimKind
from ledger.journal.append import Change, Claim
from ledger.operations.context.inputs import Actor, CustomerInput
from ledger.operations.context.ledger import Ledger
from ledger.operations.orders.create import create_order

__all__ = ["database_url", "ledger", "module_ledger", "module_url"]

pytestmark = pytest.mark.anyio


def _named(event: Any, order_id: UUID, customer_id: UUID, name: str) -> Any:
    if not isinstance(event, OrderCreated):
        return event
    return replace(event, order_id=order_id, order_number=name, external_id=name, customer_id=customer_id)


async def record(ledger: Ledger, merchant: Actor, customer_id: UUID, random: Random, name: str) -> None:
    """Commits each command of a random story, as an order of its own."""
    story = Story(random)
    for _ in range(random.randint(1, 25)):
        story.step()
    order_id, order, version = uuid7(), None, 0
    for command in story.commands:
        events = [_named(event, order_id, customer_id, name) for event in command]
        before = order
        for event in events:
            order = evolve(order, event)
        claims = [] if version else [Claim(ClaimKind.ORDER_EXTERNAL_ID, name, order_id)]
        change = Change(order_id, version, events, before, order)
        await ledger.journal.commit(merchant.merchant_id, uuid4(), [change], claims)
        version += len(events)


@pytest.mark.parametrize("audits", [6, pytest.param(1_000, marks=pytest.mark.long)])
async def test_an_audit_of_a_random_history_finds_nothing(ledger: Ledger, database_url: str, audits: int) -> None:
    for seed in range(audits):
        random, merchant = Random(seed), await register(ledger)
        customer = CustomerInput(external_id="ana", first_name="Ana", email=random.choice(["ana@example.com", None]))
        payment = by_card(persist=True) if random.random() < 0.5 else None
        created = await create_order(ledger, merchant, an_order("first", payment, customer=customer))
        for n in range(random.randint(1, 3)):
            stories = [
                record(ledger, merchant, created.order.terms.customer_id, random, f"story {n} {m}")
                for m in range(random.randint(1, 4))
            ]
            await asyncio.gather(*stories)
            if random.random() < 0.5:
                await seal(database_url)
        report = audit_of(database_url, merchant.merchant_id)
        assert wrong_in(report) == [], f"seed {seed}"
        assert report.orders > 1
