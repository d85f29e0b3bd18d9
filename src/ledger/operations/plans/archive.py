"""Archives a plan: its subscriptions go on, and no new one can be made."""

from __future__ import annotations

from ledger.domain.plans.commands import ArchivePlan
from ledger.domain.plans.decide import decide_archive
from ledger.domain.plans.state import Plan
from ledger.domain.streams import PLANS
from ledger.journal.append import Conflict
from ledger.operations.context.inputs import Actor
from ledger.operations.context.ledger import Ledger
from ledger.operations.pipeline.execute_stream import StreamResult, execute_on_stream
from ledger.operations.pipeline.unit_of_work import IdempotencyKey, UnitOfWork
from ledger.operations.pipeline.unit_of_work import Plan as CommitPlan


async def archive_plan(
    ledger: Ledger, actor: Actor, reference: str, key: IdempotencyKey | None = None
) -> StreamResult[Plan]:
    """Archives the plan that `reference` (service id or external id) names (contract N66).

    A plan that is archived already stays so, and the result is `replayed`. Raises like `execute_on_stream`;
    PlanNotFound.
    """
    uow = UnitOfWork(ledger, actor, key)

    async def attempt(_: Conflict | None) -> CommitPlan:
        plan = await uow.find(PLANS, reference)
        return CommitPlan(changes=[uow.change(PLANS, plan.plan_id, decide_archive(plan, ArchivePlan(at=uow.now)))])

    return await ledger.complete(execute_on_stream(uow, attempt, PLANS))
