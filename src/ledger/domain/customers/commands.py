"""The commands of a customer. A detail that is UNSET was absent from the request and keeps its value."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from msgspec import UNSET, Raw, Struct, UnsetType

from ledger.domain.customers.details import CustomerDetails, GivenDetails
from ledger.domain.customers.events import NotificationPreferences
from ledger.domain.fiscal_data import FiscalData


class UpsertCustomer(Struct, frozen=True, kw_only=True):
    """Creates the customer of a payment order if the external id is new, and else updates the customer's details.

    `customer_id` and `external_id` are used for a new customer only.
    """

    customer_id: UUID
    external_id: str
    at: datetime
    details: GivenDetails = GivenDetails()


class CreateCustomer(CustomerDetails, frozen=True, kw_only=True):
    """Creates a customer (contract N61). `source_id` is the service id of a customer that exists."""

    customer_id: UUID
    external_id: str
    at: datetime
    preferences: NotificationPreferences = NotificationPreferences()
    fiscal: FiscalData | None = None


class ChangeCustomer(GivenDetails, frozen=True, kw_only=True):
    """Changes a customer (contract N61). None sets a field to null, and the preferences to their defaults. Fiscal data
    are replaced as a whole.

    `external_id`, if given, is what the customer has already: it never changes.
    """

    at: datetime
    external_id: str | UnsetType = UNSET
    source_id: UUID | None | UnsetType = UNSET
    metadata: Raw | None | UnsetType = UNSET
    preferences: NotificationPreferences | None | UnsetType = UNSET
    fiscal: FiscalData | None | UnsetType = UNSET


class EraseCustomer(Struct, frozen=True, kw_only=True):
    """Erases the personal data of a customer (contract N61)."""

    at: datetime
