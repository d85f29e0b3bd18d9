"""Personal data inside an event's bytes: one sealed box per event, under the data key of its customer.

A box is bound to its merchant, customer, stream, version and topic. It opens only in the row for which it was written,
so moved rows cannot show one person's data as another's.

An event's JSON with personal data begins with the member `sealed`: base64 of a format byte, the customer's id (which is
the id of the data key), a nonce and the ciphertext. A reader that ignores this member reads the event without its
personal fields, as it is after an erasure.
"""

from __future__ import annotations

import binascii
import os
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from ledger.journal.append import SealBroken
from ledger.journal.encryption.sealing_keys import NONCE_BYTES, Draw
from ledger.telemetry.unopened import note_unopened

_LABEL: Final = b"payment-ledger sealed event v1\0"
_FORMAT: Final = b"\x01"
_MEMBER: Final = b'{"sealed":"'
_CUSTOMER: Final = slice(1, 17)
_BODY_AT: Final = 17 + NONCE_BYTES
_BEGINNING: Final = slice(len(_MEMBER), len(_MEMBER) + 24)  # the base64 of the first 18 bytes


class Seal:
    """The cipher of one stream's events: the data key of its customer, bound to the stream.

    `owner` is the merchant's and the customer's id, 16 bytes each, `stream_id` 16 bytes.
    """

    __slots__ = ("_beginning", "_bound", "_cipher", "_draw")

    def __init__(self, cipher: AESGCM, owner: bytes, stream_id: bytes, draw: Draw = os.urandom) -> None:
        self._cipher, self._draw = cipher, draw
        self._beginning = _FORMAT + owner[16:]
        self._bound = _LABEL + owner + stream_id

    def sealed(self, topic: bytes, version: int, clear: bytes, personal: bytes) -> bytes:
        """Returns the event's JSON: `clear`, an object with at least one member, and `personal` sealed in it."""
        nonce = self._draw(NONCE_BYTES)
        box = self._cipher.encrypt(nonce, personal, self._bound + version.to_bytes(4, "big") + topic)
        text = binascii.b2a_base64(self._beginning + nonce + box, newline=False)
        return b"".join((_MEMBER, text, b'",', clear[1:]))

    def opened(self, topic: bytes, version: int, data: bytes) -> bytes:
        """Returns the event's JSON with the personal members after the clear ones. Raises SealBroken."""
        end = data.index(b'"', len(_MEMBER))
        try:
            box = binascii.a2b_base64(data[len(_MEMBER) : end], strict_mode=True)
            nonce, body = box[_CUSTOMER.stop : _BODY_AT], box[_BODY_AT:] if box.startswith(self._beginning) else b""
            personal = self._cipher.decrypt(nonce, body, self._bound + version.to_bytes(4, "big") + topic)
        except (InvalidTag, ValueError):
            note_unopened("event", "broken")
            raise SealBroken(f"version {version} of a stream, {topic.decode()}, does not open") from None
        return b"".join((b"{", data[end + 2 : -1], b",", personal[1:]))


def customer_of(data: bytes) -> bytes | None:
    """Returns the id, as 16 bytes, of the customer under whose data key an event's JSON is sealed, None if nothing
    is sealed.

    Raises SealBroken.
    """
    if not data.startswith(_MEMBER):
        return None
    try:
        beginning = binascii.a2b_base64(data[_BEGINNING], strict_mode=True)
    except ValueError:
        raise SealBroken("a sealed box is not base64") from None
    if beginning[:1] != _FORMAT:
        raise SealBroken(f"a sealed box has the format {beginning[:1].hex()}, which this release does not know")
    return beginning[_CUSTOMER]
