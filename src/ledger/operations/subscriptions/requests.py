"""Parsed requests about subscriptions."""

from __future__ import annotations

from datetime import datetime

from msgspec import UNSET, Raw, Struct, UnsetType

from ledger.domain.subscriptions.commands import Proration


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
