"""Stripe's messages: their signature, and what they are about.

A message is signed by the header `Stripe-Signature: t=…,v1=…` over the raw bytes of the body.

Source: docs.stripe.com/webhooks ("Verify webhook signatures manually") and `stripe/_webhook.py` of stripe-python: the
hexadecimal HMAC-SHA256 of the time, a full stop and the body, under the endpoint's secret. While a secret is changed,
Stripe signs with both, so the header has several `v1`.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from hashlib import sha256
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct

from ledger.processors.messages import REPLAY_WINDOW, InvalidSignature, MessageNotice, MessageUnreadable

HEADER: Final = "Stripe-Signature"
_SIGNATURES_MAX: Final = 20
_HEADER_MAX: Final = 4_096

_ID: Final = re.compile(r"\w{1,255}", re.ASCII)


class _Object(Struct, frozen=True):
    id: Any = None


class _Data(Struct, frozen=True):
    object: _Object = _Object()


class _Message(Struct, frozen=True):
    id: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_]{1,255}\Z")]
    type: Annotated[str, Meta(pattern=r"^[a-z0-9_.]{1,255}\Z")]
    created: Annotated[int, Meta(ge=0, lt=1 << 36)]
    data: _Data = _Data()


_decode: Final = msgspec.json.Decoder(_Message).decode


def verify(header: str, body: bytes, secrets: Iterable[str], now: datetime) -> None:
    """Raises InvalidSignature unless one of `secrets` signed these bytes within five minutes of `now`.

    The exception does not reveal which of the two is wrong. Every pair is compared, so neither does the duration.
    """
    timestamp, signatures = _parts(header)
    is_valid = False
    for secret in secrets:
        expected = hmac.new(secret.encode(), timestamp.encode() + b"." + body, sha256).hexdigest().encode()
        for signature in signatures:
            is_valid |= hmac.compare_digest(expected, signature)
    if not is_valid or not _is_now(timestamp, now):
        raise InvalidSignature


def notice_of(body: bytes) -> MessageNotice:
    """Returns what a verified message is about: not an object without an id, as a balance.

    Raises MessageUnreadable.
    """
    try:
        message = _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as fault:
        raise MessageUnreadable(type(fault).__name__) from None
    named = message.data.object.id
    return MessageNotice(
        message_id=message.id,
        kind=message.type,
        object_id=named if isinstance(named, str) and _ID.fullmatch(named) else "",
        occurred_at=datetime.fromtimestamp(message.created, UTC),
    )


def _parts(header: str) -> tuple[str, list[bytes]]:
    """Returns the time and the signatures of a header. Raises InvalidSignature for one that Stripe does not write."""
    if len(header) > _HEADER_MAX:
        raise InvalidSignature
    parts = [part.strip().partition("=") for part in header.split(",")]
    times = [value for name, _, value in parts if name == "t"]
    signatures = [value.encode() for name, _, value in parts if name == "v1"]
    if len(times) != 1 or not 0 < len(signatures) <= _SIGNATURES_MAX:
        raise InvalidSignature
    return times[0], signatures


def _is_now(timestamp: str, now: datetime) -> bool:
    """Returns whether a time of digits only is within the window, so that no other text signs the same bytes."""
    if not (timestamp.isascii() and timestamp.isdecimal() and len(timestamp) <= 12):
        return False
    return abs(int(timestamp) - now.timestamp()) <= REPLAY_WINDOW.total_seconds()
