"""Changes a webhook endpoint, enables or disables it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from msgspec import Struct

from ledger.domain.streams import WEBHOOK_ENDPOINTS
from ledger.domain.webhooks.commands import ChangeEndpoint
from ledger.domain.webhooks.decide import decide_change
from ledger.domain.webhooks.state import WebhookEndpoint
from ledger.domain.webhooks.terms import EndpointStatus, Resume
from ledger.journal.append import Conflict
from ledger.operations.context.event_feed import EventFeed
from ledger.operations.context.inputs import Actor
from ledger.operations.context.ledger import Ledger
from ledger.operations.pipeline.execute_stream import execute_on_stream
from ledger.operations.pipeline.unit_of_work import IdempotencyKey, Plan, UnitOfWork
from ledger.operations.webhooks.endpoint import EndpointResult, webhooks_of


class EndpointChanges(Struct, frozen=True, kw_only=True):
    """What a request changes: fields of `EndpointTerms`, and whether events are posted.

    `resume` is where an endpoint that is enabled goes on.
    """

    terms: Mapping[str, Any]
    status: EndpointStatus | None = None
    resume: Resume = Resume.NOW


async def change_endpoint(
    ledger: Ledger,
    feed: EventFeed,
    actor: Actor,
    reference: str,
    changes: EndpointChanges,
    key: IdempotencyKey | None = None,
) -> EndpointResult:
    """Changes the endpoint with this id. One that is so already is `replayed`.

    An endpoint that is enabled with NOW skips what it has missed: the result has the numbers of those events. Raises
    like `execute_on_stream`; WebhookEndpointNotFound, InvalidField for a URL to which nothing may be posted;
    FeedBehind if the events that it skips are not numbered.
    """
    return await ledger.complete(_change(ledger, feed, actor, reference, changes, key))


async def _change(
    ledger: Ledger,
    feed: EventFeed,
    actor: Actor,
    reference: str,
    changes: EndpointChanges,
    key: IdempotencyKey | None,
) -> EndpointResult:
    webhooks = webhooks_of(ledger)
    uow = UnitOfWork(ledger, actor, key)
    is_permitted = "url" not in changes.terms

    async def attempt(_: Conflict | None) -> Plan:
        nonlocal is_permitted
        endpoint = await uow.find(WEBHOOK_ENDPOINTS, reference)
        if not is_permitted:
            await webhooks.client.require_permitted(changes.terms["url"])
            is_permitted = True
        after_sequence = None
        if _skips(endpoint, changes):
            await feed.catch_up(uow.merchant_id)
            after_sequence = await webhooks.last_sequence(uow.merchant_id, endpoint.endpoint_id)
        command = ChangeEndpoint(
            terms=changes.terms,
            status=changes.status,
            resume=changes.resume,
            after_sequence=after_sequence,
            at=uow.now,
        )
        return Plan(changes=[uow.change(WEBHOOK_ENDPOINTS, endpoint.endpoint_id, decide_change(endpoint, command))])

    result = await execute_on_stream(uow, attempt, WEBHOOK_ENDPOINTS)
    endpoint = result.state
    skipped = None
    if endpoint.has_skipped and not result.replayed:
        await feed.catch_up(uow.merchant_id)
        skipped = await _skipped(ledger, uow.merchant_id, endpoint)
    return EndpointResult(endpoint=endpoint, skipped=skipped, replayed=result.replayed, repeated=result.repeated)


def _skips(endpoint: WebhookEndpoint, changes: EndpointChanges) -> bool:
    """Returns whether a request has the endpoint skip what it has missed."""
    is_enabled = endpoint.status is EndpointStatus.DISABLED and changes.status is EndpointStatus.ENABLED
    return is_enabled and changes.resume is Resume.NOW


async def _skipped(ledger: Ledger, merchant_id: UUID, endpoint: WebhookEndpoint) -> tuple[int, int] | None:
    """Returns the numbers of the first and of the last event that an endpoint has skipped, None if there was none."""
    assert endpoint.after_sequence is not None, "the event that skips has the number before"
    first = endpoint.after_sequence + 1
    last = await webhooks_of(ledger).sequence_at(merchant_id, endpoint.endpoint_id, endpoint.from_version)
    return (first, last) if first <= last else None
