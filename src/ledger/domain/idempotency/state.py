"""The state of an idempotency record, folded from its events."""

from __future__ import annotations

from uuid import UUID

from msgspec import Raw, Struct

from ledger.domain.idempotency.events import RequestAnswered, RequestRefused


class IdempotencyRecord(Struct, frozen=True, kw_only=True):
    """A request under an idempotency key, in progress while it has no answer, no refusal, and was not released.

    `fingerprint` is a keyed hash of the request. The ids name what the accepted request creates or changes.
    """

    fingerprint: str
    stream_id: UUID | None = None
    payment_id: UUID | None = None
    refund_id: UUID | None = None
    released: bool = False
    answer: RequestAnswered | None = None
    refusal: RequestRefused | None = None
    result: Raw | None = None
    """The answer to a completed request that is not about one order, as JSON."""
