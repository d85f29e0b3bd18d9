"""The commands of a merchant. A setting that is UNSET was not given and keeps its value."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from msgspec import UNSET, Struct, UnsetType

from ledger.domain.merchants.settings import with_settings


class RegisterMerchant(Struct, frozen=True, kw_only=True):
    """Registers a merchant, who can then collect money. Several merchants can have the same name."""

    merchant_id: UUID
    name: str
    at: datetime


class RenameMerchant(Struct, frozen=True, kw_only=True):
    """Gives the merchant another name."""

    name: str
    at: datetime


class CloseMerchant(Struct, frozen=True, kw_only=True):
    """Closes the merchant: revokes all its API keys for good."""

    at: datetime


@with_settings(lambda setting: (setting.type | UnsetType, UNSET))
class ChangeSettings(Struct, frozen=True, kw_only=True):
    """Changes settings of the merchant: it has a field for each."""

    at: datetime


class IssueApiKey(Struct, frozen=True, kw_only=True):
    """Issues an API key for the merchant. Only the keyed hash of its secret enters the core.

    `real_at` is the real time, by which keys expire; `at` is by the merchant's clock. `acting_key_id` is the key of the
    request, None for an operator, who may issue any key.
    """

    key_id: UUID
    key_hash: str
    hint: str
    at: datetime
    real_at: datetime
    name: str | None = None
    scopes: tuple[str, ...] = ()
    expires_at: datetime | None = None
    acting_key_id: UUID | None = None


class RotateApiKey(Struct, frozen=True, kw_only=True):
    """Issues an API key in the place of `replaced_id`, which stays valid until `replaced_until`, or its own expiry.

    The new key has the same scopes. It has the name and the expiry of the old one unless others are given.
    `replaced_until`, `expires_at` and `real_at` are real time. `acting_key_id` is as in `IssueApiKey`.
    """

    replaced_id: UUID
    replaced_until: datetime
    key_id: UUID
    key_hash: str
    hint: str
    at: datetime
    real_at: datetime
    name: str | None = None
    expires_at: datetime | None = None
    acting_key_id: UUID | None = None


class RevokeApiKey(Struct, frozen=True, kw_only=True):
    """Revokes an API key of the merchant. `real_at` and `acting_key_id` are as in `IssueApiKey`."""

    key_id: UUID
    at: datetime
    real_at: datetime
    acting_key_id: UUID | None = None
