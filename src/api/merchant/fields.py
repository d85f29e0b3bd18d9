"""The fields that requests about API keys have in common."""

from __future__ import annotations

from datetime import datetime

from api.decoding.stored_text import check_card_data
from api.errors import invalid
from api.fields.values import moment, printable


def key_name(text: str | None) -> str | None:
    """Returns a key's name. Raises ApiError (400) if it is not printable or holds card data."""
    if text is not None:
        printable(text, "name")
        check_card_data(text, "name")
    return text


def key_expiry(sent: datetime | None, now: datetime) -> datetime | None:
    """Returns when a key expires, in UTC. `now` is real time, in the merchant's time zone. Raises ApiError (400)."""
    if sent is None:
        return None
    expires_at = moment(sent, "expiresAt", now)
    if expires_at <= now:
        raise invalid("expiresAt", "must be later than now: a key cannot expire before it is issued")
    return expires_at
