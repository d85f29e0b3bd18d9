"""The deciders of a plan.

Never change the price or the period of a used plan: a subscription's invoices must follow from the plan that its
customer agreed to.
"""

from __future__ import annotations

from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from ledger.domain.plans.commands import ArchivePlan, ChangePlan, CreatePlan, UsePlan
from ledger.domain.plans.events import (
    PlanArchived,
    PlanCreated,
    PlanDetailsChanged,
    PlanEvent,
    PlanFirstUsed,
    PlanMetadataChanged,
    PlanTermsChanged,
)
from ledger.domain.plans.evolve import DETAILS
from ledger.domain.plans.state import Plan
from ledger.domain.plans.terms import FIXED_ONCE_USED, PlanTerms, period_problem
from ledger.domain.rejections import DuplicateExternalId, InvalidField, PlanInUse, PlanNotFound, refuse_fields


def decide_create(plan: Plan | None, command: CreatePlan) -> list[PlanEvent]:
    """Creates a plan; returns no events if it is created already (contract N65).

    Raises InvalidField for `intervalCount`; DuplicateExternalId if `plan` is another one with the external id.
    """
    if plan is not None and plan.plan_id == command.plan_id:
        return []
    refuse_fields(_problems(command.terms))
    if plan is not None:
        raise DuplicateExternalId(
            "Another plan has this externalId: change that plan or use another externalId.", field="externalId"
        )
    return [
        PlanCreated(
            plan_id=command.plan_id,
            name=command.name,
            terms=command.terms,
            at=command.at,
            external_id=command.external_id,
            description=command.description,
            metadata=UNSET if command.metadata is None else command.metadata,
            product_key=command.product_key,
            unit_key=command.unit_key,
            taxes=command.taxes,
        )
    ]


def decide_change(plan: Plan, command: ChangePlan) -> list[PlanEvent]:
    """Records the changed fields of a plan; returns no events if nothing differs (contract N66).

    Raises InvalidField for `externalId` and `intervalCount`; PlanInUse if a subscription has used the plan and its
    price or period would change.
    """
    terms: PlanTerms = replace(plan.terms, **command.terms)
    problems = []
    if command.external_id not in (UNSET, plan.external_id):
        problem = "cannot be changed: send the one that the plan has, or leave it out"
        problems.append(InvalidField("externalId", problem))
    refuse_fields([*problems, *_problems(terms)])
    if plan.used:
        _refuse_fixed(plan.terms, terms)
    about: dict[str, Any] = {"plan_id": plan.plan_id, "at": command.at}
    events: list[PlanEvent] = []
    details = {
        name: value
        for name in DETAILS
        if (value := getattr(command, name)) is not UNSET and value != getattr(plan, name)
    }
    if details:
        events.append(PlanDetailsChanged(**about, **details))
    if terms != plan.terms:
        events.append(PlanTermsChanged(**about, terms=terms))
    if command.metadata is not UNSET and command.metadata != plan.metadata:
        metadata = UNSET if command.metadata is None else command.metadata
        events.append(PlanMetadataChanged(**about, metadata=metadata))
    return events


def decide_use(plan: Plan, command: UsePlan) -> list[PlanEvent]:
    """Records the first use of a plan; returns no events for a later one. Raises PlanNotFound for an archived plan."""
    if plan.archived:
        raise PlanNotFound("The plan is archived, so no new subscription can be made: use another plan.")
    if plan.used:
        return []
    return [PlanFirstUsed(plan_id=plan.plan_id, subscription_id=command.subscription_id, at=command.at)]


def decide_archive(plan: Plan, command: ArchivePlan) -> list[PlanEvent]:
    """Archives a plan (contract N66). Returns no events if it is archived already."""
    return [] if plan.archived else [PlanArchived(plan_id=plan.plan_id, at=command.at)]


def _problems(terms: PlanTerms) -> list[InvalidField]:
    problem = period_problem(terms.interval, terms.interval_count)
    return [] if problem is None else [InvalidField("intervalCount", problem)]


def _refuse_fixed(before: PlanTerms, after: PlanTerms) -> None:
    for name in FIXED_ONCE_USED:
        if getattr(before, name) != getattr(after, name):
            field = "intervalCount" if name == "interval_count" else name
            raise PlanInUse(
                f"The plan has subscriptions, so its {field} is fixed: create another plan, and move them to it.",
                field=field,
            )
