"""The fold of a customer: its details after one more event.

Keep UNSET and None apart: UNSET means that the event leaves the detail as it is, None sets it to null.
"""

from __future__ import annotations

from typing import assert_never

from msgspec import UNSET
from msgspec.structs import replace

from ledger.domain.customers.details import DETAILS
from ledger.domain.customers.events import (
    CustomerCreated,
    CustomerDetailsChanged,
    CustomerErased,
    CustomerEvent,
    CustomerFiscalDataChanged,
    CustomerMetadataChanged,
    CustomerSourceChanged,
    NotificationPreferences,
    NotificationPreferencesChanged,
)
from ledger.domain.customers.state import Customer


def evolve(customer: Customer | None, event: CustomerEvent) -> Customer:
    """Returns the customer after `event`. `customer` is None before `CustomerCreated`."""
    if isinstance(event, CustomerCreated):
        return _created(event)
    assert customer is not None, "a stream begins with its creation"
    match event:
        case CustomerDetailsChanged():
            changed = {name: value for name in DETAILS if (value := getattr(event, name)) is not UNSET}
            return replace(customer, updated_at=event.at, **changed)
        case CustomerSourceChanged():
            return replace(customer, updated_at=event.at, source_id=event.source_id)
        case CustomerMetadataChanged():
            return replace(customer, updated_at=event.at, metadata=event.metadata)
        case NotificationPreferencesChanged():
            preferences = NotificationPreferences() if event.preferences is None else event.preferences
            return replace(customer, updated_at=event.at, preferences=preferences)
        case CustomerFiscalDataChanged():
            return replace(customer, updated_at=event.at, fiscal=event.fiscal)
        case CustomerErased():
            return replace(
                customer,
                active=False,
                erased=True,
                updated_at=event.at,
                metadata=UNSET,
                preferences=NotificationPreferences(),
                fiscal=None,
                **dict.fromkeys(DETAILS),
            )
        case _:
            assert_never(event)


def _created(event: CustomerCreated) -> Customer:
    return Customer(
        customer_id=event.customer_id,
        external_id=event.external_id,
        created_at=event.at,
        updated_at=event.at,
        first_name=event.first_name,
        last_name=event.last_name,
        email=event.email,
        phone_number=event.phone_number,
        source_id=event.source_id,
        metadata=event.metadata,
    )
