"""The events of a customer: the storage format of its stream. Everything except the ids is personal data.

Topics and fields are permanent (see `ledger.domain.orders.events`). Name every field about the person in PERSONAL and
give it a default, which is its value after the person is erased.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final
from uuid import UUID

from msgspec import UNSET, Raw, Struct, UnsetType

from ledger.domain.customers.details import CustomerDetails, GivenDetails
from ledger.domain.fiscal_data import FiscalData


class CustomerCreated(CustomerDetails, frozen=True, omit_defaults=True):  # without kw_only, its own fields come first
    """A merchant named a customer for the first time. `external_id` is the merchant's own id of the customer."""

    customer_id: UUID
    external_id: str
    at: datetime


class CustomerDetailsChanged(GivenDetails, frozen=True, omit_defaults=True):
    """The merchant changed details of a customer. An absent field kept its value; null cleared it."""

    customer_id: UUID
    at: datetime


class CustomerSourceChanged(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The merchant changed the customer that this one was derived from; null: from none."""

    customer_id: UUID
    at: datetime
    source_id: UUID | None = None


class CustomerMetadataChanged(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The merchant replaced the metadata of a customer, or removed it where the field is absent."""

    customer_id: UUID
    at: datetime
    metadata: Raw | UnsetType = UNSET


class NotificationPreferences(Struct, frozen=True, kw_only=True, rename="camel"):
    """Which messages a customer wants, over which channels, and in which language (contract N49).

    Events store every field, so that a later change of a default leaves earlier choices as they are.
    """

    email: bool = True
    sms: bool = True
    whatsapp: bool = False
    payment_reminders: bool = True
    receipts: bool = True
    invoices: bool = True
    language: str = "es"


class NotificationPreferencesChanged(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The notification preferences of a customer changed. Null: to the defaults."""

    customer_id: UUID
    at: datetime
    preferences: NotificationPreferences | None = None


class CustomerFiscalDataChanged(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The merchant replaced the customer's fiscal data: the receiver of invoices. Null: the customer has none."""

    customer_id: UUID
    at: datetime
    fiscal: FiscalData | None = None


class CustomerErased(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The customer was erased. The commit of this event destroys the key of all their personal data."""

    customer_id: UUID
    at: datetime


CustomerEvent = (
    CustomerCreated
    | CustomerDetailsChanged
    | CustomerSourceChanged
    | CustomerMetadataChanged
    | NotificationPreferencesChanged
    | CustomerFiscalDataChanged
    | CustomerErased
)

TOPICS: Final[dict[str, type[Struct]]] = {
    "customer-created.v1": CustomerCreated,
    "customer-details-changed.v1": CustomerDetailsChanged,
    "customer-source-changed.v1": CustomerSourceChanged,
    "customer-metadata-changed.v1": CustomerMetadataChanged,
    "notification-preferences-changed.v1": NotificationPreferencesChanged,
    "customer-fiscal-data-changed.v1": CustomerFiscalDataChanged,
    "customer-erased.v1": CustomerErased,
}

PERSONAL: Final[dict[type[Struct], tuple[str, ...]]] = {
    CustomerCreated: ("first_name", "last_name", "email", "phone_number", "metadata"),
    CustomerDetailsChanged: ("first_name", "last_name", "email", "phone_number"),
    CustomerMetadataChanged: ("metadata",),
    NotificationPreferencesChanged: ("preferences",),
    CustomerFiscalDataChanged: ("fiscal",),
}
"""The fields that are stored sealed under the customer's data key. The merchant's own id of the customer stays
readable, because customers are found by it."""
