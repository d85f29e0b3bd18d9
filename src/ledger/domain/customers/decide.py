"""The deciders of a customer.

Never overwrite a detail that the order leaves out: only details that are given and differ are recorded. Where none
differs, there is no event.
"""

from __future__ import annotations

from msgspec import UNSET

from ledger.domain.customers.commands import EraseCustomer, UpsertCustomer
from ledger.domain.customers.events import CustomerCreated, CustomerDetailsChanged, CustomerErased, CustomerEvent
from ledger.domain.customers.state import DETAILS, Customer


def decide_upsert(customer: Customer | None, command: UpsertCustomer) -> list[CustomerEvent]:
    """Creates the customer of an order, or records the details that the order changes (contract N8, N9).

    Returns no events where every given detail has its value already.
    """
    assert customer is None or not customer.erased, "a search never finds an erased customer"
    given = {name: value for name in DETAILS if (value := getattr(command, name)) is not UNSET}
    if customer is None:
        return [
            CustomerCreated(customer_id=command.customer_id, external_id=command.external_id, at=command.at, **given)
        ]
    changed = {name: value for name, value in given.items() if value != getattr(customer, name)}
    return [CustomerDetailsChanged(customer_id=customer.customer_id, at=command.at, **changed)] if changed else []


def decide_erasure(customer: Customer, command: EraseCustomer) -> list[CustomerEvent]:
    """Erases the customer (contract N61). Returns no events where the customer is erased already."""
    return [] if customer.erased else [CustomerErased(customer_id=customer.customer_id, at=command.at)]
