"""What is true of a merchant: its settings and its API keys.

The rule a stranger would break: the defaults below are what every merchant has who never changed a setting. Another
default is another behaviour for all of them, and so a decision to announce.
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from uuid import UUID

from msgspec import Struct

from ledger.domain.merchants.events import InvoiceTrigger
from ledger.domain.orders.terms import MethodType


class ApiKey(Struct, frozen=True, kw_only=True):
    """A key that speaks, or spoke, for the merchant. Several may live at once, so that one can replace another."""

    key_id: UUID
    key_hash: str
    hint: str
    issued_at: datetime
    name: str | None = None
    scopes: tuple[str, ...] = ()
    expires_at: datetime | None = None
    revoked_at: datetime | None = None


class Merchant(Struct, frozen=True, kw_only=True):
    """A merchant and the terms it works on.

    The surcharge is off until the merchant switches it on: in Mexico it is unlawful for consumer sales (contract 4.1).
    Limits are requests per API key, 0 for none, None for what the installation allows. Without payer authentication a card is captured at once;
    `capture_delay_seconds` is for payments with it.
    """

    merchant_id: UUID
    name: str
    registered_at: datetime
    updated_at: datetime
    surcharge_rate: Decimal | None = None
    surcharge_methods: tuple[MethodType, ...] = (MethodType.CARD,)
    payment_methods: tuple[MethodType, ...] = tuple(MethodType)
    time_zone: str = "America/Mexico_City"
    require_merchant_header: bool = False
    requests_per_minute: int | None = None
    requests_per_second: int | None = None
    capture_delay_seconds: int = 5
    invoice_trigger: InvoiceTrigger = InvoiceTrigger.FIRST_CAPTURE
    refund_overpayment: bool = False
    keys: tuple[ApiKey, ...] = ()
