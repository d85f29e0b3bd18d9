"""Creates a subscription."""

from __future__ import annotations

from ledger.domain.subscriptions.state import Subscription
from ledger.operations.inputs import Actor
from ledger.operations.ledger import Ledger
from ledger.operations.pipeline.execute_stream import StreamResult
from ledger.operations.pipeline.unit_of_work import IdempotencyKey
from ledger.operations.subscriptions.requests import NewSubscription


async def create_subscription(
    ledger: Ledger, actor: Actor, request: NewSubscription, key: IdempotencyKey | None = None
) -> StreamResult[Subscription]:
    """Creates a subscription and charges its first period, unless it begins with a trial (contract N67, 2.3).

    Raises like `execute_on_stream`; CustomerNotFound, PaymentMethodNotFound, PlanNotFound (also of an archived plan),
    InvalidField for `startDate` and `trialEnd`, DuplicateExternalId, MethodNotEnabled, PaymentMethodExpired;
    ChargeRefused or ChargeRefusedByRisk where the first charge is declined; RequestInProgress where its outcome is not
    known yet; ProcessorUnavailable.
    """
    raise NotImplementedError
