"""The clock of a scenario, and the work that falls due on an order between its lines: timers, and messages of the
processor.

Work that was due before a line is done before the line runs. Otherwise a line would pay a reference that has long
expired, or a capture would be dated by the next line about its order.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final
from uuid import UUID

from msgspec import Struct

from ledger.domain.orders.timers import Timer, timers_of
from ledger.operations.context.clock import Clock
from ledger.operations.context.ledger import Ledger
from ledger.operations.message_delivery import MessageDelivery, MessageSource
from ledger.operations.orders.due.timers import run_timer
from ledger.operations.pipeline.unit_of_work import load_order
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


class DueWork(Struct, frozen=True):
    """Does the due work of one order after another, under the scenario's clock."""

    ledger: Ledger
    clock: ScenarioClock
    source: MessageSource
    delivery: MessageDelivery

    async def run_until(self, merchant_id: UUID, order_id: UUID, until: datetime) -> None:
        """Does everything that is due on an order up to a time, in the order of time. Raises a Fault, ConcurrentUpdate.

        Money that arrives at the same time as a timer is recorded first.
        """
        done: set[Timer] = set()
        while True:
            order = await load_order(self.ledger, merchant_id, order_id)
            due = (timer for timer in timers_of(order) if timer.at <= until and timer not in done)
            timer = min(due, key=lambda timer: timer.at, default=None)
            message = await self._first_message(merchant_id, order_id, until if timer is None else timer.at)
            if message is not None:
                self.clock.set(max(message.occurred_at, order.updated_at))
                await self.delivery.deliver(message)
            elif timer is not None:
                done.add(timer)
                self.clock.set(max(timer.at, order.updated_at))
                await run_timer(self.ledger, merchant_id, order_id, timer.kind, timer.payment_id, timer.at)
            else:
                return

    async def _first_message(self, merchant_id: UUID, order_id: UUID, until: datetime) -> Message | None:
        for message in await self.source.due_messages(merchant_id, until, _ALL):
            if message.order_id == order_id:
                return message
        return None
