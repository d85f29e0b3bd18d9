"""The deciders of a merchant: registration, settings, API keys.

Check the bounds of settings here only: every reader of a setting relies on these checks.
"""

from __future__ import annotations

from typing import Final

from msgspec import UNSET

from ledger.domain.merchants.commands import ChangeSettings, IssueApiKey, RegisterMerchant, RevokeApiKey
from ledger.domain.merchants.events import (
    ApiKeyIssued,
    ApiKeyRevoked,
    MerchantEvent,
    MerchantRegistered,
    MerchantSettingsChanged,
)
from ledger.domain.merchants.state import Merchant
from ledger.domain.money import shortest
from ledger.domain.rejections import ApiKeyNotFound, InvalidField

_RATE_MAX: Final = 50  # at 50 % a surcharge can round up to the subtotal, and half a capture could cover the order
_NAME_MAX: Final = 255
_DELAY_MAX_S: Final = 7 * 24 * 3600  # as long as an authorisation is valid (contract 2.1)
_REQUESTS_MAX: Final = 1_000_000


def decide_registration(merchant: Merchant | None, command: RegisterMerchant) -> list[MerchantEvent]:
    """Registers a merchant. Returns no events where it is registered already. Raises InvalidField for `name`."""
    if merchant is not None:
        return []
    name = command.name.strip()
    if not 0 < len(name) <= _NAME_MAX or not name.isprintable():
        raise InvalidField("name", f"must have 1 to {_NAME_MAX} printable characters")
    return [MerchantRegistered(merchant_id=command.merchant_id, name=name, at=command.at)]


def decide_settings(merchant: Merchant, command: ChangeSettings) -> list[MerchantEvent]:
    """Changes the settings that differ; returns no events where none does. Raises InvalidField with the public name."""
    _require_valid_surcharge(command)
    _require_valid_limits(command)
    fields = [field for field in ChangeSettings.__struct_fields__ if field != "at"]
    given = {field: value for field in fields if (value := getattr(command, field)) is not UNSET}
    if command.surcharge_rate:
        given["surcharge_rate"] = shortest(command.surcharge_rate)
    elif command.surcharge_rate is not UNSET:
        given["surcharge_rate"] = None  # a rate of zero means no surcharge: orders show null for both
    changed = {field: value for field, value in given.items() if value != getattr(merchant, field)}
    return [MerchantSettingsChanged(merchant_id=merchant.merchant_id, at=command.at, **changed)] if changed else []


def decide_issue(merchant: Merchant, command: IssueApiKey) -> list[MerchantEvent]:
    """Issues a further API key; the existing keys stay valid. The same key id again is absorbed.

    Raises InvalidField for `expiresAt`.
    """
    if any(key.key_id == command.key_id for key in merchant.keys):
        return []
    if command.expires_at is not None and command.expires_at <= command.at:
        raise InvalidField("expiresAt", "must be later than now: a key cannot expire before it is issued")
    return [
        ApiKeyIssued(
            merchant_id=merchant.merchant_id,
            key_id=command.key_id,
            key_hash=command.key_hash,
            hint=command.hint,
            at=command.at,
            name=command.name,
            scopes=command.scopes,
            expires_at=command.expires_at,
        )
    ]


def decide_revocation(merchant: Merchant, command: RevokeApiKey) -> list[MerchantEvent]:
    """Revokes an API key; returns no events where it is revoked already. Raises ApiKeyNotFound."""
    key = next((key for key in merchant.keys if key.key_id == command.key_id), None)
    if key is None:
        raise ApiKeyNotFound("The merchant has no such API key.")
    if key.revoked_at is not None:
        return []
    return [ApiKeyRevoked(merchant_id=merchant.merchant_id, key_id=command.key_id, at=command.at)]


def _require_valid_surcharge(command: ChangeSettings) -> None:
    rate = command.surcharge_rate
    if (
        rate is not UNSET
        and rate is not None
        and not (rate.is_finite() and 0 <= rate < _RATE_MAX and rate == round(rate, 4))
    ):
        raise InvalidField("surchargeRate", f"must be a percentage below {_RATE_MAX} with at most four decimals")
    for name, methods in (("surchargeMethods", command.surcharge_methods), ("paymentMethods", command.payment_methods)):
        if methods is not UNSET and not methods:
            raise InvalidField(name, "must name at least one payment method")


def _require_valid_limits(command: ChangeSettings) -> None:
    for name, limit, maximum in (
        ("requestsPerMinute", command.requests_per_minute, _REQUESTS_MAX),
        ("requestsPerSecond", command.requests_per_second, _REQUESTS_MAX),
        ("captureDelaySeconds", command.capture_delay_seconds, _DELAY_MAX_S),
    ):
        if limit is not UNSET and not 0 <= limit <= maximum:
            raise InvalidField(name, f"must be a whole number from 0 to {maximum}")
