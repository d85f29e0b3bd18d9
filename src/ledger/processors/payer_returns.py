"""Signed addresses of our own to which a processor sends a payer back from the bank.

An address names the merchant, the order, the payment and the merchant's own address, and has a keyed hash of the four:
no other one is asked about, and a payer is sent on to no address that the merchant did not give.
"""

from __future__ import annotations

import binascii
import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Final
from urllib.parse import quote
from uuid import UUID

from msgspec import Struct

PATH: Final = "payer-returns"
"""The path under which the addresses begin."""
ON_TO: Final = "to"
"""The member of the query that has the merchant's address. Processors add members of their own."""

_LABEL: Final = b"payment-ledger payer return v1\0"
_ID, _IDS, _SIGNATURE = 16, 48, 16
_LENGTH: Final = -(-(_IDS + _SIGNATURE) * 4 // 3)
"""How many characters an address' token has: base64 without padding."""


class PayerReturn(Struct, frozen=True, kw_only=True):
    """A payment whose payer comes back, and the merchant's address, if the merchant gave one."""

    merchant_id: UUID
    order_id: UUID
    payment_id: UUID
    on_to: str | None = None


class PayerReturns:
    """Makes and reads the addresses of an installation: they begin with `url` and are signed with `key`."""

    def __init__(self, url: str, key: bytes) -> None:
        self._url, self._key = url, key

    def sign(self, back: PayerReturn) -> str:
        """Returns the address for a payment's payer, the same each time."""
        ids = back.merchant_id.bytes + back.order_id.bytes + back.payment_id.bytes
        token = urlsafe_b64encode(ids + self._signature(ids, back.on_to)).rstrip(b"=").decode()
        on_to = "" if back.on_to is None else f"?{ON_TO}={quote(back.on_to, safe='')}"
        return f"{self._url}/{token}{on_to}"

    def read(self, token: str, on_to: str | None) -> PayerReturn | None:
        """Returns what an address names, None for one that this installation did not sign in this form."""
        if len(token) != _LENGTH or not token.isascii():
            return None
        try:
            content = urlsafe_b64decode(token + "=" * (-_LENGTH % 4))
        except (ValueError, binascii.Error):
            return None
        ids, signature = content[:_IDS], content[_IDS:]
        if not hmac.compare_digest(signature, self._signature(ids, on_to)):
            return None
        merchant_id, order_id, payment_id = (UUID(bytes=ids[n : n + _ID]) for n in range(0, _IDS, _ID))
        return PayerReturn(merchant_id=merchant_id, order_id=order_id, payment_id=payment_id, on_to=on_to)

    def _signature(self, ids: bytes, on_to: str | None) -> bytes:
        return hmac.digest(self._key, _LABEL + ids + (on_to or "").encode(), "sha256")[:_SIGNATURE]
