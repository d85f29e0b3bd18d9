"""How a keyed request's events fold into its state. Total: it never refuses.

A request that never left us is accepted a second time under the same key; the latest acceptance counts.
"""

from __future__ import annotations

from typing import assert_never

from msgspec.structs import replace

from ledger.domain.idempotency.events import (
    RequestAccepted,
    RequestAnswered,
    RequestEvent,
    RequestRefused,
    RequestReleased,
)
from ledger.domain.idempotency.state import IdempotencyRecord


def evolve(request: IdempotencyRecord | None, event: RequestEvent) -> IdempotencyRecord:
    """The request after one more of its events."""
    match event:
        case RequestAccepted():
            return IdempotencyRecord(
                fingerprint=event.fingerprint,
                order_id=event.order_id,
                payment_id=event.payment_id,
                refund_id=event.refund_id,
            )
        case RequestAnswered():
            assert request is not None, "an answer follows its acceptance"
            return replace(request, answer=event)
        case RequestRefused():
            return IdempotencyRecord(fingerprint=event.fingerprint, refusal=event)
        case RequestReleased():
            assert request is not None, "a release follows its acceptance"
            return replace(request, released=True)
        case _:
            assert_never(event)
