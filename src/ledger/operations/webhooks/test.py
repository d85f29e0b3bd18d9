"""Posts a sample to a webhook endpoint, once."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Protocol
from uuid import UUID

from uuid_utils.compat import uuid7

from ledger.domain.public_events.kinds import KINDS, Kind, matches
from ledger.domain.rejections import WebhookEndpointDisabled
from ledger.domain.streams import WEBHOOK_ENDPOINTS
from ledger.domain.webhooks.state import WebhookEndpoint
from ledger.domain.webhooks.terms import EndpointStatus, Payload
from ledger.operations.context.inputs import Actor
from ledger.operations.context.ledger import Ledger
from ledger.operations.pipeline.unit_of_work import UnitOfWork
from ledger.operations.webhooks.endpoint import webhooks_of
from ledger.webhooks.attempts import Attempt


class RenderSample(Protocol):
    """How the sample of a kind is rendered."""

    def __call__(self, kind: Kind, event_id: UUID, at: datetime, *, is_thin: bool) -> bytes:
        """Returns the body of a sample. `at` is the merchant's time; without data if `is_thin`."""
        ...


async def post_sample(ledger: Ledger, actor: Actor, reference: str, kind: Kind | None, render: RenderSample) -> Attempt:
    """Posts a sample to the endpoint with this id, signed by its secrets, and returns how that ended.

    Without a `kind`, it is of the first one that the endpoint gets. The endpoint's deliveries are as before. Raises
    WebhookEndpointNotFound, WebhookEndpointDisabled; KeyUnavailable and SealBroken if a secret does not open; a Fault.
    """
    uow = UnitOfWork(ledger, actor)
    endpoint = await uow.find(WEBHOOK_ENDPOINTS, reference)
    if endpoint.status is EndpointStatus.DISABLED:
        raise WebhookEndpointDisabled("The webhook endpoint is DISABLED: enable it by PUT first.")
    webhooks, event_id = webhooks_of(ledger), uuid7()
    opened = [
        await webhooks.secrets.open(uow.merchant_id, secret_id) for secret_id in endpoint.secrets_at(datetime.now(UTC))
    ]
    secrets = [secret for secret in opened if secret is not None]
    if not secrets:  # it was deleted in this moment
        raise WEBHOOK_ENDPOINTS.missing()
    is_thin = endpoint.terms.payload is Payload.THIN
    body = render(kind or _first_kind(endpoint), event_id, uow.now, is_thin=is_thin)
    return await webhooks.client.post(endpoint.terms.url, str(event_id), body, secrets)


def _first_kind(endpoint: WebhookEndpoint) -> Kind:
    """Returns the first kind that the endpoint gets, of those that this release knows."""
    patterns = endpoint.terms.events
    chosen = (kind for kind in KINDS if patterns is None or any(matches(pattern, kind) for pattern in patterns))
    return next(chosen, KINDS[0])
