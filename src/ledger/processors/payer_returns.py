"""Signed addresses of our own to which a processor sends a payer back from the bank.

An address names the merchant, the order and its payment, or the customer and the card that is saved, and the merchant's
own address. It has a keyed hash of them: nothing else is asked about, and a payer is sent on to no address that the
merchant did not give.
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

_PAYMENT: Final = b"payment-ledger payer return v1\0"
_CARD: Final = b"payment-ledger card return v1\0"
_ID, _IDS, _SIGNATURE = 16, 48, 16
_LENGTH: Final = -(-(_IDS + _SIGNATURE) * 4 // 3)
"""How many characters an address' token has: base64 without padding."""


class PayerReturn(Struct, frozen=True, kw_only=True):
    """A payment whose payer comes back, and the merchant's address, if the merchant gave one."""

    merchant_id: UUID
    order_id: UUID
    payment_id: UUID
    on_to: str | None = None


class CardReturn(Struct, frozen=True, kw_only=True):
    """A card that is saved without a payment, whose payer comes back, and the merchant's address, if there is one."""

    merchant_id: UUID
    customer_id: UUID
    payment_method_id: UUID
    on_to: str | None = None


class PayerReturns:
    """Makes and reads the addresses of an installation: they begin with `url` and are signed with `key`."""

    def __init__(self, url: str, key: bytes) -> None:
        self._url, self._key = url, key

    def sign(self, back: PayerReturn | CardReturn) -> str:
        """Returns the address for the payer of a payment or of a card, the same each time."""
        if isinstance(back, PayerReturn):
            label, about = _PAYMENT, (back.merchant_id, back.order_id, back.payment_id)
        else:
            label, about = _CARD, (back.merchant_id, back.customer_id, back.payment_method_id)
        ids = b"".join(each.bytes for each in about)
        token = urlsafe_b64encode(ids + self._signature(label, ids, back.on_to)).rstrip(b"=").decode()
        on_to = "" if back.on_to is None else f"?{ON_TO}={quote(back.on_to, safe='')}"
        return f"{self._url}/{token}{on_to}"

    def read(self, token: str, on_to: str | None) -> PayerReturn | CardReturn | None:
        """Returns what an address names, None for one that this installation did not sign in this form."""
        if len(token) != _LENGTH or not token.isascii():
            return None
        try:
            content = urlsafe_b64decode(token + "=" * (-_LENGTH % 4))
        except (ValueError, binascii.Error):
            return None
        ids, signature = content[:_IDS], content[_IDS:]
        merchant_id, about_id, part_id = (UUID(bytes=ids[n : n + _ID]) for n in range(0, _IDS, _ID))
        if hmac.compare_digest(signature, self._signature(_PAYMENT, ids, on_to)):
            return PayerReturn(merchant_id=merchant_id, order_id=about_id, payment_id=part_id, on_to=on_to)
        if hmac.compare_digest(signature, self._signature(_CARD, ids, on_to)):
            return CardReturn(merchant_id=merchant_id, customer_id=about_id, payment_method_id=part_id, on_to=on_to)
        return None

    def _signature(self, label: bytes, ids: bytes, on_to: str | None) -> bytes:
        return hmac.digest(self._key, label + ids + (on_to or "").encode(), "sha256")[:_SIGNATURE]
