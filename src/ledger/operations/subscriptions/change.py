"""Changes a subscription: its plan, its saved card, its metadata."""

from __future__ import annotations

from ledger.domain.subscriptions.state import Subscription
from ledger.operations.inputs import Actor
from ledger.operations.ledger import Ledger
from ledger.operations.pipeline.execute_stream import StreamResult
from ledger.operations.pipeline.unit_of_work import IdempotencyKey
from ledger.operations.subscriptions.requests import SubscriptionUpdate


async def change_subscription(
    ledger: Ledger, actor: Actor, reference: str, request: SubscriptionUpdate, key: IdempotencyKey | None = None
) -> StreamResult[Subscription]:
    """Changes the subscription that `reference` (service id or external id) names (contract N67).

    A new card of a PAST_DUE or UNPAID subscription is charged at once; a decline of that charge is no error. Raises
    like `execute_on_stream`; SubscriptionNotFound, SubscriptionCanceled, PlanNotFound, PaymentMethodNotFound,
    PaymentMethodExpired, CurrencyMismatch.
    """
    raise NotImplementedError
