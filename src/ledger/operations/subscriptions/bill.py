"""Does what is due on a subscription, step by step in the order of time: periods, charges, ends.

A clock that jumps ahead leaves several periods due: each is invoiced and charged before the next. Two workers may do it
at once; the version of the stream decides which of them does a step.
"""

from __future__ import annotations

from uuid import UUID

from ledger.domain.money import ZERO
from ledger.domain.streams import SUBSCRIPTIONS
from ledger.domain.subscriptions.commands import RecordRefund, RunDue
from ledger.domain.subscriptions.decide.charges import decide_refund
from ledger.domain.subscriptions.decide.due_work import decide_due
from ledger.domain.subscriptions.state import Subscription
from ledger.journal.append import Conflict
from ledger.operations.context.inputs import Actor
from ledger.operations.context.ledger import Ledger
from ledger.operations.pipeline.execute import execute, record_outcome
from ledger.operations.pipeline.unit_of_work import Plan, UnitOfWork
from ledger.operations.subscriptions.charge import (
    ChargeCall,
    charge_in_progress,
    charge_outcome,
    load_charge_order,
    subscription_of,
)
from ledger.operations.subscriptions.commit import subscription_plan


async def bill_subscription(ledger: Ledger, merchant_id: UUID, subscription_id: UUID) -> Subscription | None:
    """Does everything that is due by the merchant's clock, and returns the subscription afterwards; None for none.

    Raises ConcurrentUpdate, a Fault.
    """
    uow = UnitOfWork(ledger, Actor(merchant_id=merchant_id, request_id="due"), cause=subscription_id)

    async def attempt(_: Conflict | None) -> Plan:
        state = await uow.load(SUBSCRIPTIONS, subscription_id)
        assert state is not None, "a subscription with due work was requested"
        return await subscription_plan(uow, subscription_id, decide_due(state, RunDue(at=uow.now)))

    unknown: UUID | None = None  # the payment of a charge whose outcome is not known yet
    state = await uow.load(SUBSCRIPTIONS, subscription_id)
    while state is not None:
        charge = state.charge
        if charge is not None and charge.payment_id != unknown:
            call = charge_in_progress(ledger, merchant_id, state)
            outcome = await call.look_up()
            if outcome is None:
                unknown = charge.payment_id
                uow.forget(subscription_id)  # another worker may have recorded it
            else:
                await record_outcome(uow, call, outcome)
        else:
            plan = await execute(uow, attempt)
            if not plan.events:
                return state
        state = await uow.load(SUBSCRIPTIONS, subscription_id)
    return None


async def settle_order(ledger: Ledger, merchant_id: UUID, order_id: UUID) -> None:
    """Brings the outcome of a subscription's payment order into the subscription, and does what follows from it.

    Does nothing for another order, or before the outcome is known. Raises ConcurrentUpdate, a Fault.
    """
    order = await load_charge_order(ledger, merchant_id, order_id)
    subscription_id = None if order is None else subscription_of(order.terms)
    if order is None or subscription_id is None:
        return
    uow = UnitOfWork(ledger, Actor(merchant_id=merchant_id, request_id="due"), cause=order_id)
    state = await uow.load(SUBSCRIPTIONS, subscription_id)
    if state is None or not order.payments:
        return
    payment_id = order.payments[-1].payment_id
    outcome = await charge_outcome(ledger, merchant_id, order, payment_id)
    if outcome is None:
        return
    call = ChargeCall(
        ledger=ledger, merchant_id=merchant_id, subscription=state, order_id=order_id, payment_id=payment_id
    )
    await record_outcome(uow, call, outcome)
    await _record_refund(uow, subscription_id, order_id)
    await bill_subscription(ledger, merchant_id, subscription_id)


async def _record_refund(uow: UnitOfWork, subscription_id: UUID, order_id: UUID) -> None:
    """Records how much of the order that paid an invoice has gone back. Does nothing for any other order.

    The commit checks that the order is as it was read: what another worker has recorded since is never taken back.
    """

    async def attempt(_: Conflict | None) -> Plan:
        order, state = await uow.order(order_id), await uow.load(SUBSCRIPTIONS, subscription_id)
        assert state is not None, "a subscription is never deleted"
        # Not what was paid beyond the amount.
        returned = min(order.amount_refunded, max(ZERO, order.amount - order.net))
        command = RecordRefund(order_id=order_id, amount_refunded=returned, at=uow.now)
        events = decide_refund(state, command)
        return await subscription_plan(uow, subscription_id, events, uow.change_order(order_id, ()))

    await execute(uow, attempt)
