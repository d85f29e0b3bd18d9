"""The fold of a merchant: its settings and API keys after one more event.

Keep a revoked key, with the time of its revocation: the log still names it.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, assert_never

from msgspec.structs import replace

from ledger.domain.merchants.events import (
    ApiKeyIssued,
    ApiKeyRevoked,
    ApiKeyRotated,
    MerchantClosed,
    MerchantEvent,
    MerchantRegistered,
    MerchantRenamed,
    MerchantSettingsChanged,
)
from ledger.domain.merchants.settings import MerchantSettings, given
from ledger.domain.merchants.state import ApiKey, Merchant


def evolve(merchant: Merchant | None, event: MerchantEvent) -> Merchant:
    """Returns the merchant after `event`. `merchant` is None before `MerchantRegistered`."""
    if isinstance(event, MerchantRegistered):
        return Merchant(merchant_id=event.merchant_id, name=event.name, registered_at=event.at, updated_at=event.at)
    assert merchant is not None, "a stream begins with its registration"
    match event:
        case MerchantSettingsChanged():
            return replace(merchant, updated_at=event.at, settings=_changed(merchant.settings, event))
        case MerchantRenamed():
            return replace(merchant, updated_at=event.at, name=event.name)
        case MerchantClosed():
            return replace(merchant, updated_at=event.at, closed_at=event.at, keys=_revoked(merchant.keys, event.at))
        case ApiKeyIssued():
            return replace(merchant, updated_at=event.at, keys=(*merchant.keys, _issued(event)))
        case ApiKeyRevoked():
            return _with_key(merchant, event, revoked_at=event.at)
        case ApiKeyRotated():
            return _with_key(merchant, event, replaced_by=event.replaced_by, expires_at=event.expires_at)
        case _:
            assert_never(event)


def _changed(settings: MerchantSettings, event: MerchantSettingsChanged) -> MerchantSettings:
    return replace(settings, **{each.field: each.kind.from_stored(value) for each, value in given(event)})


def _issued(event: ApiKeyIssued) -> ApiKey:
    return ApiKey(
        key_id=event.key_id,
        key_hash=event.key_hash,
        hint=event.hint,
        issued_at=event.at,
        name=event.name,
        scopes=event.scopes,
        expires_at=event.expires_at,
    )


def _revoked(keys: tuple[ApiKey, ...], at: datetime) -> tuple[ApiKey, ...]:
    return tuple(replace(key, revoked_at=at) if key.revoked_at is None else key for key in keys)


def _with_key(merchant: Merchant, event: ApiKeyRevoked | ApiKeyRotated, **changes: Any) -> Merchant:
    keys = tuple(replace(key, **changes) if key.key_id == event.key_id else key for key in merchant.keys)
    return replace(merchant, updated_at=event.at, keys=keys)
