"""The signature of Stripe's messages: the header `Stripe-Signature: t=…,v1=…` over the raw bytes of the body.

Source: docs.stripe.com/webhooks ("Verify webhook signatures manually") and `stripe/_webhook.py` of stripe-python: the
hexadecimal HMAC-SHA256 of the time, a full stop and the body, under the endpoint's secret. While a secret is changed,
Stripe signs with both, so the header has several `v1`.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from datetime import datetime
from hashlib import sha256
from typing import Final

from ledger.processors.messages import REPLAY_WINDOW, InvalidSignature

HEADER: Final = "Stripe-Signature"
_SIGNATURES_MAX: Final = 20
_HEADER_MAX: Final = 4_096


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
