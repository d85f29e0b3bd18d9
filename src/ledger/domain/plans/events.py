"""The events of a plan: the storage format of its stream. None of it is personal data.

Topics and fields are permanent (see `ledger.domain.orders.events`).
"""

from __future__ import annotations

from datetime import datetime
from typing import Final
from uuid import UUID

from msgspec import UNSET, Raw, Struct, UnsetType

from ledger.domain.orders.terms import Tax
from ledger.domain.plans.terms import PlanTerms


class PlanCreated(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The merchant created a plan. `external_id` is the merchant's own id of it.

    `product_key`, `unit_key` (SAT) and `taxes` are for the invoices of what it charges.
    """

    plan_id: UUID
    name: str
    terms: PlanTerms
    at: datetime
    external_id: str | None = None
    description: str | None = None
    metadata: Raw | UnsetType = UNSET
    product_key: str | None = None
    unit_key: str | None = None
    taxes: tuple[Tax, ...] | None = None


class PlanDetailsChanged(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The merchant changed the name, the description or the invoices' keys and taxes of a plan.

    An absent field kept its value; null cleared it.
    """

    plan_id: UUID
    at: datetime
    name: str | UnsetType = UNSET
    description: str | None | UnsetType = UNSET
    product_key: str | None | UnsetType = UNSET
    unit_key: str | None | UnsetType = UNSET
    taxes: tuple[Tax, ...] | None | UnsetType = UNSET


class PlanTermsChanged(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The merchant changed the terms of a plan. `terms` are all of them from then on; subscriptions keep theirs."""

    plan_id: UUID
    at: datetime
    terms: PlanTerms


class PlanMetadataChanged(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The merchant replaced the metadata of a plan, or removed it where the field is absent."""

    plan_id: UUID
    at: datetime
    metadata: Raw | UnsetType = UNSET


class PlanFirstUsed(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A subscription used the plan for the first time. Amount, currency and period are fixed from then on."""

    plan_id: UUID
    subscription_id: UUID
    at: datetime


class PlanArchived(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The merchant archived a plan: its subscriptions go on, and no new one can be made."""

    plan_id: UUID
    at: datetime


PlanEvent = PlanCreated | PlanDetailsChanged | PlanTermsChanged | PlanMetadataChanged | PlanFirstUsed | PlanArchived

TOPICS: Final[dict[str, type[Struct]]] = {
    "plan-created.v1": PlanCreated,
    "plan-details-changed.v1": PlanDetailsChanged,
    "plan-terms-changed.v1": PlanTermsChanged,
    "plan-metadata-changed.v1": PlanMetadataChanged,
    "plan-first-used.v1": PlanFirstUsed,
    "plan-archived.v1": PlanArchived,
}
