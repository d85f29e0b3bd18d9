"""Cancels a subscription, now or at the end of its period, and takes the latter back."""

from __future__ import annotations

from ledger.domain.subscriptions.state import Subscription
from ledger.operations.inputs import Actor
from ledger.operations.ledger import Ledger
from ledger.operations.pipeline.execute_stream import StreamResult
from ledger.operations.pipeline.unit_of_work import IdempotencyKey


async def cancel_subscription(
    ledger: Ledger, actor: Actor, reference: str, *, at_period_end: bool = True, key: IdempotencyKey | None = None
) -> StreamResult[Subscription]:
    """Cancels the subscription that `reference` names (contract N67). An UNPAID one is always cancelled now.

    Raises like `execute_on_stream`; SubscriptionNotFound, SubscriptionCanceled.
    """
    raise NotImplementedError


async def resume_subscription(
    ledger: Ledger, actor: Actor, reference: str, key: IdempotencyKey | None = None
) -> StreamResult[Subscription]:
    """Takes back a cancellation at the end of the period. `replayed` where there was none.

    Raises like `execute_on_stream`; SubscriptionNotFound, SubscriptionCanceled.
    """
    raise NotImplementedError
