"""The events of an endpoint: the storage format of its stream. None of it is personal data or secret.

Topics and fields are permanent (see `ledger.domain.orders.events`). `at` is the time of the merchant's clock.
Secrets are valid by real time, which is that of the receivers.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final
from uuid import UUID

from msgspec import Struct

from ledger.domain.webhooks.terms import DisabledReason, EndpointTerms, Resume


class WebhookEndpointCreated(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The merchant created an endpoint: it gets what is committed afterwards. `secret_id` names its sealed secret.

    `number` counts all endpoints that the merchant has ever created.
    """

    endpoint_id: UUID
    number: int
    terms: EndpointTerms
    secret_id: UUID
    at: datetime


class WebhookEndpointChanged(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The merchant changed an endpoint. `terms` are all of them from then on."""

    endpoint_id: UUID
    terms: EndpointTerms
    at: datetime


class WebhookSecretRotated(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The endpoint has another secret. The one before signs along until `previous_until`, in real time; None ends all
    others.
    """

    endpoint_id: UUID
    secret_id: UUID
    at: datetime
    previous_until: datetime | None = None


class WebhookEndpointDisabled(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """Nothing is posted to the endpoint from then on."""

    endpoint_id: UUID
    reason: DisabledReason
    at: datetime


class WebhookEndpointEnabled(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The merchant enabled the endpoint again: it gets what it missed, or only what is committed afterwards.

    Then `after_sequence` is the number of the last public event before those that it skips.
    """

    endpoint_id: UUID
    resume: Resume
    at: datetime
    after_sequence: int | None = None


class WebhookEndpointDeleted(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The merchant deleted the endpoint. Its secrets are destroyed after this commit."""

    endpoint_id: UUID
    at: datetime


WebhookEndpointEvent = (
    WebhookEndpointCreated
    | WebhookEndpointChanged
    | WebhookSecretRotated
    | WebhookEndpointDisabled
    | WebhookEndpointEnabled
    | WebhookEndpointDeleted
)

TOPICS: Final[dict[str, type[Struct]]] = {
    "webhook-endpoint-created.v1": WebhookEndpointCreated,
    "webhook-endpoint-changed.v1": WebhookEndpointChanged,
    "webhook-secret-rotated.v1": WebhookSecretRotated,
    "webhook-endpoint-disabled.v1": WebhookEndpointDisabled,
    "webhook-endpoint-enabled.v1": WebhookEndpointEnabled,
    "webhook-endpoint-deleted.v1": WebhookEndpointDeleted,
}
