"""The deciders of a merchant: registration, name, closing, settings, API keys.

Let a key give only what it has itself: a limited key could otherwise make itself an unlimited one.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from ledger.domain.fold import fold
from ledger.domain.merchants.commands import (
    ChangeSettings,
    CloseMerchant,
    IssueApiKey,
    RegisterMerchant,
    RenameMerchant,
    RevokeApiKey,
    RotateApiKey,
)
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
from ledger.domain.merchants.evolve import evolve
from ledger.domain.merchants.settings import given
from ledger.domain.merchants.state import MANAGES_KEYS, ApiKey, Merchant
from ledger.domain.rejections import (
    ActingKeyEnded,
    ApiKeyLimitReached,
    ApiKeyNotActive,
    ApiKeyNotFound,
    InsufficientScope,
    InvalidField,
    LastManagingKey,
    MerchantIsClosed,
    refuse_fields,
)

_NAME_MAX: Final = 255

_MANAGER_VALIDITY: Final = timedelta(days=1)

KEYS_MAX: Final = 100
"""The most valid API keys of a merchant. All keys are part of the merchant's state, and each has a rate of its own."""


def decide_registration(merchant: Merchant | None, command: RegisterMerchant) -> list[MerchantEvent]:
    """Registers a merchant. Returns no events if it is registered already. Raises InvalidField for `name`."""
    if merchant is not None:
        return []
    return [MerchantRegistered(merchant_id=command.merchant_id, name=_name_of(command), at=command.at)]


def decide_renaming(merchant: Merchant, command: RenameMerchant) -> list[MerchantEvent]:
    """Renames a merchant, closed or not. Returns no events if it has the name. Raises InvalidField for `name`."""
    name = _name_of(command)
    return (
        [] if name == merchant.name else [MerchantRenamed(merchant_id=merchant.merchant_id, name=name, at=command.at)]
    )


def decide_closing(merchant: Merchant, command: CloseMerchant) -> list[MerchantEvent]:
    """Closes a merchant. Returns no events if it is closed already."""
    return [] if merchant.closed_at else [MerchantClosed(merchant_id=merchant.merchant_id, at=command.at)]


def decide_settings(merchant: Merchant, command: ChangeSettings) -> list[MerchantEvent]:
    """Changes the settings that differ; returns no events if none does. Raises InvalidField with the public
    name of every setting that is out of bounds.
    """
    values = given(command)
    refuse_fields([InvalidField(each.name, each.kind.choices) for each, value in values if not each.kind.allows(value)])
    normal = {setting.field: setting.kind.normal(value) for setting, value in values}
    changed = {field: value for field, value in normal.items() if value != getattr(merchant.settings, field)}
    return [MerchantSettingsChanged(merchant_id=merchant.merchant_id, at=command.at, **changed)] if changed else []


def decide_issue(merchant: Merchant, command: IssueApiKey) -> list[MerchantEvent]:
    """Issues a further API key; the existing keys stay valid. The same key id again is absorbed.

    Raises ActingKeyEnded, InsufficientScope; InvalidField for `name` and `expiresAt`; MerchantIsClosed,
    ApiKeyLimitReached.
    """
    if _key(merchant, command.key_id) is not None:
        return []
    _require_may_give(merchant, command, command.scopes, command.expires_at)
    _require_valid_key(command)
    _require_room(merchant, command.real_at)
    return [_issued(merchant, command, command.name, command.scopes, command.expires_at)]


def decide_rotation(merchant: Merchant, command: RotateApiKey) -> list[MerchantEvent]:
    """Issues a key in the place of another, which then expires. The same new key id again is absorbed.

    Raises ActingKeyEnded, ApiKeyNotFound, ApiKeyNotActive, InsufficientScope; InvalidField for `name` and `expiresAt`;
    ApiKeyLimitReached; for a request with a key also LastManagingKey.
    """
    if _key(merchant, command.key_id) is not None:
        return []
    _require_active(merchant, command.acting_key_id, command.real_at)
    old = _known_key(merchant, command.replaced_id)
    if not old.is_valid(command.real_at):
        raise ApiKeyNotActive("The API key is revoked or has expired: create another key instead.")
    expires_at = old.expires_at if command.expires_at is None else command.expires_at
    _require_may_give(merchant, command, old.scopes, expires_at)
    _require_valid_key(command)
    _require_room(merchant, command.real_at)
    until = command.replaced_until if old.expires_at is None else min(command.replaced_until, old.expires_at)
    events: list[MerchantEvent] = [
        _issued(merchant, command, old.name if command.name is None else command.name, old.scopes, expires_at),
        ApiKeyRotated(
            merchant_id=merchant.merchant_id,
            key_id=old.key_id,
            replaced_by=command.key_id,
            expires_at=until,
            at=command.at,
        ),
    ]
    _require_manager(merchant, events, command)
    return events


