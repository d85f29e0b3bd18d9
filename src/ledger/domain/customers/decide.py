"""What may happen to a customer.

The rule a stranger would break: an order never overwrites what it does not mention. Only details that were told and
differ are recorded, and where none is, there is no event.
"""

from __future__ import annotations

from msgspec import UNSET

from ledger.domain.customers.commands import EraseCustomer, UpsertCustomer
from ledger.domain.customers.events import CustomerCreated, CustomerDetailsChanged, CustomerErased, CustomerEvent
from ledger.domain.customers.state import DETAILS, Customer


def decide_upsert(customer: Customer | None, command: UpsertCustomer) -> list[CustomerEvent]:
    """The customer that an order brings along: made where it is new, else brought up to date (contract N8, N9)."""
    assert customer is None or not customer.erased, "a person that was forgotten is not found"
    told = {name: value for name in DETAILS if (value := getattr(command, name)) is not UNSET}
    if customer is None:
        return [
            CustomerCreated(customer_id=command.customer_id, external_id=command.external_id, at=command.at, **told)
        ]
    changed = {name: value for name, value in told.items() if value != getattr(customer, name)}
    return [CustomerDetailsChanged(customer_id=customer.customer_id, at=command.at, **changed)] if changed else []


def decide_erasure(customer: Customer, command: EraseCustomer) -> list[CustomerEvent]:
    """Forget the person (contract N61). Once is enough."""
    return [] if customer.erased else [CustomerErased(customer_id=customer.customer_id, at=command.at)]
