"""Charges the oldest open invoice of a subscription at the merchant's request."""

from __future__ import annotations

from ledger.domain.streams import SUBSCRIPTIONS
from ledger.domain.subscriptions.commands import RetryCharge
from ledger.domain.subscriptions.decide.changes import decide_retry
from ledger.domain.subscriptions.state import Subscription
from ledger.journal.append import Conflict
from ledger.operations.context.inputs import Actor
from ledger.operations.context.ledger import Ledger
from ledger.operations.pipeline.execute_stream import StreamResult
from ledger.operations.pipeline.unit_of_work import IdempotencyKey, Plan, UnitOfWork
from ledger.operations.subscriptions.charging import execute_charging
from ledger.operations.subscriptions.commit import subscription_plan


async def retry_charge(
    ledger: Ledger, actor: Actor, reference: str, *, drafts: bool = False, key: IdempotencyKey | None = None
) -> StreamResult[Subscription]:
    """Charges the oldest open invoice now. `replayed` is set if there is nothing to charge.

    With `drafts`, the drafts of missed periods are opened as well: a worker charges them, each once those before it are
    paid. A charge that is in progress is awaited instead: no second one begins. Raises like `execute_charging`;
    SubscriptionNotFound, SubscriptionCanceled.
    """
    uow = UnitOfWork(ledger, actor, key)

    async def attempt(_: Conflict | None) -> Plan:
        state = await uow.find(SUBSCRIPTIONS, reference)
        events = decide_retry(state, RetryCharge(at=uow.now, drafts=drafts))
        return await subscription_plan(uow, state.subscription_id, events)

    return await ledger.complete(execute_charging(uow, attempt, must_be_paid=True))
