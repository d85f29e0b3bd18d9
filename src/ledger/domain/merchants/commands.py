"""The commands of a merchant. A setting that is UNSET was not given and keeps its value."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from uuid import UUID

from msgspec import UNSET, Struct, UnsetType

from ledger.domain.orders.invoices.terms import InvoiceTrigger
from ledger.domain.orders.terms import MethodType


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


class ChangeSettings(Struct, frozen=True, kw_only=True):
    """Changes settings of the merchant. `surcharge_rate` is in percent, None for no surcharge.

    The request limits are per API key, 0 for no limit. `exchange_rate` is in pesos for one dollar, None for none.
    """

    at: datetime
    surcharge_rate: Decimal | None | UnsetType = UNSET
    surcharge_methods: tuple[MethodType, ...] | UnsetType = UNSET
    payment_methods: tuple[MethodType, ...] | UnsetType = UNSET
    time_zone: str | UnsetType = UNSET
    require_merchant_header: bool | UnsetType = UNSET
    requests_per_minute: int | UnsetType = UNSET
    requests_per_second: int | UnsetType = UNSET
    capture_delay_seconds: int | UnsetType = UNSET
    invoice_trigger: InvoiceTrigger | UnsetType = UNSET
    refund_overpayment: bool | UnsetType = UNSET
    fractional_amounts: bool | UnsetType = UNSET
    exchange_rate: Decimal | None | UnsetType = UNSET
    receipt_due_day: int | UnsetType = UNSET
    reminder_days: tuple[int, ...] | UnsetType = UNSET


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
