"""The fold of an endpoint: its state after one more event."""

from __future__ import annotations

from typing import Final, assert_never

from msgspec.structs import replace

from ledger.domain.webhooks.events import (
    WebhookEndpointChanged,
    WebhookEndpointCreated,
    WebhookEndpointDeleted,
    WebhookEndpointDisabled,
    WebhookEndpointEnabled,
    WebhookEndpointEvent,
    WebhookSecretRotated,
)
from ledger.domain.webhooks.state import PreviousSecret, WebhookEndpoint
from ledger.domain.webhooks.terms import Resume

_PREVIOUS_MAX: Final = 4
"""How many earlier secrets sign along: a header has room for a few signatures."""


def evolve(endpoint: WebhookEndpoint | None, event: WebhookEndpointEvent) -> WebhookEndpoint:
    """Returns the endpoint after `event`. `endpoint` is None before it was created."""
    if isinstance(event, WebhookEndpointCreated):
        return WebhookEndpoint(
            endpoint_id=event.endpoint_id,
            number=event.number,
            version=1,
            from_version=1,
            terms=event.terms,
            secret_id=event.secret_id,
            created_at=event.at,
            updated_at=event.at,
        )
    assert endpoint is not None, "a stream begins with its creation"
    return _changed(replace(endpoint, version=endpoint.version + 1, updated_at=event.at), event)


def _changed(
    endpoint: WebhookEndpoint,
    event: WebhookEndpointChanged
    | WebhookSecretRotated
    | WebhookEndpointDisabled
    | WebhookEndpointEnabled
    | WebhookEndpointDeleted,
) -> WebhookEndpoint:
    match event:
        case WebhookEndpointChanged():
            return replace(endpoint, terms=event.terms)
        case WebhookSecretRotated():
            return replace(endpoint, secret_id=event.secret_id, previous=_previous(endpoint, event))
        case WebhookEndpointDisabled():
            return replace(endpoint, disabled_reason=event.reason)
        case WebhookEndpointEnabled(resume=Resume.MISSED):
            return replace(endpoint, disabled_reason=None)
        case WebhookEndpointEnabled():
            return replace(
                endpoint, disabled_reason=None, from_version=endpoint.version, after_sequence=event.after_sequence
            )
        case WebhookEndpointDeleted():
            return replace(endpoint, is_deleted=True)
        case _:
            assert_never(event)


def _previous(endpoint: WebhookEndpoint, event: WebhookSecretRotated) -> tuple[PreviousSecret, ...]:
    if event.previous_until is None:
        return ()
    return (PreviousSecret(endpoint.secret_id, event.previous_until), *endpoint.previous)[:_PREVIOUS_MAX]
