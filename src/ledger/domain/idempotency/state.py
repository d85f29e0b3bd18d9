"""What is known of a request under an idempotency key."""

from __future__ import annotations

from uuid import UUID

from msgspec import Struct

from ledger.domain.idempotency.events import RequestAnswered, RequestRefused


class IdempotencyRecord(Struct, frozen=True, kw_only=True):
    """A request: under way while it has neither an answer nor a refusal, and was not released."""

    fingerprint: str
    order_id: UUID | None = None
    payment_id: UUID | None = None
    refund_id: UUID | None = None
    released: bool = False
    answer: RequestAnswered | None = None
    refusal: RequestRefused | None = None
