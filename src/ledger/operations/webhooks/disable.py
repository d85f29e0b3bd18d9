"""Disables a webhook endpoint for what its receiver answered. The merchant enables it again."""

from __future__ import annotations

from uuid import UUID

from ledger.domain.streams import WEBHOOK_ENDPOINTS
from ledger.domain.webhooks.commands import DisableEndpoint
from ledger.domain.webhooks.decide import decide_disable
from ledger.domain.webhooks.terms import DisabledReason
from ledger.journal.append import Conflict
from ledger.operations.context.inputs import Actor
from ledger.operations.context.ledger import Ledger
from ledger.operations.pipeline.execute import execute
from ledger.operations.pipeline.unit_of_work import Plan, UnitOfWork


async def disable_endpoint(
    ledger: Ledger, actor: Actor, endpoint_id: UUID, reason: DisabledReason, *, seen: int | None = None
) -> bool:
    """Disables an endpoint, and returns whether it was enabled. Raises ConcurrentUpdate, a Fault.

    With `seen`, the version whose receiver was asked, it is left alone if it was changed since: it may have another
    receiver now.
    """
    return await ledger.complete(_disable(ledger, actor, endpoint_id, reason, seen))


async def _disable(ledger: Ledger, actor: Actor, endpoint_id: UUID, reason: DisabledReason, seen: int | None) -> bool:
    uow = UnitOfWork(ledger, actor)
    await uow.refresh()

    async def attempt(_: Conflict | None) -> Plan:
        endpoint = await uow.load(WEBHOOK_ENDPOINTS, endpoint_id)
        assert endpoint is not None, "the caller has the id from an endpoint"
        events = decide_disable(endpoint, DisableEndpoint(reason=reason, at=uow.now, seen=seen))
        return Plan(changes=[uow.change(WEBHOOK_ENDPOINTS, endpoint_id, events)])

    return bool((await execute(uow, attempt)).events)
