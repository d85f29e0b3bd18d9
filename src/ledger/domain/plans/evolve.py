"""The fold of a plan: its state after one more event."""

from __future__ import annotations

from typing import Any, Final, assert_never

from msgspec import UNSET
from msgspec.structs import replace

from ledger.domain.plans.events import (
    PlanArchived,
    PlanCreated,
    PlanDetailsChanged,
    PlanEvent,
    PlanFirstUsed,
    PlanMetadataChanged,
    PlanTermsChanged,
)
from ledger.domain.plans.state import Plan

DETAILS: Final = ("name", "description", "product_key", "unit_key", "taxes")
"""What can be changed of a plan at any time, beside its metadata."""


def evolve(plan: Plan | None, event: PlanEvent) -> Plan:
    """Returns the plan after `event`. `plan` is None before `PlanCreated`."""
    if isinstance(event, PlanCreated):
        return _created(event)
    assert plan is not None, "a stream begins with its creation"
    match event:
        case PlanDetailsChanged():
            return replace(plan, updated_at=event.at, **_details(event))
        case PlanTermsChanged():
            return replace(plan, updated_at=event.at, terms=event.terms)
        case PlanMetadataChanged():
            return replace(plan, updated_at=event.at, metadata=None if event.metadata is UNSET else event.metadata)
        case PlanFirstUsed():
            return replace(plan, used=True)  # no change that the merchant made
        case PlanArchived():
            return replace(plan, updated_at=event.at, archived=True)
        case _:
            assert_never(event)


def _created(event: PlanCreated) -> Plan:
    return Plan(
        plan_id=event.plan_id,
        name=event.name,
        terms=event.terms,
        created_at=event.at,
        updated_at=event.at,
        external_id=event.external_id,
        description=event.description,
        metadata=None if event.metadata is UNSET else event.metadata,
        product_key=event.product_key,
        unit_key=event.unit_key,
        taxes=event.taxes,
    )


def _details(event: PlanDetailsChanged) -> dict[str, Any]:
    return {name: value for name in DETAILS if (value := getattr(event, name)) is not UNSET}
