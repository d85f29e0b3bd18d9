"""What operations on webhook endpoints need beside the ledger: their secrets, a client, and how many there are."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from uuid import UUID

from msgspec import Struct

from ledger.webhooks.client import WebhookClient
from ledger.webhooks.endpoint_secrets import EndpointSecretStore

CountEndpoints = Callable[[UUID], Awaitable[tuple[int, int]]]
"""Returns how many endpoints a merchant has now, and how many it has ever created. Raises a Fault."""

LastSequence = Callable[[UUID, UUID], Awaitable[int]]
"""Returns the number of the last public event of a merchant that was looked at for an endpoint. Raises a Fault."""

SequenceAt = Callable[[UUID, UUID, int], Awaitable[int]]
"""Returns the number of a merchant's last public event before the event with a version of a stream. Raises a Fault."""


class Webhooks(Struct, frozen=True):
    """The access to webhooks of one process. It connects to the database, and to receivers, when it is first used."""

    secrets: EndpointSecretStore
    client: WebhookClient
    count: CountEndpoints
    last_sequence: LastSequence
    sequence_at: SequenceAt
