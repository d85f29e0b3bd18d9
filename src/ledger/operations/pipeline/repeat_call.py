"""Sends a call again that never reached the processor: the same call under the same key.

The event of the repetition is committed first, so that of several workers one sends, and a crash leaves an open call
with a new deadline.
"""

from __future__ import annotations

from uuid import UUID

from ledger.domain.orders.commands import RepeatCall
from ledger.domain.orders.decide.unanswered_calls import decide_repetition
from ledger.domain.orders.payment import EntryAction, Intent
from ledger.domain.orders.state import Order
from ledger.domain.orders.terms import MethodType
from ledger.domain.streams import CUSTOMERS
from ledger.journal.append import Conflict
from ledger.operations.context.inputs import Actor
from ledger.operations.context.ledger import Ledger
from ledger.operations.pipeline.execute import execute
from ledger.operations.pipeline.processor_requests import payout_destination
from ledger.operations.pipeline.unit_of_work import Plan, UnitOfWork


async def repeat_call(ledger: Ledger, merchant_id: UUID, order_id: UUID, intent: Intent) -> Order:
    """Sends the call of an open intent again, as the caller has read it, and returns the order afterwards.

    Does nothing if it has an outcome, or if another worker sends it again. Raises ConcurrentUpdate, a Fault of
    the journal.
    """
    payment_id = intent.payment_id
    assert payment_id is not None, "an intent is a payment's"
    uow = UnitOfWork(ledger, Actor(merchant_id=merchant_id, request_id="recovery"), cause=payment_id)

    async def attempt(_: Conflict | None) -> Plan:
        order = await uow.order(order_id)
        command = RepeatCall(
            payment_id=payment_id,
            idempotency_key=intent.idempotency_key,
            after=intent.deadline_at,
            deadline_at=ledger.call_deadline(),
            at=uow.now,
        )
        events = decide_repetition(order, command)
        if events and intent.action is EntryAction.REFUND:
            is_payout = order.payment(payment_id).started.method.type is not MethodType.CARD
            if is_payout and payout_destination(order, intent) is None and await _is_payer_erased(uow, order):
                events = []  # the destination may have been erased
        return Plan(changes=[uow.change_order(order_id, events)])

    await execute(uow, attempt)
    return await uow.order(order_id)


async def _is_payer_erased(uow: UnitOfWork, order: Order) -> bool:
    """Returns whether the order's customer is erased: the order itself may be erased a moment later."""
    customer, _ = await uow.ledger.journal.load(uow.merchant_id, CUSTOMERS, order.terms.customer_id)
    return customer is None or customer.erased
