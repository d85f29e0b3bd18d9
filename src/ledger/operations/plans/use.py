"""Finds a plan, and gives a subscription's commit the change that uses it.

Put the change of `use_plan` into the commit that begins a subscription or moves it to the plan. It records the first
use, and later checks the plan's version: a plan that is archived or changed meanwhile fails the commit.
"""

from __future__ import annotations

from uuid import UUID

from ledger.domain.fold import fold
from ledger.domain.ids import parse_uuid
from ledger.domain.plans.commands import UsePlan
from ledger.domain.plans.decide import decide_use
from ledger.domain.plans.events import PlanCreated
from ledger.domain.plans.evolve import evolve
from ledger.domain.plans.state import Plan
from ledger.domain.rejections import PlanNotFound
from ledger.domain.streams import ClaimKind
from ledger.journal.append import Change
from ledger.operations.pipeline.unit_of_work import UnitOfWork


async def find_plan(uow: UnitOfWork, reference: str) -> Plan:
    """Returns the plan that `reference` (service id, else external id) names, archived or not, loaded from the log.

    Raises PlanNotFound, a Fault.
    """
    plan_id = parse_uuid(reference)
    plan = None if plan_id is None else await _load(uow, plan_id)
    if plan is None:
        owner = await uow.ledger.journal.claim_owner(uow.merchant_id, ClaimKind.PLAN_EXTERNAL_ID, reference)
        plan = None if owner is None else await _load(uow, owner)
    if plan is None:
        raise PlanNotFound("The merchant has no plan with this id.")
    uow.now = await uow.ledger.clock.refresh(uow.merchant_id)  # a decision on this state must not be dated before it
    return plan


def use_plan(uow: UnitOfWork, plan: Plan, subscription_id: UUID) -> Change:
    """Returns the change of a plan that `find_plan` returned to this unit of work, for a subscription's commit.

    Raises PlanNotFound for an archived plan.
    """
    events = decide_use(plan, UsePlan(subscription_id=subscription_id, at=uow.now))
    return uow.change(plan.plan_id, evolve, events)


async def _load(uow: UnitOfWork, plan_id: UUID) -> Plan | None:
    """Returns the plan with this service id; None also where the id is that of another kind of object."""
    events = await uow.ledger.journal.reader.stream_from(uow.merchant_id, plan_id, PlanCreated)
    if not events:
        return None
    plan = fold(evolve, None, events)
    uow.put(plan_id, plan, len(events))
    return plan
