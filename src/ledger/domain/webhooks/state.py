"""The state of an endpoint, folded from its events."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from msgspec import Struct

from ledger.domain.webhooks.terms import DisabledReason, EndpointStatus, EndpointTerms


class PreviousSecret(Struct, frozen=True):
    """A secret that was replaced, and signs along until a real time."""

    secret_id: UUID
    until: datetime


class WebhookEndpoint(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An endpoint of a merchant, its `number`-th. `previous` are its earlier secrets that were not ended at once, the
    newest first.

    `version` is that of the stream. It gets what is committed after the event with the version `from_version`: its
    creation, or the latest enabling that skipped what it had missed, from `after_sequence` on.
    """

    endpoint_id: UUID
    number: int
    version: int
    from_version: int
    terms: EndpointTerms
    secret_id: UUID
    created_at: datetime
    updated_at: datetime
    previous: tuple[PreviousSecret, ...] = ()
    after_sequence: int | None = None
    disabled_reason: DisabledReason | None = None
    is_deleted: bool = False

    @property
    def status(self) -> EndpointStatus:
        return EndpointStatus.ENABLED if self.disabled_reason is None else EndpointStatus.DISABLED

    @property
    def has_skipped(self) -> bool:
        """Whether the latest event enabled the endpoint without what it had missed."""
        return self.from_version == self.version > 1

    def secrets_at(self, now: datetime) -> tuple[UUID, ...]:
        """Returns the ids of the secrets that sign a message at `now`, in real time; that of the present one first."""
        return (self.secret_id, *(each.secret_id for each in self.previous if now < each.until))
