"""Creates a webhook endpoint. Store its secret before the event that names it (decision 0077).

The claim on its number puts the endpoints of a merchant in one order: a request that has counted fifteen others commits
only if none was created since.
"""

from __future__ import annotations

from contextlib import suppress
from uuid import UUID, uuid4

from uuid_utils.compat import uuid7

from ledger.domain.rejections import Rejected
from ledger.domain.streams import WEBHOOK_ENDPOINTS, ClaimKind
from ledger.domain.webhooks.commands import CreateEndpoint
from ledger.domain.webhooks.decide import decide_create
from ledger.domain.webhooks.terms import EndpointTerms
from ledger.journal.append import Claim, Conflict
from ledger.operations.context.event_feed import EventFeed
from ledger.operations.context.inputs import Actor
from ledger.operations.context.ledger import Ledger
from ledger.operations.pipeline.execute_stream import execute_on_stream
from ledger.operations.pipeline.unit_of_work import IdempotencyKey, Plan, UnitOfWork
from ledger.operations.webhooks.endpoint import EndpointResult, destroy_others, webhooks_of
from ledger.postgres.faults import Fault


async def create_endpoint(
    ledger: Ledger, feed: EventFeed, actor: Actor, terms: EndpointTerms, key: IdempotencyKey | None = None
) -> EndpointResult:
    """Creates an endpoint, which gets what is committed afterwards, and begins the merchant's feed.

    Raises like `execute_on_stream`; InvalidField for a URL to which nothing may be posted, WebhookEndpointLimitReached.
    """
    return await ledger.complete(_create(ledger, feed, actor, terms, key))


async def _create(
    ledger: Ledger, feed: EventFeed, actor: Actor, terms: EndpointTerms, key: IdempotencyKey | None
) -> EndpointResult:
    webhooks = webhooks_of(ledger)
    uow = UnitOfWork(ledger, actor, key, creates=True)
    endpoint_id, secret_id = uuid7(), uuid4()
    secret: str | None = None

    async def attempt(_: Conflict | None) -> Plan:
        nonlocal secret
        if secret is None:
            await webhooks.client.require_permitted(terms.url)
        endpoints, created = await webhooks.count(uow.merchant_id)
        await uow.refresh()
        command = CreateEndpoint(
            endpoint_id=endpoint_id,
            number=created + 1,
            endpoints=endpoints,
            terms=terms,
            secret_id=secret_id,
            at=uow.now,
        )
        events = decide_create(None, command)
        if secret is None:
            await feed.begin(uow.merchant_id)  # before the commit: an endpoint without a feed would get nothing
            secret = await webhooks.secrets.create(uow.merchant_id, endpoint_id, secret_id)
        claim = Claim(ClaimKind.WEBHOOK_ENDPOINT_NUMBER, str(command.number), endpoint_id)
        return Plan(changes=[uow.change(WEBHOOK_ENDPOINTS, endpoint_id, events)], claims=[claim])

    try:
        result = await execute_on_stream(uow, attempt, WEBHOOK_ENDPOINTS)
    except Rejected:
        if secret is not None:
            await _destroy(ledger, uow.merchant_id, endpoint_id)
        raise
    if not result.repeated:
        await destroy_others(ledger, uow.merchant_id, result.state)
    return EndpointResult(endpoint=result.state, secret=secret, repeated=result.repeated)


async def _destroy(ledger: Ledger, merchant_id: UUID, endpoint_id: UUID) -> None:
    """Destroys the secret of an endpoint that was not created. If that fails, a later change of another one does it."""
    with suppress(Fault):
        await webhooks_of(ledger).secrets.destroy(merchant_id, endpoint_id, ())
