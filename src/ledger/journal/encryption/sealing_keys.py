"""The keys that wrap the customers' data keys. A process may have several; the newest wraps.

A wrapped key names the key that wrapped it, and is bound to its customer. A row that is copied to another customer, or
that names another wrapping key, does not open.
"""

from __future__ import annotations

import hmac
import os
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Final
from uuid import UUID

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from ledger.journal.append import KeyUnavailable, SealBroken
from ledger.telemetry.unopened import note_unopened

DATA_KEY_BYTES: Final = 32
NONCE_BYTES: Final = 12
_LABEL: Final = b"payment-ledger data key v1\0"
_ID_LABEL: Final = b"payment-ledger sealing key id"

Draw = Callable[[int], bytes]
"""Returns that many random bytes."""


def sealing_key_id(key: bytes) -> str:
    """Returns a sealing key's id in the rows that it wraps.

    It is derived from the key, so that ids cannot be mixed up.
    """
    return hmac.digest(key, _ID_LABEL, sha256)[:8].hex()


class SealingKeys:
    """The sealing keys of this process, 32 bytes each, newest first. Prints as stars."""

    def __init__(self, keys: Sequence[bytes], draw: Draw = os.urandom, *, holder: str = "customer") -> None:
        """`holder` is what owns a wrapped key, in error texts."""
        assert keys, "an installation has a sealing key"
        self._holder = holder
        self._ciphers = {sealing_key_id(key): AESGCM(key) for key in keys}
        self._draw = draw
        self.newest = sealing_key_id(keys[0])

    @property
    def ids(self) -> frozenset[str]:
        """The ids of the keys."""
        return frozenset(self._ciphers)

    def wrap(self, merchant_id: UUID, customer_id: UUID, data_key: bytes) -> bytes:
        """Returns a data key under the newest sealing key: nonce and ciphertext, for the row of this customer only."""
        nonce = self._draw(NONCE_BYTES)
        bound = _bound_to(self.newest, merchant_id, customer_id)
        return nonce + self._ciphers[self.newest].encrypt(nonce, data_key, bound)

    def unwrap(self, sealing_key: str, merchant_id: UUID, customer_id: UUID, wrapped: bytes) -> bytes:
        """Returns the data key in a row.

        Raises KeyUnavailable if its sealing key is missing, SealBroken if it is another row's.
        """
        cipher = self._ciphers.get(sealing_key)
        if cipher is None:
            note_unopened(self._holder, "missing")
            raise KeyUnavailable(
                f"{self._holder} {customer_id} is sealed under the sealing key {sealing_key}, which LEDGER_SEALING_KEYS "
                "lacks"
            )
        bound = _bound_to(sealing_key, merchant_id, customer_id)
        try:
            return cipher.decrypt(wrapped[:NONCE_BYTES], wrapped[NONCE_BYTES:], bound)
        except InvalidTag:
            note_unopened(self._holder, "broken")
            raise SealBroken(
                f"the data key of {self._holder} {customer_id} does not open under {sealing_key}"
            ) from None

    def __repr__(self) -> str:
        return "SealingKeys(***)"


def _bound_to(sealing_key: str, merchant_id: UUID, customer_id: UUID) -> bytes:
    return _LABEL + sealing_key.encode() + merchant_id.bytes + customer_id.bytes
