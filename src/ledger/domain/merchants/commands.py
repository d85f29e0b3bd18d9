"""What may be asked of a merchant. What is UNSET was not given and stays as it is."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from uuid import UUID

from msgspec import UNSET, Struct, UnsetType

from ledger.domain.merchants.events import InvoiceTrigger
from ledger.domain.orders.terms import MethodType


class RegisterMerchant(Struct, frozen=True, kw_only=True):
    """Let somebody collect money. Names need not be unique."""

    merchant_id: UUID
    name: str
    at: datetime


class ChangeSettings(Struct, frozen=True, kw_only=True):
    """Put the merchant on other terms. `surcharge_rate` in percent, None for no surcharge."""

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


class IssueApiKey(Struct, frozen=True, kw_only=True):
    """Let a key speak for the merchant. Only the keyed hash of its secret ever comes here."""

    key_id: UUID
    key_hash: str
    hint: str
    at: datetime
    name: str | None = None
    scopes: tuple[str, ...] = ()
    expires_at: datetime | None = None


class RevokeApiKey(Struct, frozen=True, kw_only=True):
    """Let a key no longer speak for the merchant."""

    key_id: UUID
    at: datetime
