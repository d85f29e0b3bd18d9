"""The public events of a plan, a product or a webhook endpoint in one command."""

from __future__ import annotations

from ledger.domain.plans.state import Plan
from ledger.domain.public_events import kinds
from ledger.domain.public_events.command import CommandStream, PublicEvent
from ledger.domain.public_events.kinds import Kind
from ledger.domain.public_events.lookup import causes, last_cause
from ledger.domain.webhooks.state import WebhookEndpoint
from ledger.domain.webhooks.terms import DisabledReason


def announced_plan(stream: CommandStream) -> list[PublicEvent]:
    """Returns the public event of a plan: created, archived or updated."""
    before: Plan | None = stream.before
    after: Plan = stream.after
    if before is None:
        kind = kinds.PLAN_CREATED
    elif after.archived and not before.archived:
        kind = kinds.PLAN_ARCHIVED
    else:
        kind = kinds.PLAN_UPDATED
    return _announced(stream, kind)


def announced_product(stream: CommandStream) -> list[PublicEvent]:
    """Returns the public event of a product: imported for the first time, or with a change."""
    return _announced(stream, kinds.PRODUCT_CREATED if stream.before is None else kinds.PRODUCT_UPDATED)


def announced_endpoint(stream: CommandStream) -> list[PublicEvent]:
    """Returns the public event of an endpoint that its receiver's answers have disabled, not its merchant."""
    after: WebhookEndpoint = stream.after
    if after.disabled_reason in (None, DisabledReason.MERCHANT):
        return []
    return _announced(stream, kinds.ENDPOINT_DISABLED)


def _announced(stream: CommandStream, kind: Kind) -> list[PublicEvent]:
    """Returns the public event of this kind, if an event of the command causes it."""
    if not any(causes(stream, kind)):
        return []
    return [
        PublicEvent(
            kind=kind,
            resource_id=stream.stream_id,
            stream_id=stream.stream_id,
            version=stream.version,
            position=last_cause(stream, kind),
        )
    ]
