"""The events of a merchant: registration, settings, API keys. The storage format of its stream.

Topics and fields are permanent (see `ledger.domain.orders.events`), those of the settings included. Never store a key's
secret, only its keyed hash.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final
from uuid import UUID

from msgspec import UNSET, Struct, UnsetType

from ledger.domain.merchants.settings import SETTINGS, Setting, with_settings


class MerchantRegistered(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A merchant was registered and can collect money."""

    merchant_id: UUID
    name: str
    at: datetime


def _stored_order(setting: Setting) -> int:
    """Returns the rank of a setting's field. The payment methods come after the time zone in stored events:
    equal events must have equal bytes.
    """
    first = ("surcharge_rate", "surcharge_methods", "time_zone", "payment_methods")
    return first.index(setting.field) if setting.field in first else len(first)


@with_settings(lambda setting: (setting.stored | UnsetType, UNSET), sorted(SETTINGS.values(), key=_stored_order))
class MerchantSettingsChanged(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The merchant's settings changed. An absent field kept its value.

    `surcharge_rate` is in percent, null for no surcharge. Methods are `MethodType` values. Limits are requests per API
    key, 0 for no limit. Where the payer was authenticated, a capture is due after `capture_delay_seconds`.
    `exchange_rate` is in pesos for one dollar, null for none. `receipt_due_day` is a day of the next month.
    A payer is reminded `reminder_days` before an order's due date; without days, never.
    """

    merchant_id: UUID
    at: datetime


class ApiKeyIssued(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """An API key was issued for the merchant. `key_hash` is HMAC-SHA256 under the installation's pepper, in hex.

    Without `scopes` it allows everything. `expires_at` is real time, also where the merchant's clock was moved.
    """

    merchant_id: UUID
    key_id: UUID
    key_hash: str
    hint: str
    at: datetime
    name: str | None = None
    scopes: tuple[str, ...] = ()
    expires_at: datetime | None = None


class ApiKeyRevoked(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """An API key of the merchant was revoked."""

    merchant_id: UUID
    key_id: UUID
    at: datetime


class ApiKeyRotated(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """Another API key of the merchant, `replaced_by`, took the place of this one, which expires at `expires_at`.

    `expires_at` is real time, also where the merchant's clock was moved.
    """

    merchant_id: UUID
    key_id: UUID
    replaced_by: UUID
    expires_at: datetime
    at: datetime


class MerchantRenamed(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The merchant got another name."""

    merchant_id: UUID
    name: str
    at: datetime


class MerchantClosed(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """An operator closed the merchant: all its API keys are revoked at `at`, and none is issued afterwards."""

    merchant_id: UUID
    at: datetime


MerchantEvent = (
    MerchantRegistered
    | MerchantRenamed
    | MerchantClosed
    | MerchantSettingsChanged
    | ApiKeyIssued
    | ApiKeyRevoked
    | ApiKeyRotated
)

TOPICS: Final[dict[str, type[Struct]]] = {
    "merchant-registered.v1": MerchantRegistered,
    "merchant-renamed.v1": MerchantRenamed,
    "merchant-closed.v1": MerchantClosed,
    "merchant-settings-changed.v1": MerchantSettingsChanged,
    "api-key-issued.v1": ApiKeyIssued,
    "api-key-revoked.v1": ApiKeyRevoked,
    "api-key-rotated.v1": ApiKeyRotated,
}
