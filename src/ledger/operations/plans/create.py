"""Creates a plan. The claim on its external id decides which of two creations was first."""

from __future__ import annotations

from msgspec.structs import asdict
from uuid_utils.compat import uuid7

from ledger.domain.plans.commands import CreatePlan, NewPlan
from ledger.domain.plans.decide import decide_create
from ledger.domain.plans.state import Plan
from ledger.domain.streams import PLANS, ClaimKind
from ledger.journal.append import Claim, ClaimTaken, Conflict
from ledger.operations.context.inputs import Actor
from ledger.operations.context.ledger import Ledger
from ledger.operations.pipeline.execute_stream import StreamResult, execute_on_stream
from ledger.operations.pipeline.unit_of_work import IdempotencyKey, UnitOfWork
from ledger.operations.pipeline.unit_of_work import Plan as CommitPlan


async def create_plan(
    ledger: Ledger, actor: Actor, request: NewPlan, key: IdempotencyKey | None = None
) -> StreamResult[Plan]:
    """Creates a plan (contract N65). Raises like `execute_on_stream`; InvalidField, DuplicateExternalId."""
    uow = UnitOfWork(ledger, actor, key, creates=True)
    plan_id = uuid7()
    external_id = request.external_id

    async def attempt(conflict: Conflict | None) -> CommitPlan:
        existing = None
        if isinstance(conflict, ClaimTaken) and external_id is not None:
            existing = await uow.find_claimed(PLANS, external_id)
        command = CreatePlan(plan_id=plan_id, at=uow.now, **asdict(request))
        claims = [] if external_id is None else [Claim(ClaimKind.PLAN_EXTERNAL_ID, external_id, plan_id)]
        return CommitPlan(changes=[uow.change(PLANS, plan_id, decide_create(existing, command))], claims=claims)

    return await ledger.complete(execute_on_stream(uow, attempt, PLANS))
