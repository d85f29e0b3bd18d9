"""The clock of a scenario, and the work that falls due on its orders between its lines: timers, and messages of the
processor.

Work that was due before a line, on any order, is done before the line runs. Otherwise a line would pay a reference that
has long expired, and a capture would be in the log behind events that were recorded months later.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final
from uuid import UUID

import msgspec
from msgspec import Struct

from ledger.domain.orders.state import Order
from ledger.domain.orders.timers import Timer, timers_of
from ledger.operations.context.clock import Clock
from ledger.operations.context.ledger import Ledger
from ledger.operations.message_delivery import MessageDelivery, MessageSource
from ledger.operations.orders.due.timers import run_timer
from ledger.operations.pipeline.unit_of_work import find_order, load_order
from ledger.processors.messages import Message

_ALL: Final = 100_000


class ScenarioClock(Clock):
    """Shows the time that it was set to, to every merchant. Deadlines of processor calls stay in real time."""

    def __init__(self) -> None:
        self._now: datetime | None = None

    def now(self, merchant_id: UUID) -> datetime:
        """Returns the time that the clock was set to, in UTC; real time before that."""
        return self._now or super().now(merchant_id)

    def set(self, now: datetime) -> None:
        """Sets the clock to an aware time."""
        self._now = now.astimezone(UTC)


class DueWork:
    """Does the due work of the orders that it follows, under the scenario's clock."""

    def __init__(self, ledger: Ledger, clock: ScenarioClock, source: MessageSource, delivery: MessageDelivery) -> None:
        self._ledger, self._clock, self._source = ledger, clock, source
        self.delivery = delivery
        self._changed: dict[UUID, set[str]] = defaultdict(set)
        self._followed: dict[UUID, dict[UUID, _Followed]] = defaultdict(dict)
        self._reached: dict[UUID, datetime] = {}

    def follow(self, merchant_id: UUID, external_id: str) -> None:
        """Does the work of an order from now on. Call it for each line that is about the order."""
        self._changed[merchant_id].add(external_id)

    async def run_until(self, merchant_id: UUID, until: datetime) -> None:
        """Does everything that is due on the merchant's orders up to a time, in the order of time: positions in a log
        follow the times of its events, by which its past is read. Raises a Fault, ConcurrentUpdate.

        Money that arrives at the same time as a timer is recorded first.
        """
        orders = self._followed[merchant_id]
        for external_id in self._changed.pop(merchant_id, ()):
            order = await find_order(self._ledger, merchant_id, external_id)
            orders[order.terms.order_id] = _Followed(order, [*timers_of(order)])
        while True:
            due = [(timer, each) for each in orders.values() for timer in each.timers if timer.at <= until]
            timer, found = min(due, key=lambda one: one[0].at, default=(None, None))
            message, about = await self._first_message(merchant_id, orders, until if timer is None else timer.at)
            if message is not None and about is not None:
                found = about
                self._set_clock(merchant_id, message.occurred_at, found.order)
                await self.delivery.deliver(message)
            elif timer is not None and found is not None:
                found.done.add(timer)
                self._set_clock(merchant_id, timer.at, found.order)
                order_id = found.order.terms.order_id
                await run_timer(self._ledger, merchant_id, order_id, timer.kind, timer.payment_id, timer.at)
            else:
                break
            await found.reload(self._ledger, merchant_id)
        self._reached[merchant_id] = until

    def _set_clock(self, merchant_id: UUID, at: datetime, order: Order) -> None:
        self._clock.set(max(at, order.updated_at, self._reached.get(merchant_id, at)))
        self._reached[merchant_id] = self._clock.now(merchant_id)

    async def _first_message(
        self, merchant_id: UUID, orders: Mapping[UUID, _Followed], until: datetime
    ) -> tuple[Message, _Followed] | tuple[None, None]:
        """Returns the first message about one of these orders up to a time, and the order."""
        for message in await self._source.due_messages(merchant_id, until, _ALL):
            if message.order_id is not None and message.order_id in orders:
                return message, orders[message.order_id]
        return None, None


class _Followed(Struct):
    """An order, and its timers. `done` are those that have run since the last line about it."""

    order: Order
    timers: list[Timer]
    done: set[Timer] = msgspec.field(default_factory=set)

    async def reload(self, ledger: Ledger, merchant_id: UUID) -> None:
        """Reads the order again, after a timer or a message."""
        self.order = await load_order(ledger, merchant_id, self.order.terms.order_id)
        self.timers = [timer for timer in timers_of(self.order) if timer not in self.done]
