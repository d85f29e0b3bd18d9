"""Time that passes for an order of a story: what falls due on it, and what the processor tells of it, each at its moment.

The rule a stranger would break: what was due before a line has been done before the line is told. Otherwise a reference
would be paid that had long expired, and a capture would be dated by whoever looked at it next.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Final, Protocol
from uuid import UUID

from msgspec import Struct

from ledger.domain.orders.timers import Timer, timers_of
from ledger.operations.ledger import Ledger
from ledger.operations.orders.timers import run_timer
from ledger.operations.pipeline.unit_of_work import load_order
from ledger.processors.inbox import InboxEntry
from ledger.processors.messages import Message

_ALL: Final = 100_000


class MessageSource(Protocol):
    """What the sandbox's processor has to tell (see `gateways.outbox`)."""

    async def due_messages(self, merchant_id: UUID, now: datetime, limit: int = 100) -> Sequence[Message]: ...


class MessageDelivery(Protocol):
    """How a message is handed over (see `reactions.mail`)."""

    async def deliver(self, message: Message) -> InboxEntry: ...


class DueWork(Struct, frozen=True):
    """Lets time pass for one order after another. `standing_at` lets the ledger's clock stand at a moment."""

    ledger: Ledger
    outgoing: MessageSource
    mail: MessageDelivery
    standing_at: Callable[[datetime], AbstractContextManager[None]]

    async def until(self, merchant_id: UUID, order_id: UUID, moment: datetime) -> None:
        """Do everything that becomes of an order up to a moment, in the order of time. Raises a Fault, ConcurrentUpdate."""
        done: set[Timer] = set()
        while True:
            order = await load_order(self.ledger, merchant_id, order_id)
            waiting = [due for due in timers_of(order) if due.at <= moment and due not in done]
            due = min(waiting, key=lambda due: due.at, default=None)
            told = await self._told(merchant_id, order_id, moment if due is None else due.at)
            if told is not None:
                with self.standing_at(max(told.occurred_at, order.updated_at)):
                    await self.mail.deliver(told)
            elif due is not None:
                done.add(due)
                with self.standing_at(max(due.at, order.updated_at)):
                    await run_timer(self.ledger, merchant_id, order_id, due.kind, due.payment_id, due.at)
            else:
                return

    async def _told(self, merchant_id: UUID, order_id: UUID, moment: datetime) -> Message | None:
        """What the processor has to tell of the order first, money that arrives at the last moment included."""
        for message in await self.outgoing.due_messages(merchant_id, moment, _ALL):
            if message.order_id == order_id:
                return message
        return None
