"""Runs what falls due on an order by its merchant's clock: a delayed capture, the end of a payment's time, a void.

A timer may fire twice, late, or in two workers at once. It decides on the order as it is, and the key of its
processor call follows from the timer, so that the call is made once.
"""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from ledger.domain.orders.state import Order
from ledger.domain.orders.timers import Timer, TimerKind, decide_timer, timer_key
from ledger.journal.append import Conflict
from ledger.operations.context.inputs import Actor
from ledger.operations.context.ledger import Ledger
from ledger.operations.pipeline.execute import execute
from ledger.operations.pipeline.unit_of_work import Plan, UnitOfWork


async def run_timer(
    ledger: Ledger, merchant_id: UUID, order_id: UUID, kind: TimerKind, payment_id: UUID, at: datetime
) -> Order:
    """Runs the timer of this kind that was due on a payment at `at` by the merchant's clock, and returns the order.

    Does nothing if the timer no longer applies. Raises ConcurrentUpdate, a Fault of the journal.
    """
    uow = UnitOfWork(ledger, Actor(merchant_id=merchant_id, request_id="due"), cause=payment_id)
    timer = Timer(kind, payment_id, at)
    key: str | None = None

    async def attempt(_: Conflict | None) -> Plan:
        nonlocal key
        order = await uow.order(order_id)
        key = key or timer_key(order, timer)
        events = decide_timer(order, timer, key, ledger.call_deadline(), uow.now)
        return Plan(changes=[uow.change_order(order_id, events)])

    await execute(uow, attempt)
    return await uow.order(order_id)
