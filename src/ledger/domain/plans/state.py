"""The state of a plan, folded from its events."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from msgspec import Raw, Struct

from ledger.domain.orders.terms import Tax
from ledger.domain.plans.terms import PlanStatus, PlanTerms


class Plan(Struct, frozen=True, kw_only=True):
    """A plan of a merchant. `external_id` is the merchant's own id of it, None if it gave none.

    `product_key`, `unit_key` (SAT) and `taxes` are for the invoices of what it charges, also to subscriptions that
    began before they were changed. `used` is true from its first subscription on, even if that subscription was never
    paid.
    """

    plan_id: UUID
    name: str
    terms: PlanTerms
    created_at: datetime
    updated_at: datetime
    external_id: str | None = None
    description: str | None = None
    metadata: Raw | None = None
    product_key: str | None = None
    unit_key: str | None = None
    taxes: tuple[Tax, ...] | None = None
    used: bool = False
    archived: bool = False

    @property
    def status(self) -> PlanStatus:
        return PlanStatus.ARCHIVED if self.archived else PlanStatus.ACTIVE
