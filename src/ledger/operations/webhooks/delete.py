"""Deletes a webhook endpoint. Its secrets are destroyed after the commit."""

from __future__ import annotations

from ledger.domain.streams import WEBHOOK_ENDPOINTS
from ledger.domain.webhooks.commands import DeleteEndpoint
from ledger.domain.webhooks.decide import decide_delete
from ledger.journal.append import Conflict
from ledger.operations.context.inputs import Actor
from ledger.operations.context.ledger import Ledger
from ledger.operations.pipeline.execute_stream import execute_on_stream
from ledger.operations.pipeline.unit_of_work import IdempotencyKey, Plan, UnitOfWork
from ledger.operations.webhooks.endpoint import EndpointResult, destroy_others


async def delete_endpoint(
    ledger: Ledger, actor: Actor, reference: str, key: IdempotencyKey | None = None
) -> EndpointResult:
    """Deletes the endpoint with this id. Raises like `execute_on_stream`; WebhookEndpointNotFound."""
    return await ledger.complete(_delete(ledger, actor, reference, key))


async def _delete(ledger: Ledger, actor: Actor, reference: str, key: IdempotencyKey | None) -> EndpointResult:
    uow = UnitOfWork(ledger, actor, key)

    async def attempt(_: Conflict | None) -> Plan:
        endpoint = await uow.find(WEBHOOK_ENDPOINTS, reference)
        events = decide_delete(endpoint, DeleteEndpoint(at=uow.now))
        return Plan(changes=[uow.change(WEBHOOK_ENDPOINTS, endpoint.endpoint_id, events)])

    result = await execute_on_stream(uow, attempt, WEBHOOK_ENDPOINTS)
    await destroy_others(ledger, uow.merchant_id, result.state)
    return EndpointResult(endpoint=result.state, replayed=result.replayed, repeated=result.repeated)
