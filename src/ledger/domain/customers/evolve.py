"""The fold of a customer: who a merchant says this is, after one more event.

The rule a stranger would break: UNSET is "not told" and None is "told to be empty"; only the first keeps what was there.
"""

from __future__ import annotations

from typing import assert_never

from msgspec import UNSET
from msgspec.structs import replace

from ledger.domain.customers.events import CustomerCreated, CustomerDetailsChanged, CustomerErased, CustomerEvent
from ledger.domain.customers.state import DETAILS, Customer


def evolve(customer: Customer | None, event: CustomerEvent) -> Customer:
    """The customer after `event`. None is a customer that does not exist yet; `CustomerCreated` is what follows it."""
    match event:
        case CustomerCreated():
            return _created(event)
        case CustomerDetailsChanged():
            assert customer is not None, "a stream begins with its creation"
            told = {name: value for name in DETAILS if (value := getattr(event, name)) is not UNSET}
            return replace(customer, updated_at=event.at, **told)
        case CustomerErased():
            assert customer is not None, "a stream begins with its creation"
            nobody = dict.fromkeys(DETAILS)
            return replace(customer, active=False, erased=True, updated_at=event.at, **nobody)
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
