"""The state of a customer, folded from its events. Everything except the ids is personal data."""

from __future__ import annotations

from datetime import datetime
from typing import Final
from uuid import UUID

from msgspec import Raw, Struct

from ledger.domain.customers.events import NotificationPreferences

DETAILS: Final = ("first_name", "last_name", "email", "phone_number")
"""The details of its customer that an order can contain."""


class Customer(Struct, frozen=True, kw_only=True):
    """A person or company that pays a merchant's orders. `external_id` is the merchant's own id of the customer."""

    customer_id: UUID
    external_id: str
    created_at: datetime
    updated_at: datetime
    first_name: str | None = None
    last_name: str | None = None
    email: str | None = None
    phone_number: str | None = None
    source_id: UUID | None = None
    metadata: Raw | None = None
    preferences: NotificationPreferences = NotificationPreferences()
    active: bool = True
    erased: bool = False
