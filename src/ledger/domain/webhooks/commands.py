"""The commands of an endpoint."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from msgspec import Struct

from ledger.domain.webhooks.terms import DisabledReason, EndpointStatus, EndpointTerms, Resume


class CreateEndpoint(Struct, frozen=True, kw_only=True):
    """Creates an endpoint, the merchant's `number`-th. `endpoints` is how many it has, without deleted ones."""

    endpoint_id: UUID
    number: int
    endpoints: int
    terms: EndpointTerms
    secret_id: UUID
    at: datetime


class ChangeEndpoint(Struct, frozen=True, kw_only=True):
    """Changes an endpoint. `terms` are the fields of `EndpointTerms` that change; the others stay.

    `status` is None for the present one. If it is ENABLED and the endpoint is not, `resume` decides where it goes on:
    with NOW, it skips what follows the public event `after_sequence`.
    """

    terms: Mapping[str, Any]
    at: datetime
    status: EndpointStatus | None = None
    resume: Resume = Resume.NOW
    after_sequence: int | None = None


class RotateSecret(Struct, frozen=True, kw_only=True):
    """Gives an endpoint another secret. With `expire_now`, no earlier one signs along. `real_at` is real time."""

    secret_id: UUID
    expire_now: bool
    at: datetime
    real_at: datetime


class DisableEndpoint(Struct, frozen=True, kw_only=True):
    """Disables an endpoint. With `seen`, only one that was not changed since this version."""

    reason: DisabledReason
    at: datetime
    seen: int | None = None


class DeleteEndpoint(Struct, frozen=True, kw_only=True):
    """Deletes an endpoint."""

    at: datetime
