"""The state of a merchant: its settings and its API keys."""

from __future__ import annotations

from datetime import datetime
from typing import Final
from uuid import UUID

from msgspec import Struct

from ledger.domain.merchants.settings import MerchantSettings

MANAGES_KEYS: Final = "keys"
"""The scope of a key that may list, issue, rotate and revoke keys."""


class ApiKey(Struct, frozen=True, kw_only=True):
    """An API key of the merchant, valid or not. Several can be valid at once, so that one can replace another.

    Without scopes it allows everything. `expires_at` is real time; `replaced_by` is the key that took its place.
    """

    key_id: UUID
    key_hash: str
    hint: str
    issued_at: datetime
    name: str | None = None
    scopes: tuple[str, ...] = ()
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    replaced_by: UUID | None = None

    def is_valid(self, real_at: datetime) -> bool:
        """Returns whether requests with the key are accepted at this real time."""
        return self.revoked_at is None and (self.expires_at is None or self.expires_at > real_at)

    def allows(self, scope: str) -> bool:
        """Returns whether the key was issued for this scope, or for everything."""
        return not self.scopes or scope in self.scopes


class Merchant(Struct, frozen=True, kw_only=True):
    """A merchant, its settings and its API keys. A closed merchant has no valid key."""

    merchant_id: UUID
    name: str
    registered_at: datetime
    updated_at: datetime
    closed_at: datetime | None = None
    settings: MerchantSettings = MerchantSettings()
    keys: tuple[ApiKey, ...] = ()
