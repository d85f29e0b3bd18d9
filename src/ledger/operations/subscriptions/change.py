"""Changes a subscription: its plan, its saved card, its metadata."""

from __future__ import annotations

from ledger.domain.streams import PLANS, SUBSCRIPTIONS
from ledger.domain.subscriptions.commands import ChangeSubscription
from ledger.domain.subscriptions.decide.changes import decide_change
from ledger.domain.subscriptions.state import Subscription
from ledger.journal.append import Change, Conflict
from ledger.operations.context.inputs import Actor
from ledger.operations.context.ledger import Ledger
from ledger.operations.pipeline.execute_stream import StreamResult
from ledger.operations.pipeline.unit_of_work import IdempotencyKey, Plan, UnitOfWork
from ledger.operations.plans.use import use_plan
from ledger.operations.subscriptions.charging import execute_charging
from ledger.operations.subscriptions.commit import chosen, method_of, subscription_plan
from ledger.operations.subscriptions.requests import SubscriptionUpdate


async def change_subscription(
    ledger: Ledger, actor: Actor, reference: str, request: SubscriptionUpdate, key: IdempotencyKey | None = None
) -> StreamResult[Subscription]:
    """Changes the subscription that `reference` (service id or external id) names (contract N67).

    A new card of a PAST_DUE or UNPAID subscription is charged at once; a decline of that charge is no error. Raises
    like `execute_charging`; SubscriptionNotFound, SubscriptionCanceled, PlanNotFound, PaymentMethodNotFound,
    PaymentMethodExpired, CurrencyMismatch, TooManyPendingLines.
    """
    uow = UnitOfWork(ledger, actor, key)

    async def attempt(_: Conflict | None) -> Plan:
        state = await uow.find(SUBSCRIPTIONS, reference)
        plan = None if request.plan is None else await uow.find(PLANS, request.plan)
        method = None
        if request.payment_method is not None:
            method = await method_of(uow, state.customer_id, request.payment_method)
        command = ChangeSubscription(
            at=uow.now,
            plan=None if plan is None else chosen(plan),
            payment_method_id=None if method is None else method.payment_method_id,
            proration=request.proration,
            metadata=request.metadata,
        )
        events = decide_change(state, command)
        others: list[Change] = []
        if plan is not None and plan.plan_id != state.plan_id:
            others.append(use_plan(uow, plan, state.subscription_id))
        return await subscription_plan(uow, state.subscription_id, events, *others)

    return await ledger.complete(execute_charging(uow, attempt, must_be_paid=False))
