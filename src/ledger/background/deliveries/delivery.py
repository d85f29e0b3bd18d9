"""A delivery of one event to one endpoint, and what follows from the outcome of an attempt."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final
from uuid import UUID

import msgspec
from msgspec import Struct

from ledger.webhooks.attempts import Attempt

RETRY_DELAYS: Final = (
    timedelta(seconds=5),
    timedelta(minutes=5),
    timedelta(minutes=30),
    timedelta(hours=2),
    timedelta(hours=5),
    timedelta(hours=10),
    timedelta(hours=14),
    timedelta(hours=20),
    timedelta(hours=24),
)
"""The pauses between the ten attempts, by the merchant's clock (contract 5.2)."""
JITTER: Final = 0.1
"""By which part a pause may be longer or shorter."""


class DeliveryStatus(StrEnum):
    """How far a delivery is."""

    PENDING = "PENDING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    SKIPPED = "SKIPPED"


class DeliveryAttempt(Struct, frozen=True, kw_only=True, rename="camel"):
    """An attempt as it is stored. `at` is by the merchant's clock; without an `error` it was a success.

    The answer is removed with the person whose event it answers, because it may repeat it.
    """

    at: datetime
    duration_ms: int
    response_status: int | None = None
    response_body: str | None = None
    error: str | None = None


class Delivery(Struct, kw_only=True, eq=False):
    """A delivery that has not ended. The session that has it changes it.

    `due_at` is when it may be attempted, by the merchant's clock; None as soon as its order in the stream allows.
    `first_failed_at` is when its first attempt failed, `noted_at` when it is due by its row. `is_recorded` is True once
    its row exists or is about to be written. `body` are the bytes to send, if they are known. `line` names the line in
    which it waits: that of its stream, or the one for what is repeated of the stream.
    """

    id: UUID
    event_id: UUID
    sequence: int
    kind: str
    stream_id: UUID
    resource_id: UUID | None = None
    is_repeat: bool = False
    is_recorded: bool = False
    status: DeliveryStatus = DeliveryStatus.PENDING
    due_at: datetime | None = None
    first_failed_at: datetime | None = None
    noted_at: datetime | None = None
    attempts: tuple[DeliveryAttempt, ...] = ()
    body: bytes | None = None
    event: Any = None
    line: bytes = b""

    def __post_init__(self) -> None:
        # Bytes, which keep their hash: that of a UUID is computed in Python each time, for 15 look-ups of a delivery.
        self.line = self.stream_id.bytes + (b"\1" if self.is_repeat else b"\0")

    @property
    def rank(self) -> tuple[bool, int]:
        """Its place among all deliveries: new events before repeated ones, each in the order of their numbers."""
        return self.is_repeat, self.sequence


def retry_at(attempts: int, now: datetime, jitter: float, retry_after: timedelta | None) -> datetime | None:
    """Returns when the next attempt is due after so many, or None if that was the last one.

    `jitter` is between -1 and 1. The receiver's own wish wins if it is longer.
    """
    if attempts > len(RETRY_DELAYS):
        return None
    delay = RETRY_DELAYS[attempts - 1] * (1 + JITTER * jitter)
    return now + max(delay, retry_after or timedelta())


def note_attempt(delivery: Delivery, attempt: Attempt, now: datetime, jitter: float) -> None:
    """Changes a delivery by the outcome of an attempt: it SUCCEEDED, FAILED, or waits for its next attempt."""
    noted = DeliveryAttempt(
        at=now,
        duration_ms=attempt.duration_ms,
        response_status=attempt.response_status,
        response_body=attempt.response_body or None,
        error=attempt.error,
    )
    delivery.attempts = (*delivery.attempts, noted)
    delivery.due_at = None
    if attempt.is_delivered:
        delivery.status = DeliveryStatus.SUCCEEDED
        return
    delivery.first_failed_at = delivery.first_failed_at or now
    delivery.due_at = retry_at(len(delivery.attempts), now, jitter, attempt.retry_after)
    if delivery.due_at is None:
        delivery.status = DeliveryStatus.FAILED


_decode: Final = msgspec.json.Decoder(tuple[DeliveryAttempt, ...]).decode


def decode_attempts(text: str | bytes) -> tuple[DeliveryAttempt, ...]:
    """Returns attempts from their JSON."""
    return _decode(text)
