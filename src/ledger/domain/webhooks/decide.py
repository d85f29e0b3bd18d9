"""The deciders of an endpoint. A deleted one is not found (`Stream.is_hidden`): only the worker can still name it."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from msgspec.structs import replace

from ledger.domain.rejections import WebhookEndpointLimitReached
from ledger.domain.webhooks.commands import (
    ChangeEndpoint,
    CreateEndpoint,
    DeleteEndpoint,
    DisableEndpoint,
    RotateSecret,
)
from ledger.domain.webhooks.events import (
    WebhookEndpointChanged,
    WebhookEndpointCreated,
    WebhookEndpointDeleted,
    WebhookEndpointDisabled,
    WebhookEndpointEnabled,
    WebhookEndpointEvent,
    WebhookSecretRotated,
)
from ledger.domain.webhooks.state import WebhookEndpoint
from ledger.domain.webhooks.terms import ENDPOINTS_MAX, DisabledReason, EndpointStatus, Resume

ROTATION: Final = timedelta(hours=24)
"""How long the secret before signs along."""


def decide_create(endpoint: WebhookEndpoint | None, command: CreateEndpoint) -> list[WebhookEndpointEvent]:
    """Creates an endpoint. Returns no events if it exists. Raises WebhookEndpointLimitReached."""
    if endpoint is not None:
        return []
    if command.endpoints >= ENDPOINTS_MAX:
        raise WebhookEndpointLimitReached(
            f"The merchant has {command.endpoints} webhook endpoints, and may have {ENDPOINTS_MAX}: delete one first."
        )
    created = WebhookEndpointCreated(
        endpoint_id=command.endpoint_id,
        number=command.number,
        terms=command.terms,
        secret_id=command.secret_id,
        at=command.at,
    )
    return [created]


def decide_change(endpoint: WebhookEndpoint, command: ChangeEndpoint) -> list[WebhookEndpointEvent]:
    """Changes an endpoint. Returns no events if it is so already."""
    events: list[WebhookEndpointEvent] = []
    terms = replace(endpoint.terms, **command.terms)
    if terms != endpoint.terms:
        events.append(WebhookEndpointChanged(endpoint_id=endpoint.endpoint_id, terms=terms, at=command.at))
    if command.status is EndpointStatus.DISABLED:
        events += decide_disable(endpoint, DisableEndpoint(reason=DisabledReason.MERCHANT, at=command.at))
    elif command.status is EndpointStatus.ENABLED and endpoint.disabled_reason is not None:
        is_now = command.resume is Resume.NOW
        enabled = WebhookEndpointEnabled(
            endpoint_id=endpoint.endpoint_id,
            resume=command.resume,
            at=command.at,
            after_sequence=command.after_sequence if is_now else None,
        )
        events.append(enabled)
    return events


def decide_rotate(endpoint: WebhookEndpoint, command: RotateSecret) -> list[WebhookEndpointEvent]:
    """Gives an endpoint another secret. Returns no events if it has this one."""
    if endpoint.secret_id == command.secret_id:
        return []
    rotated = WebhookSecretRotated(
        endpoint_id=endpoint.endpoint_id,
        secret_id=command.secret_id,
        at=command.at,
        previous_until=None if command.expire_now else command.real_at + ROTATION,
    )
    return [rotated]


def decide_disable(endpoint: WebhookEndpoint, command: DisableEndpoint) -> list[WebhookEndpointEvent]:
    """Disables an endpoint. Returns no events if it is disabled already, whatever the reason, or deleted.

    Nor if it was changed since the version that the command has seen.
    """
    if endpoint.disabled_reason is not None or endpoint.is_deleted:
        return []
    if command.seen is not None and command.seen != endpoint.version:
        return []
    return [WebhookEndpointDisabled(endpoint_id=endpoint.endpoint_id, reason=command.reason, at=command.at)]


def decide_delete(endpoint: WebhookEndpoint, command: DeleteEndpoint) -> list[WebhookEndpointEvent]:
    """Deletes an endpoint. Returns no events if it is deleted already."""
    if endpoint.is_deleted:
        return []
    return [WebhookEndpointDeleted(endpoint_id=endpoint.endpoint_id, at=command.at)]
