"""Charges the oldest open invoice of a subscription at the merchant's request."""

from __future__ import annotations

from ledger.domain.subscriptions.state import Subscription
from ledger.operations.inputs import Actor
from ledger.operations.ledger import Ledger
from ledger.operations.pipeline.execute_stream import StreamResult
from ledger.operations.pipeline.unit_of_work import IdempotencyKey


async def retry_charge(
    ledger: Ledger, actor: Actor, reference: str, key: IdempotencyKey | None = None
) -> StreamResult[Subscription]:
    """Charges the oldest open invoice now. `replayed` where no invoice is open.

    A charge that is in progress is awaited instead: no second one begins. Raises like `execute_on_stream`;
    SubscriptionNotFound, SubscriptionCanceled; ChargeRefused or ChargeRefusedByRisk where the charge is declined;
    RequestInProgress, ProcessorUnavailable.
    """
    raise NotImplementedError
