"""The state of a customer, folded from its events. Everything except the ids is personal data."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from ledger.domain.customers.details import CustomerDetails
from ledger.domain.customers.events import NotificationPreferences
from ledger.domain.fiscal_data import FiscalData


class Customer(CustomerDetails, frozen=True, kw_only=True):
    """A person or company that pays a merchant's orders. `external_id` is the merchant's own id of the customer.

    `fiscal` is the receiver of the invoices of orders that take it over.
    """

    customer_id: UUID
    external_id: str
    created_at: datetime
    updated_at: datetime
    preferences: NotificationPreferences = NotificationPreferences()
    fiscal: FiscalData | None = None
    active: bool = True
    erased: bool = False