def decide_revocation(merchant: Merchant, command: RevokeApiKey) -> list[MerchantEvent]:
    """Revokes an API key; returns no events if it is revoked already.

    Raises ApiKeyNotFound; for a request with a key also ActingKeyEnded and LastManagingKey. An operator can revoke
    every key.
    """
    key = _key(merchant, command.key_id)
    if key is not None and key.revoked_at is not None:
        return []
    _require_active(merchant, command.acting_key_id, command.real_at)
    _known_key(merchant, command.key_id)
    events: list[MerchantEvent] = [
        ApiKeyRevoked(merchant_id=merchant.merchant_id, key_id=command.key_id, at=command.at)
    ]
    _require_manager(merchant, events, command)
    return events


def _name_of(command: RegisterMerchant | RenameMerchant) -> str:
    name = command.name.strip()
    if not 0 < len(name) <= _NAME_MAX or not name.isprintable():
        raise InvalidField("name", f"must have 1 to {_NAME_MAX} printable characters")
    return name


def _issued(
    merchant: Merchant,
    command: IssueApiKey | RotateApiKey,
    name: str | None,
    scopes: tuple[str, ...],
    expires_at: datetime | None,
) -> ApiKeyIssued:
    return ApiKeyIssued(
        merchant_id=merchant.merchant_id,
        key_id=command.key_id,
        key_hash=command.key_hash,
        hint=command.hint,
        at=command.at,
        name=name,
        scopes=scopes,
        expires_at=expires_at,
    )


def _key(merchant: Merchant, key_id: UUID) -> ApiKey | None:
    return next((key for key in merchant.keys if key.key_id == key_id), None)


def _known_key(merchant: Merchant, key_id: UUID) -> ApiKey:
    key = _key(merchant, key_id)
    if key is None:
        raise ApiKeyNotFound("The merchant has no such API key.")
    return key


def _require_active(merchant: Merchant, acting_key_id: UUID | None, real_at: datetime) -> ApiKey | None:
    """Returns the key of the request, None for an operator. A process may have accepted it for a moment after its
    revocation; the commit must not.
    """
    if acting_key_id is None:
        return None
    key = _key(merchant, acting_key_id)
    if key is None or not key.is_valid(real_at):
        raise ActingKeyEnded("The API key is unknown or revoked: use another key.")
    return key


def _require_may_give(
    merchant: Merchant, command: IssueApiKey | RotateApiKey, scopes: tuple[str, ...], expires_at: datetime | None
) -> None:
    """Checks that the key of the request has what it gives: all scopes, and a validity as long."""
    giver = _require_active(merchant, command.acting_key_id, command.real_at)
    if giver is None:
        return
    lacking = [scope for scope in scopes if not giver.allows(scope)]
    if giver.scopes and (lacking or not scopes):
        problem = f"lacks {', '.join(lacking)}" if lacking else "does not allow everything"
        raise InsufficientScope(
            f"The API key of the request {problem}, and gives only what it has: send scopes among {', '.join(giver.scopes)}."
        )
    if giver.expires_at is not None and (expires_at is None or expires_at > giver.expires_at):
        raise InvalidField("expiresAt", "must not be later than the expiry of the API key that sends the request")


def _require_valid_key(command: IssueApiKey | RotateApiKey) -> None:
    problems = []
    if command.name is not None and not (0 < len(command.name) <= _NAME_MAX and command.name.isprintable()):
        problems.append(InvalidField("name", f"must have 1 to {_NAME_MAX} printable characters"))
    if command.expires_at is not None and command.expires_at <= command.real_at:
        problems.append(InvalidField("expiresAt", "must be later than now: a key cannot expire before it is issued"))
    refuse_fields(problems)


def _require_manager(merchant: Merchant, events: Sequence[MerchantEvent], command: RotateApiKey | RevokeApiKey) -> None:
    """Checks that a merchant's request leaves a key that can issue whatever the merchant needs.

    Such a key has the scope `keys` and every scope of a valid key, and is valid for another day. Of a merchant without
    one, the last valid key that manages keys stays, and the last one that has every scope. Raises LastManagingKey.
    """
    if command.acting_key_id is None:
        return
    before = [key for key in merchant.keys if key.is_valid(command.real_at)]
    after = [key for key in fold(evolve, merchant, events).keys if key.is_valid(command.real_at)]
    if not any(key.allows(MANAGES_KEYS) for key in after) or any(
        _has_manager(before, before, until) and not _has_manager(after, before, until)
        for until in (command.real_at + _MANAGER_VALIDITY, command.real_at)
    ):
        raise LastManagingKey(
            "No other API key with the scope keys has every scope in use and is valid for another day: create such a key "
            "first."
        )


def _has_manager(keys: Sequence[ApiKey], given: Sequence[ApiKey], until: datetime) -> bool:
    """Returns whether one of these keys can issue keys until then, with all that the keys `given` allow."""
    return any(
        key.is_valid(until)
        and key.allows(MANAGES_KEYS)
        and all(not key.scopes or (each.scopes and all(map(key.allows, each.scopes))) for each in given)
        for key in keys
    )


def _require_room(merchant: Merchant, real_at: datetime) -> None:
    if merchant.closed_at is not None:
        raise MerchantIsClosed("The merchant is closed: no key is issued for it any more.")
    if sum(key.is_valid(real_at) for key in merchant.keys) >= KEYS_MAX:
        raise ApiKeyLimitReached(f"The merchant has {KEYS_MAX} valid API keys: revoke one that is no longer used.")
