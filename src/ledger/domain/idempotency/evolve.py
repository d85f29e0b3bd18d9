"""The fold of an idempotency record. It is total: it never refuses an event.

A request whose processor call was never sent is accepted again under the same key; the latest acceptance counts.
"""

from __future__ import annotations

from typing import assert_never

from msgspec.structs import replace

from ledger.domain.idempotency.events import (
    RequestAccepted,
    RequestAnswered,
    RequestCompleted,
    RequestEvent,
    RequestRefused,
    RequestReleased,
)
from ledger.domain.idempotency.state import IdempotencyRecord


def evolve(record: IdempotencyRecord | None, event: RequestEvent) -> IdempotencyRecord:
    """Returns the record after `event`. `record` is None before the first event."""
    match event:
        case RequestAccepted():
            return IdempotencyRecord(
                fingerprint=event.fingerprint,
                stream_id=event.stream_id,
                payment_id=event.payment_id,
                refund_id=event.refund_id,
            )
        case RequestAnswered():
            assert record is not None, "an answer follows its acceptance"
            return replace(record, answer=event)
        case RequestRefused():
            return IdempotencyRecord(fingerprint=event.fingerprint, refusal=event)
        case RequestReleased():
            assert record is not None, "a release follows its acceptance"
            return replace(record, released=True)
        case RequestCompleted():
            return IdempotencyRecord(fingerprint=event.fingerprint, result=event.result)
        case _:
            assert_never(event)
