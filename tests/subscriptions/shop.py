"""A merchant that bills subscriptions: saved cards, plans, and a clock that moves."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import psycopg
from tests.operations.conftest import APPROVED, an_order, by_card

from ledger.background.clock.advance import ClockAdvancer
from ledger.background.reactions.registry import HANDLERS, REACTIONS
from ledger.domain.orders.state import Order
from ledger.domain.plans.commands import NewPlan
from ledger.domain.plans.state import Plan
from ledger.domain.plans.terms import Interval, PlanTerms
from ledger.domain.streams import ORDERS, SUBSCRIPTIONS
from ledger.domain.subscriptions.state import Subscription
from ledger.operations.context.inputs import Actor, CustomerInput
from ledger.operations.context.ledger import Ledger
from ledger.operations.orders.create import create_order
from ledger.operations.plans.create import create_plan
from ledger.operations.subscriptions.charge import subscription_of
from ledger.operations.subscriptions.create import create_subscription
from ledger.operations.subscriptions.requests import NewSubscription

SAVED_DECLINED, SAVED_STOLEN = "4000000000000341", "4000000000000358"
APPROVED_FOR_HALF = "4000000000000010"


_ORDERS = "select stream_id from event where merchant_id = %s and topic = 'order-created.v1'"


_SUBSCRIPTIONS = "select distinct stream_id from event where merchant_id = %s and topic = 'subscription-requested.v1'"


@dataclass
class Shop:
    """A merchant that bills subscriptions."""

    ledger: Ledger
    actor: Actor
    url: str
    cards: dict[tuple[str, str], UUID] = field(default_factory=dict)

    @property
    def merchant_id(self) -> UUID:
        return self.actor.merchant_id

    async def card(self, number: str = APPROVED, customer: str = "ana") -> UUID:
        """Returns the saved card with this number, which an order of the customer saved."""
        if (customer, number) not in self.cards:
            payment = by_card(number, persist=True)
            order = an_order(f"save-{customer}-{number}", payment, customer=CustomerInput(external_id=customer))
            result = await create_order(self.ledger, self.actor, order)
            self.cards[customer, number] = result.order.payments[0].started.method.method_id
        return self.cards[customer, number]

    async def plan(self, name: str = "Basic", **terms: Any) -> Plan:
        values = {"amount": Decimal(10_000), "currency": "MXN", "interval": Interval.MONTH, **terms}
        return (await create_plan(self.ledger, self.actor, NewPlan(name=name, terms=PlanTerms(**values)))).state

    async def subscribe(
        self, plan: Plan, number: str = APPROVED, customer: str = "ana", key: Any = None, **changes: Any
    ) -> Subscription:
        card = await self.card(number, customer)
        request = NewSubscription(customer=customer, plan=str(plan.plan_id), payment_method=str(card), **changes)
        return (await create_subscription(self.ledger, self.actor, request, key)).state

    async def at(self, subscription_id: UUID) -> Subscription:
        """Returns a subscription as the log has it."""
        state, _ = await self.ledger.journal.load(self.merchant_id, SUBSCRIPTIONS, subscription_id)
        assert state is not None
        return state

    async def move(self, to: datetime | timedelta) -> None:
        """Moves the merchant's clock, and does what becomes due."""
        advancer = ClockAdvancer(self.url, self.ledger, REACTIONS, HANDLERS)
        target = (lambda now: now + to) if isinstance(to, timedelta) else (lambda _: to)
        await advancer.advance_fully(self.merchant_id, "advanceTo", target)

    async def move_only(self, by: timedelta) -> None:
        """Moves the merchant's clock and does nothing of what becomes due."""
        await ClockAdvancer(self.url, self.ledger, (), {}).advance(self.merchant_id, "advanceBy", lambda now: now + by)

    async def subscriptions(self) -> list[UUID]:
        """Returns the subscriptions that were ever requested."""
        with psycopg.connect(self.url) as connection:
            rows = connection.execute(_SUBSCRIPTIONS, (self.merchant_id,)).fetchall()
        return [subscription_id for (subscription_id,) in rows]

    async def charges(self) -> list[Order]:
        """Returns the orders that were made for subscriptions, oldest first."""
        with psycopg.connect(self.url) as connection:
            rows = connection.execute(_ORDERS, (self.merchant_id,)).fetchall()
        orders = []
        for (stream_id,) in rows:
            order, _ = await self.ledger.journal.load(self.merchant_id, ORDERS, stream_id)
            assert order is not None
            if subscription_of(order.terms) is not None:
                orders.append(order)
        return sorted(orders, key=lambda order: order.terms.order_id)
