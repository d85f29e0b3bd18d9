"""Parsed requests about subscriptions, and how a subscription is found by its id."""

from __future__ import annotations

from datetime import datetime

from msgspec import UNSET, Raw, Struct, UnsetType

from ledger.domain.fold import fold
from ledger.domain.ids import parse_uuid
from ledger.domain.rejections import SubscriptionNotFound
from ledger.domain.streams import ClaimKind
from ledger.domain.subscriptions.commands import Proration
from ledger.domain.subscriptions.events import SubscriptionRequested
from ledger.domain.subscriptions.evolve import evolve
from ledger.domain.subscriptions.state import Subscription
from ledger.operations.pipeline.unit_of_work import UnitOfWork


class NewSubscription(Struct, frozen=True, kw_only=True):
    """A subscription that a merchant requests (contract N67).

    `customer` and `plan` are service ids or external ids. `trial_end` UNSET is the plan's trial, None is no trial.
    """

    customer: str
    plan: str
    payment_method: str
    external_id: str | None = None
    start: datetime | None = None
    trial_end: datetime | None | UnsetType = UNSET
    metadata: Raw | None = None


class SubscriptionUpdate(Struct, frozen=True, kw_only=True):
    """What a request changes of a subscription; None or UNSET is absent. `plan` is a service id or an external id."""

    plan: str | None = None
    payment_method: str | None = None
    proration: Proration = Proration.NEXT_INVOICE
    metadata: Raw | None | UnsetType = UNSET


async def find_subscription(uow: UnitOfWork, reference: str) -> Subscription:
    """Returns the subscription that `reference` (service id, else external id) names, loaded from the log.

    Raises SubscriptionNotFound, also before it has started; a Fault.
    """
    journal, merchant_id = uow.ledger.journal, uow.merchant_id
    named = parse_uuid(reference)
    owner = await journal.claim_owner(merchant_id, ClaimKind.SUBSCRIPTION_EXTERNAL_ID, reference)
    for subscription_id in (named, owner):
        if subscription_id is None:
            continue
        events = await journal.reader.stream_from(merchant_id, subscription_id, SubscriptionRequested)
        if events:
            subscription = fold(evolve, None, events)
            if subscription.is_shown:
                uow.put(subscription_id, subscription, len(events))
                uow.now = await uow.ledger.clock.refresh(merchant_id)  # a decision must not be dated before its state
                return subscription
    raise SubscriptionNotFound("The merchant has no subscription with this id.")
