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
from ledger.processors.stripe.call_keys import MERCHANT

HEADER: Final = "Stripe-Signature"
_SIGNATURES_MAX: Final = 20
_HEADER_MAX: Final = 4_096

_ID: Final = re.compile(r"\w{1,255}", re.ASCII)
_INTENT: Final = "payment_intent"


class NamedObject(Struct, frozen=True):
    """An object in a message, as far as it decides what is asked about: nothing else of it is read."""

    id: Any = None
    object: Any = None
    metadata: Any = None

    @property
    def asked_about(self) -> str:
        """The object's id; empty for one without an id, and for a payment that is none of the ledger's: the owner of an
        account may use it for other things too.
        """
        is_foreign = self.object == _INTENT and not (isinstance(self.metadata, dict) and MERCHANT in self.metadata)
        is_id = isinstance(self.id, str) and _ID.fullmatch(self.id) is not None
        return self.id if is_id and not is_foreign else ""


class _Data(Struct, frozen=True):
    object: NamedObject = NamedObject()


class _Message(Struct, frozen=True):
    id: Annotated[str, Meta(pattern=r"^evt_[A-Za-z0-9_]{1,250}\Z")]
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
    """Returns what a verified message is about. Its id is one of an event, and of no object that is found by it.

    Raises MessageUnreadable.
    """
    try:
        message = _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as fault:
        raise MessageUnreadable(type(fault).__name__) from None
    return MessageNotice(
        message_id=message.id,
        kind=message.type,
        object_id=message.data.object.asked_about,
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
