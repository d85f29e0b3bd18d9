"""How one attempt to deliver a message ended."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from enum import StrEnum
from typing import Final

from msgspec import Struct

BODY_READ_MAX: Final = 16 << 10
"""How many bytes of an answer are read. A longer one is a failure: it may never end."""
BODY_KEPT_MAX: Final = 1 << 10
RETRY_AFTER_MAX: Final = timedelta(hours=24)


class Outcome(StrEnum):
    """The ways in which an attempt ends."""

    DELIVERED = "DELIVERED"
    STATUS = "STATUS"
    REDIRECT = "REDIRECT"
    NOT_ALLOWED = "NOT_ALLOWED"
    UNRESOLVED = "UNRESOLVED"
    UNREACHABLE = "UNREACHABLE"
    TLS = "TLS"
    TIMED_OUT = "TIMED_OUT"
    UNREADABLE = "UNREADABLE"
    TOO_LONG = "TOO_LONG"


class Attempt(Struct, frozen=True, kw_only=True):
    """An attempt. Only one that was DELIVERED has no `error`, which is a sentence for the merchant.

    `response_body` is the beginning of the answer. `retry_after` is how long the receiver asks to wait.
    """

    at: datetime
    duration_ms: int
    outcome: Outcome
    error: str | None = None
    response_status: int | None = None
    response_body: str = ""
    retry_after: timedelta | None = None

    @property
    def is_delivered(self) -> bool:
        return self.outcome is Outcome.DELIVERED


def kept_text(body: bytes) -> str:
    """Returns the beginning of an answer as text that every store takes: without control characters."""
    text = body[:BODY_KEPT_MAX].decode(errors="replace")
    return "".join(each if each.isprintable() or each in "\n\t" else "\N{REPLACEMENT CHARACTER}" for each in text)


def retry_after(value: str | None, now: datetime) -> timedelta | None:
    """Returns how long a `Retry-After` asks to wait, at most 24 hours: seconds, or a date (RFC 9110, 10.2.3).

    None for a value that is neither, or a date that has passed.
    """
    text = (value or "").strip()
    if text.isascii() and text.isdecimal():
        wait = min(timedelta(seconds=int(text[:9])), RETRY_AFTER_MAX)
    else:
        try:
            date = parsedate_to_datetime(text)
        except (ValueError, TypeError, OverflowError):
            return None
        wait = min((date if date.tzinfo else date.replace(tzinfo=UTC)) - now, RETRY_AFTER_MAX)
    return wait if wait > timedelta() else None
