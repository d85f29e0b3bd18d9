"""Cancels a subscription, now or at the end of its period, and takes the latter back."""

from __future__ import annotations

from uuid import UUID

from ledger.domain.payment_methods.state import stream_of
from ledger.domain.rejections import RequestInProgress
from ledger.domain.streams import PAYMENT_METHODS, SUBSCRIPTIONS
from ledger.domain.subscriptions.commands import CancelSubscription, ResumeSubscription
from ledger.domain.subscriptions.decide.changes import decide_cancel, decide_resume
from ledger.domain.subscriptions.events import CanceledBecause
from ledger.domain.subscriptions.state import Subscription
from ledger.journal.append import Conflict
from ledger.operations.context.inputs import Actor
from ledger.operations.context.ledger import Ledger
from ledger.operations.pipeline.execute import execute
from ledger.operations.pipeline.execute_stream import StreamResult, execute_on_stream
from ledger.operations.pipeline.unit_of_work import IdempotencyKey, Plan, UnitOfWork
from ledger.operations.subscriptions.bill import bill_subscription
from ledger.operations.subscriptions.commit import subscription_plan


async def cancel_subscription(
    ledger: Ledger, actor: Actor, reference: str, *, at_period_end: bool = True, key: IdempotencyKey | None = None
) -> StreamResult[Subscription]:
    """Cancels the subscription that `reference` names (contract N67). An UNPAID one is always cancelled now.

    Raises like `execute_on_stream`; SubscriptionNotFound, SubscriptionCanceled.
    """
    uow = UnitOfWork(ledger, actor, key)

    async def attempt(_: Conflict | None) -> Plan:
        state = await uow.find(SUBSCRIPTIONS, reference)
        events = decide_cancel(state, CancelSubscription(at=uow.now, at_period_end=at_period_end))
        return await subscription_plan(uow, state.subscription_id, events)

    return await ledger.complete(execute_on_stream(uow, attempt, SUBSCRIPTIONS))


async def resume_subscription(
    ledger: Ledger, actor: Actor, reference: str, key: IdempotencyKey | None = None
) -> StreamResult[Subscription]:
    """Takes back a cancellation at the end of the period. `replayed` is set if there was none.

    Raises like `execute_on_stream`; SubscriptionNotFound, SubscriptionCanceled.
    """
    uow = UnitOfWork(ledger, actor, key)

    async def attempt(_: Conflict | None) -> Plan:
        state = await uow.find(SUBSCRIPTIONS, reference)
        return await subscription_plan(uow, state.subscription_id, decide_resume(state, ResumeSubscription(at=uow.now)))

    return await ledger.complete(execute_on_stream(uow, attempt, SUBSCRIPTIONS))


async def cancel_subscriptions_of(ledger: Ledger, actor: Actor, customer_id: UUID) -> None:
    """Cancels the live subscriptions of an erased customer. May be repeated.

    Raises RequestInProgress while the first charge of one has no outcome yet; ConcurrentUpdate, a Fault.
    """
    methods, _ = await ledger.journal.load(actor.merchant_id, PAYMENT_METHODS, stream_of(customer_id))
    for subscription_id in () if methods is None else methods.subscriptions:
        await _cancel_erased(UnitOfWork(ledger, actor, cause=customer_id), subscription_id)


async def _cancel_erased(uow: UnitOfWork, subscription_id: UUID) -> None:
    state = await uow.load(SUBSCRIPTIONS, subscription_id)
    assert state is not None, "a subscription that a card is used by was requested"
    if state.status is None and state.refusal is None:
        billed = await bill_subscription(uow.ledger, uow.merchant_id, subscription_id)
        if billed is not None and billed.charge is not None:
            raise RequestInProgress("A subscription of the customer is being charged: erase the customer again.")
        await uow.load(SUBSCRIPTIONS, subscription_id, fresh=True)

    async def attempt(_: Conflict | None) -> Plan:
        state = await uow.load(SUBSCRIPTIONS, subscription_id)
        assert state is not None, "a subscription is never deleted"
        command = CancelSubscription(at=uow.now, because=CanceledBecause.CUSTOMER_ERASED)
        return await subscription_plan(uow, subscription_id, decide_cancel(state, command) if state.is_live else [])

    await execute(uow, attempt)
