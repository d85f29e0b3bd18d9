"""Changes a plan: the fields that the request gives, and no other."""

from __future__ import annotations

from msgspec.structs import asdict

from ledger.domain.plans.commands import ChangePlan, PlanUpdate
from ledger.domain.plans.decide import decide_change
from ledger.domain.plans.state import Plan
from ledger.domain.streams import PLANS
from ledger.journal.append import Conflict
from ledger.operations.context.inputs import Actor
from ledger.operations.context.ledger import Ledger
from ledger.operations.pipeline.execute_stream import StreamResult, execute_on_stream
from ledger.operations.pipeline.unit_of_work import IdempotencyKey, UnitOfWork
from ledger.operations.pipeline.unit_of_work import Plan as CommitPlan


async def change_plan(
    ledger: Ledger, actor: Actor, reference: str, request: PlanUpdate, key: IdempotencyKey | None = None
) -> StreamResult[Plan]:
    """Changes the plan that `reference` (service id or external id) names (contract N66).

    Raises like `execute_on_stream`; PlanNotFound, InvalidField for `externalId` and `intervalCount`, PlanInUse.
    """
    uow = UnitOfWork(ledger, actor, key)

    async def attempt(_: Conflict | None) -> CommitPlan:
        plan = await uow.find(PLANS, reference)
        command = ChangePlan(at=uow.now, **asdict(request))
        return CommitPlan(changes=[uow.change(PLANS, plan.plan_id, decide_change(plan, command))])

    return await ledger.complete(execute_on_stream(uow, attempt, PLANS))
