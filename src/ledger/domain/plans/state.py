"""The state of a plan, folded from its events."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from msgspec import Raw, Struct

from ledger.domain.plans.terms import PlanStatus, PlanTerms


class Plan(Struct, frozen=True, kw_only=True):
    """A plan of a merchant. `external_id` is the merchant's own id of it, None if it gave none.

    `used` is true from its first subscription on, even if that subscription was never paid.
    """

    plan_id: UUID
    name: str
    terms: PlanTerms
    created_at: datetime
    updated_at: datetime
    external_id: str | None = None
    description: str | None = None
    metadata: Raw | None = None
    used: bool = False
    archived: bool = False

    @property
    def status(self) -> PlanStatus:
        return PlanStatus.ARCHIVED if self.archived else PlanStatus.ACTIVE
