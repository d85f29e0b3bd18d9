"""API keys: how one is made, what is kept of it, and what it may be allowed to do.

The rule a stranger would break: the secret is shown once and stored nowhere. What is kept is its HMAC-SHA256 under a
pepper that is not in the database, so that a copy of the tables neither holds a key nor lets anyone try guesses.
"""

from __future__ import annotations

import hmac
import secrets
from enum import StrEnum
from string import ascii_letters, digits
from typing import Final, NamedTuple

PREFIXES: Final = {"sandbox": "sk_test_", "production": "sk_live_"}
"""How a key begins in each environment (contract N74)."""

_ALPHABET: Final = digits + ascii_letters
_LENGTH: Final = 40  # of 62 characters each: 238 bits
_HINT: Final = 4


class Scope(StrEnum):
    """What a key may be limited to. A key without any scope may do everything."""

    ORDERS_READ = "orders:read"
    ORDERS_WRITE = "orders:write"


class NewKey(NamedTuple):
    """A key at the one moment when its secret is known. `hint` is for people who tell several keys apart."""

    secret: str
    key_hash: str
    hint: str


def new_key(environment: str, pepper: bytes) -> NewKey:
    """A fresh key for an environment, `sandbox` or `production`."""
    return known_key(PREFIXES[environment] + "".join(secrets.choice(_ALPHABET) for _ in range(_LENGTH)), pepper)


def known_key(secret: str, pepper: bytes) -> NewKey:
    """A key whose secret is known already."""
    return NewKey(secret, hash_key(secret, pepper), secret[-_HINT:])


def hash_key(secret: str, pepper: bytes) -> str:
    """What is stored of a key: HMAC-SHA256 under the installation's pepper, in hex."""
    return hmac.digest(pepper, secret.encode(), "sha256").hex()
