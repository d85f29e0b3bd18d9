"""Orders, customers and subscriptions as they were, with what their documents contain of other streams.

Everything in an answer is folded up to one place in the log: the customer inside an order and the plan inside a
subscription too. A person who was erased is missing in every past.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Any
from uuid import UUID

from msgspec import Struct

from ledger.domain.customers.state import Customer
from ledger.domain.orders.state import Order
from ledger.domain.plans.state import Plan
from ledger.domain.rejections import VersionNotFound
from ledger.domain.subscriptions.state import Subscription
from ledger.postgres.connection import Connection, SharedClient
from projections.as_of.points import Asked, PastPoint, find_point, newest_at, newest_version
from projections.customers import RELATED_SHOWN_MAX, render_customer, render_detail, with_related
from projections.events.states import StateReader
from projections.lists.related_customers import moved_statement, past_statement
from projections.orders.documents import document, is_overdue
from projections.orders.head import render_head
from projections.orders.payments import in_language, render_payments
from projections.subscriptions import subscriptions
from projections.subscriptions.plans import render_plan


class PastOrder(Struct, frozen=True):
    """An order with its customer, as they were at a place in the log."""

    order: Order
    customer: Customer
    point: PastPoint

    @property
    def customers_language(self) -> str:
        """The language of the order's texts for payers, as GET chooses it for a request that names none."""
        return "es" if self.customer.erased else self.customer.preferences.language

    def payments(self, language: str) -> bytes:
        """Returns the JSON array of the payments, with texts for payers in a language."""
        return in_language(render_payments(self.order), language)

    def document(self, language: str) -> bytes:
        """Returns the JSON object of the order, with texts for payers in a language."""
        order = self.order
        overdue = is_overdue(order.status, order.terms.due_date, self.point.as_of)
        customer = render_customer(self.customer)
        return self.point.stated_in(document(render_head(order), customer, self.payments(language), overdue))


class PastReader:
    """Reads the pasts of all merchants, over one connection, at which requests take turns.

    Each read returns None if the resource did not exist then. Raises VersionNotFound, and like `LogReader.opened`.
    """

    def __init__(self, client: SharedClient, states: StateReader) -> None:
        self._client = client
        self._states = states

    async def is_recorded(self, merchant_id: UUID, as_of: datetime) -> bool:
        """Returns whether an event was recorded at a time, or later: by the clock of another process, which may be
        ahead of this one's.
        """
        async with self._client.turn() as connection:
            newest = await newest_at(connection, merchant_id)
        return newest is not None and newest >= as_of

    async def point(self, merchant_id: UUID, stream_id: UUID, asked: Asked) -> PastPoint | None:
        """Returns where the past of a stream that exists today is in the log."""
        async with self._client.turn() as connection:
            return await self._point(connection, merchant_id, stream_id, asked)

    async def order(self, merchant_id: UUID, order_id: UUID, customer_id: UUID, asked: Asked) -> PastOrder | None:
        """Returns an order of the merchant. `customer_id` is its customer, who never changes: both are read at once."""
        async with self._client.turn() as connection:
            point = await self._point(connection, merchant_id, order_id, asked)
            if point is None:
                return None
            of_order, of_customer = (order_id, point.position), (customer_id, point.until)
            states = await self._states.states(connection, merchant_id, (of_order, of_customer))
        return PastOrder(states[of_order], states[of_customer], point)

    async def customer(self, merchant_id: UUID, customer_id: UUID, asked: Asked) -> bytes | None:
        """Returns the JSON object of a customer of the merchant, with the customers that were related to it."""
        async with self._client.turn() as connection:
            found = await self._resource(connection, merchant_id, customer_id, asked)
            if found is None:
                return None
            customer, point = found
            related = await self._related(connection, merchant_id, customer_id, point.until)
        shown = [render_customer(each) for each in related[:RELATED_SHOWN_MAX]]
        more = len(related) > RELATED_SHOWN_MAX
        return point.stated_in(with_related(render_detail(customer), shown, has_more=more))

    async def subscription(self, merchant_id: UUID, subscription_id: UUID, asked: Asked) -> bytes | None:
        """Returns the JSON object of a subscription of the merchant."""
        async with self._client.turn() as connection:
            found = await self._resource(connection, merchant_id, subscription_id, asked)
            if found is None:
                return None
            subscription: Subscription
            subscription, point = found
            if not subscription.is_shown:
                return None
            plan: Plan = await self._state(connection, merchant_id, subscription.plan_id, point.until)
        return point.stated_in(subscriptions.answer(merchant_id, subscription, render_plan(plan)))

    async def _resource(
        self, connection: Connection, merchant_id: UUID, stream_id: UUID, asked: Asked
    ) -> tuple[Any, PastPoint] | None:
        """Returns the state of a stream that exists today, and where it was read."""
        point = await self._point(connection, merchant_id, stream_id, asked)
        return (
            None
            if point is None
            else (
                await self._state(connection, merchant_id, stream_id, point.position),
                point,
            )
        )

    async def _point(
        self, connection: Connection, merchant_id: UUID, stream_id: UUID, asked: Asked
    ) -> PastPoint | None:
        point = await find_point(connection, merchant_id, stream_id, asked)
        if point is None and asked.version is not None:
            newest = await newest_version(connection, merchant_id, stream_id)
            raise VersionNotFound(f"The resource has no version {asked.version}: its newest is {newest}.")
        return point

    async def _state(self, connection: Connection, merchant_id: UUID, stream_id: UUID, position: int) -> Any:
        states = await self._states.states(connection, merchant_id, [(stream_id, position)])
        return states[stream_id, position]

    async def _related(
        self, connection: Connection, merchant_id: UUID, customer_id: UUID, position: int
    ) -> list[Customer]:
        """Returns the customers that were related to one, one more than are shown at most."""
        sources = await sources_then(connection, self._states, merchant_id, position)
        statement, values = past_statement(merchant_id, customer_id, position, sources, RELATED_SHOWN_MAX + 1)
        rows = await (await connection.execute(statement, values, binary=True)).fetchall()
        related_ids = [related_id for (related_id,) in rows]
        related = await _customers(connection, self._states, merchant_id, related_ids, position)
        return [related[related_id] for (related_id,) in rows]


async def sources_then(
    connection: Connection, states: StateReader, merchant_id: UUID, position: int
) -> dict[UUID, UUID | None]:
    """Returns the source that each customer whose source has changed since had at a position."""
    statement, values = moved_statement(merchant_id, position)
    rows = await (await connection.execute(statement, values, binary=True)).fetchall()
    moved = await _customers(connection, states, merchant_id, [moved_id for (moved_id,) in rows], position)
    return {moved_id: moved[moved_id].source_id if moved_id in moved else None for (moved_id,) in rows}


async def _customers(
    connection: Connection, states: StateReader, merchant_id: UUID, customer_ids: Collection[UUID], position: int
) -> dict[UUID, Customer]:
    """Returns those of the customers that existed at a position, by their ids."""
    points = [(customer_id, position) for customer_id in customer_ids]
    found = await states.states(connection, merchant_id, points)
    return {customer_id: customer for (customer_id, _), customer in found.items()}
