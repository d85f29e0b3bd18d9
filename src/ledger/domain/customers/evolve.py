"""The fold of a customer: its details after one more event.

Keep UNSET and None apart: UNSET means that the event leaves the detail as it is, None sets it to null.
"""

from __future__ import annotations

from typing import assert_never

from msgspec import UNSET
from msgspec.structs import replace

from ledger.domain.customers.events import CustomerCreated, CustomerDetailsChanged, CustomerErased, CustomerEvent
from ledger.domain.customers.state import DETAILS, Customer


def evolve(customer: Customer | None, event: CustomerEvent) -> Customer:
    """Returns the customer after `event`. `customer` is None before `CustomerCreated`."""
    match event:
        case CustomerCreated():
            return _created(event)
        case CustomerDetailsChanged():
            assert customer is not None, "a stream begins with its creation"
            changed = {name: value for name in DETAILS if (value := getattr(event, name)) is not UNSET}
            return replace(customer, updated_at=event.at, **changed)
        case CustomerErased():
            assert customer is not None, "a stream begins with its creation"
            return replace(customer, active=False, erased=True, updated_at=event.at, **dict.fromkeys(DETAILS))
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
    )
