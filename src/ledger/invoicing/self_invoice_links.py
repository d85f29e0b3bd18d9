"""Signed links to the page on which the payer of an order requests its invoice.

A link names the merchant, the order and its end, and has a keyed hash of the three: the service stores no link, and
reads nothing for an address that it did not sign. A visitor with the link counts as the payer.
"""

from __future__ import annotations

import binascii
import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from datetime import UTC, datetime
from typing import Final
from uuid import UUID

from msgspec import Struct

PATH: Final = "self-invoice"
"""The path under which the links begin."""

_LABEL: Final = b"payment-ledger self-invoice link v1\0"
_ID, _END, _SIGNATURE = 16, 5, 16
_SIGNED: Final = 2 * _ID + _END
_LENGTH: Final = -(-(_SIGNED + _SIGNATURE) * 4 // 3)
"""How many characters a link's token has: base64 without padding."""


class LinkedOrder(Struct, frozen=True):
    """The order of a link, and when the link ends by the merchant's clock."""

    merchant_id: UUID
    order_id: UUID
    ends_at: datetime


class SelfInvoiceLinks:
    """Makes and reads the links of an installation: they begin with `url` and are signed with `key`."""

    def __init__(self, url: str, key: bytes) -> None:
        self._url, self._key = url, key

    def sign(self, order: LinkedOrder) -> str:
        """Returns the address of an order's page. The whole second of its end counts."""
        signed = order.merchant_id.bytes + order.order_id.bytes + int(order.ends_at.timestamp()).to_bytes(_END)
        return f"{self._url}/{urlsafe_b64encode(signed + self._signature(signed)).rstrip(b'=').decode()}"

    def read(self, token: str) -> LinkedOrder | None:
        """Returns the order of a link, None for a token that this installation did not sign. It may have ended."""
        if len(token) != _LENGTH or not token.isascii():
            return None
        try:
            content = urlsafe_b64decode(token + "=" * (-_LENGTH % 4))
        except (ValueError, binascii.Error):
            return None
        signed, signature = content[:_SIGNED], content[_SIGNED:]
        if not hmac.compare_digest(signature, self._signature(signed)):
            return None
        return LinkedOrder(
            merchant_id=UUID(bytes=signed[:_ID]),
            order_id=UUID(bytes=signed[_ID : 2 * _ID]),
            ends_at=datetime.fromtimestamp(int.from_bytes(signed[2 * _ID :]), UTC),
        )

    def _signature(self, signed: bytes) -> bytes:
        return hmac.digest(self._key, _LABEL + signed, "sha256")[:_SIGNATURE]
