"""The signatures of webhooks, as Standard Webhooks 1.0.0 defines them: HMAC-SHA256 over id, time and the raw body.

Sign with the real time, never with a merchant's clock: a receiver refuses a message whose time is minutes from its own.
"""

from __future__ import annotations

import hmac
import secrets
from base64 import b64decode, b64encode
from collections.abc import Sequence
from datetime import datetime
from hashlib import sha256
from typing import Final

PREFIX: Final = "whsec_"
_KEY_BYTES: Final = 32
_SCHEME: Final = "v1,"


def new_secret() -> str:
    """Returns a new secret of an endpoint: `whsec_` and the base64 of 32 random bytes."""
    return PREFIX + b64encode(secrets.token_bytes(_KEY_BYTES)).decode()


def signed_headers(message_id: str, body: bytes, endpoint_secrets: Sequence[str], at: datetime) -> dict[str, str]:
    """Returns the three headers of a message that is sent at `at`, with one signature by each secret.

    There are two secrets while one replaces the other: a receiver accepts a message if one signature is by its own.
    """
    assert endpoint_secrets, "an endpoint has a secret"
    assert "." not in message_id, "a dot ends the id in the signed bytes"
    assert at.tzinfo is not None, "a time without a zone would be taken for the machine's"
    timestamp = str(int(at.timestamp()))
    signed = f"{message_id}.{timestamp}.".encode() + body
    signatures = (_SCHEME + b64encode(hmac.digest(_key(each), signed, sha256)).decode() for each in endpoint_secrets)
    return {"webhook-id": message_id, "webhook-timestamp": timestamp, "webhook-signature": " ".join(signatures)}


def _key(secret: str) -> bytes:
    assert secret.startswith(PREFIX), "secrets are made by new_secret"
    return b64decode(secret.removeprefix(PREFIX), validate=True)
