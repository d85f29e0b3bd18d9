"""The state of a merchant: its settings and its API keys.

Treat the defaults below as published: they apply to every merchant that never changed the setting, so that a new
default changes the behaviour for all of them and has to be announced.
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Final
from uuid import UUID

from msgspec import Struct

from ledger.domain.orders.invoices.terms import InvoiceTrigger
from ledger.domain.orders.terms import MethodType

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
    """A merchant and its settings.

    A closed merchant has no valid key. `surcharge_rate` is in percent. It is None until the merchant sets it: in Mexico
    a surcharge is unlawful for consumer sales (contract 4.1). Limits are requests per API key: 0 for no limit, None for
    the installation's limit. `capture_delay_seconds` applies to card payments with payer authentication; others are
    captured at once.
    `exchange_rate` is in pesos for one dollar, for the invoices of orders that bring none. `receipt_due_day` is the day
    of the next month on which payment receipts are due (contract N47).
    Payers are reminded `reminder_days` before the due date of an order, 0 for the due date itself; without days they
    get no message about it.
    """

    merchant_id: UUID
    name: str
    registered_at: datetime
    updated_at: datetime
    closed_at: datetime | None = None
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
    fractional_amounts: bool = True
    exchange_rate: Decimal | None = None
    receipt_due_day: int = 5
    reminder_days: tuple[int, ...] = (3, 0)
    keys: tuple[ApiKey, ...] = ()
