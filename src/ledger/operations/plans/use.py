"""Gives a subscription's commit the change that uses its plan.

Put the change of `use_plan` into the commit that begins a subscription or moves it to the plan. It records the first
use, and later checks the plan's version: a plan that is archived or changed meanwhile fails the commit.
"""

from __future__ import annotations

from uuid import UUID

from ledger.domain.plans.commands import UsePlan
from ledger.domain.plans.decide import decide_use
from ledger.domain.plans.state import Plan
from ledger.domain.streams import PLANS
from ledger.journal.append import Change
from ledger.operations.pipeline.unit_of_work import UnitOfWork


def use_plan(uow: UnitOfWork, plan: Plan, subscription_id: UUID) -> Change:
    """Returns the change of a plan that this unit of work has found, for a subscription's commit.

    Raises PlanNotFound for an archived plan.
    """
    events = decide_use(plan, UsePlan(subscription_id=subscription_id, at=uow.now))
    return uow.change(PLANS, plan.plan_id, events)
