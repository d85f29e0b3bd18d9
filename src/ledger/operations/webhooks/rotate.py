"""Gives a webhook endpoint another secret. Store it before the event that names it (decision 0077)."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import uuid4

from ledger.domain.streams import WEBHOOK_ENDPOINTS
from ledger.domain.webhooks.commands import RotateSecret
from ledger.domain.webhooks.decide import decide_rotate
from ledger.journal.append import Conflict
from ledger.operations.context.inputs import Actor
from ledger.operations.context.ledger import Ledger
from ledger.operations.pipeline.execute_stream import execute_on_stream
from ledger.operations.pipeline.unit_of_work import IdempotencyKey, Plan, UnitOfWork
from ledger.operations.webhooks.endpoint import EndpointResult, destroy_others, webhooks_of


async def rotate_secret(
    ledger: Ledger, actor: Actor, reference: str, *, expire_now: bool, key: IdempotencyKey | None = None
) -> EndpointResult:
    """Gives the endpoint with this id another secret; the one before signs along for a day, unless it `expire_now`.

    Raises like `execute_on_stream`; WebhookEndpointNotFound.
    """
    return await ledger.complete(_rotate(ledger, actor, reference, key, expire_now=expire_now))


async def _rotate(
    ledger: Ledger, actor: Actor, reference: str, key: IdempotencyKey | None, *, expire_now: bool
) -> EndpointResult:
    uow = UnitOfWork(ledger, actor, key)
    secret_id = uuid4()
    secret: str | None = None

    async def attempt(_: Conflict | None) -> Plan:
        nonlocal secret
        endpoint = await uow.find(WEBHOOK_ENDPOINTS, reference)
        if secret is None:
            secret = await webhooks_of(ledger).secrets.create(uow.merchant_id, endpoint.endpoint_id, secret_id)
        command = RotateSecret(secret_id=secret_id, expire_now=expire_now, at=uow.now, real_at=datetime.now(UTC))
        return Plan(changes=[uow.change(WEBHOOK_ENDPOINTS, endpoint.endpoint_id, decide_rotate(endpoint, command))])

    result = await execute_on_stream(uow, attempt, WEBHOOK_ENDPOINTS)
    if not result.repeated:
        await destroy_others(ledger, uow.merchant_id, result.state)
    return EndpointResult(endpoint=result.state, secret=secret, repeated=result.repeated)
