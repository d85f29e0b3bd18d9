"""The commands of a plan. A field that is UNSET was absent from the request and keeps its value."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from msgspec import UNSET, Raw, Struct, UnsetType

from ledger.domain.orders.terms import Tax
from ledger.domain.plans.terms import PlanTerms


class NewPlan(Struct, frozen=True, kw_only=True):
    """A plan that a merchant requests. SAT's keys and the taxes are those of the lines of its invoices."""

    name: str
    terms: PlanTerms
    external_id: str | None = None
    description: str | None = None
    metadata: Raw | None = None
    product_key: str | None = None
    unit_key: str | None = None
    taxes: tuple[Tax, ...] | None = None


class CreatePlan(NewPlan, frozen=True, kw_only=True):
    """Creates a plan (contract N65)."""

    plan_id: UUID
    at: datetime


class PlanUpdate(Struct, frozen=True, kw_only=True):
    """What a request changes of a plan; None clears a field. `terms` has the given ones by their names in `PlanTerms`.

    `external_id`, if given, is what the plan has already: it never changes.
    """

    external_id: str | UnsetType = UNSET
    name: str | UnsetType = UNSET
    description: str | None | UnsetType = UNSET
    metadata: Raw | None | UnsetType = UNSET
    product_key: str | None | UnsetType = UNSET
    unit_key: str | None | UnsetType = UNSET
    taxes: tuple[Tax, ...] | None | UnsetType = UNSET
    terms: Mapping[str, Any] = {}


class ChangePlan(PlanUpdate, frozen=True, kw_only=True):
    """Changes a plan (contract N66)."""

    at: datetime


class UsePlan(Struct, frozen=True, kw_only=True):
    """Makes a subscription to the plan, or moves one to it."""

    subscription_id: UUID
    at: datetime


class ArchivePlan(Struct, frozen=True, kw_only=True):
    """Archives a plan (contract N66)."""

    at: datetime
