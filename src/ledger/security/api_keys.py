"""API keys: making one, the hash that is stored of it, and its scopes.

Never store the secret; show it once. The database has its HMAC-SHA256 under a pepper that is kept elsewhere, so that a
copy of the tables contains no key and allows no guessing.
"""

from __future__ import annotations

import hmac
import secrets
from enum import StrEnum
from string import ascii_letters, digits
from typing import Final, NamedTuple

from ledger.domain.merchants.state import MANAGES_KEYS

PREFIXES: Final = {"sandbox": "sk_test_", "production": "sk_live_"}
"""The beginning of a key in each environment (contract N74)."""

OVERLAP_S: Final = 24 * 3600
"""How long a key that was rotated stays valid, unless the request gives another time."""

OVERLAP_MAX_S: Final = 7 * 24 * 3600

_ALPHABET: Final = digits + ascii_letters
_LENGTH: Final = 40  # of 62 characters each: 238 bits
_HINT: Final = 4


class Scope(StrEnum):
    """What a key may be limited to (contract N74). A key without scopes allows everything.

    Some scopes belong to operations of a later release, so that keys can be issued for them before it is installed.
    """

    ORDERS_READ = "orders:read"
    ORDERS_WRITE = "orders:write"
    CUSTOMERS_READ = "customers:read"
    CUSTOMERS_WRITE = "customers:write"
    PRODUCTS = "products"
    KEYS = MANAGES_KEYS
    SETTINGS = "settings"
    FISCAL = "fiscal"
    SUBSCRIPTIONS = "subscriptions"
    EVENTS_READ = "events:read"
    WEBHOOKS = "webhooks"
    AUDIT = "audit"
    PROCESSORS = "processors"


class NewKey(NamedTuple):
    """A new key with its secret, which only its creation returns. `hint` helps people to distinguish several keys."""

    secret: str
    key_hash: str
    hint: str


def new_key(environment: str, pepper: bytes) -> NewKey:
    """Returns a new random key for an environment, `sandbox` or `production`."""
    return known_key(PREFIXES[environment] + "".join(secrets.choice(_ALPHABET) for _ in range(_LENGTH)), pepper)


def known_key(secret: str, pepper: bytes) -> NewKey:
    """Returns the key of a given secret."""
    return NewKey(secret, hash_key(secret, pepper), secret[-_HINT:])


def hash_key(secret: str, pepper: bytes) -> str:
    """Returns the stored hash of a key: its HMAC-SHA256 under the installation's pepper, in hex."""
    return hmac.digest(pepper, secret.encode(), "sha256").hex()
