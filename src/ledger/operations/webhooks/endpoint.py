"""Finds an endpoint, and destroys the secrets that no endpoint needs any more."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from uuid import UUID

from msgspec import Struct

from ledger.domain.rejections import WebhookEndpointDisabled
from ledger.domain.streams import WEBHOOK_ENDPOINTS
from ledger.domain.webhooks.state import WebhookEndpoint
from ledger.domain.webhooks.terms import EndpointStatus
from ledger.operations.context.inputs import Actor
from ledger.operations.context.ledger import Ledger
from ledger.operations.context.webhooks import Webhooks
from ledger.operations.pipeline.unit_of_work import UnitOfWork
from ledger.postgres.faults import Fault


class EndpointResult(Struct, frozen=True, kw_only=True):
    """The endpoint after a request. `secret` is a new one, None in a `repeated` answer: it is shown once.

    `skipped` are the numbers of the first and of the last public event that it does not get. `replayed` marks a request
    that changed nothing because the endpoint was so already.
    """

    endpoint: WebhookEndpoint
    secret: str | None = None
    skipped: tuple[int, int] | None = None
    replayed: bool = False
    repeated: bool = False


def webhooks_of(ledger: Ledger) -> Webhooks:
    """Returns the access to webhooks, which every process has that carries out requests about them."""
    assert ledger.webhooks is not None, "a process that creates endpoints has access to webhooks"
    return ledger.webhooks


async def find_enabled(ledger: Ledger, actor: Actor, reference: str) -> WebhookEndpoint:
    """Returns the endpoint with this id. Raises WebhookEndpointNotFound, WebhookEndpointDisabled, a Fault."""
    endpoint = await UnitOfWork(ledger, actor).find(WEBHOOK_ENDPOINTS, reference)
    if endpoint.status is EndpointStatus.DISABLED:
        raise WebhookEndpointDisabled("The webhook endpoint is DISABLED: enable it by PUT first.")
    return endpoint


async def destroy_others(ledger: Ledger, merchant_id: UUID, endpoint: WebhookEndpoint) -> None:
    """Destroys the secrets that have ended; all, if the endpoint was deleted.

    If that fails, the next change of an endpoint of the merchant does it.
    """
    valid = () if endpoint.is_deleted else endpoint.secrets_at(datetime.now(UTC))
    with suppress(Fault):
        await webhooks_of(ledger).secrets.destroy(merchant_id, endpoint.endpoint_id, valid)
