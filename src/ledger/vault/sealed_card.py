"""One card number, sealed under a key of its own (envelope encryption), and the fingerprint that finds it again.

A sealed number is bound to its merchant and its payment method: a row that is copied to another does not open. The
card's key is wrapped by a sealing key of the installation, so that a new sealing key changes wrappings alone.
"""

from __future__ import annotations

import hmac
import os
from hashlib import sha256
from typing import Final
from uuid import UUID

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from msgspec import Struct

from ledger.journal.append import SealBroken
from ledger.journal.encryption.sealing_keys import DATA_KEY_BYTES, NONCE_BYTES, SealingKeys
from ledger.telemetry.unopened import note_unopened

_LABEL: Final = b"payment-ledger card number v1\0"
_FINGERPRINT_LABEL: Final = b"payment-ledger card fingerprint v1\0"
_LENGTH: Final = 19
"""Every number is sealed at this length, the longest, so that the ciphertext does not show its own."""


class SealedCard(Struct, frozen=True):
    """The stored form of a number: the number sealed under the card's key, and that key wrapped by a sealing key."""

    sealing_key_id: str
    wrapped_key: bytes
    sealed_number: bytes


def seal_card(keys: SealingKeys, merchant_id: UUID, payment_method_id: UUID, number: str) -> SealedCard:
    """Returns a number of 13 to 19 digits under a new key."""
    key, nonce = os.urandom(DATA_KEY_BYTES), os.urandom(NONCE_BYTES)
    bound = _bound_to(merchant_id, payment_method_id)
    sealed = AESGCM(key).encrypt(nonce, number.encode().ljust(_LENGTH, b" "), bound)
    return SealedCard(keys.newest, keys.wrap(merchant_id, payment_method_id, key), nonce + sealed)


def open_card(keys: SealingKeys, merchant_id: UUID, payment_method_id: UUID, card: SealedCard) -> str:
    """Returns the number in a row.

    Raises KeyUnavailable if its sealing key is missing, SealBroken if the row is another's.
    """
    key = keys.unwrap(card.sealing_key_id, merchant_id, payment_method_id, card.wrapped_key)
    nonce, sealed = card.sealed_number[:NONCE_BYTES], card.sealed_number[NONCE_BYTES:]
    try:
        return AESGCM(key).decrypt(nonce, sealed, _bound_to(merchant_id, payment_method_id)).decode().rstrip()
    except InvalidTag:
        note_unopened("payment method", "broken")
        raise SealBroken(f"the number of payment method {payment_method_id} does not open") from None


def fingerprint(key: bytes, merchant_id: UUID, customer_id: UUID, number: str) -> bytes:
    """Returns a keyed hash of a number for one customer (PCI DSS 3.5.1.1).

    If the first six and last four digits are known, a hash without a key is found by a hundred thousand guesses. The
    customer is part of the hash: equal hashes of two customers would link them.
    """
    about = _FINGERPRINT_LABEL + merchant_id.bytes + customer_id.bytes
    return hmac.digest(key, about + number.encode(), sha256)


def _bound_to(merchant_id: UUID, payment_method_id: UUID) -> bytes:
    return _LABEL + merchant_id.bytes + payment_method_id.bytes
