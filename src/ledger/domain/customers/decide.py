"""The deciders of a customer.

Never overwrite a field that the request leaves out: only fields that are given and differ are recorded. If none
differs, there is no event.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from msgspec import UNSET

from ledger.domain.customers.commands import ChangeCustomer, CreateCustomer, EraseCustomer, UpsertCustomer
from ledger.domain.customers.details import DETAILS, GivenDetails
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
from ledger.domain.fiscal_data import is_same
from ledger.domain.rejections import CustomerNotFound, DuplicateExternalId, InvalidField, refuse_fields


def decide_upsert(customer: Customer | None, command: UpsertCustomer) -> list[CustomerEvent]:
    """Creates the customer of an order, or records the details that the order changes (contract N8, N9).

    Returns no events if every given detail has its value already.
    """
    assert customer is None or not customer.erased, "a search never finds an erased customer"
    if customer is None:
        return [
            CustomerCreated(
                customer_id=command.customer_id,
                external_id=command.external_id,
                at=command.at,
                **_given(command.details),
            )
        ]
    return _changed_details(customer, command.details, command.at)


def decide_create(customer: Customer | None, command: CreateCustomer) -> list[CustomerEvent]:
    """Creates a customer; returns no events if it is created already (contract N61).

    Raises DuplicateExternalId if `customer` is another one, erased or not, with the external id (section 8).
    """
    if customer is not None and customer.customer_id == command.customer_id:
        return []
    if customer is not None:
        raise DuplicateExternalId(
            "Another customer has or had this externalId: change that customer or use another externalId.",
            field="externalId",
        )
    created = CustomerCreated(
        customer_id=command.customer_id,
        external_id=command.external_id,
        at=command.at,
        source_id=command.source_id,
        metadata=command.metadata,
        **_given(command),
    )
    customer_id, at = command.customer_id, command.at
    events: list[CustomerEvent] = [created]
    if command.preferences != NotificationPreferences():
        events.append(NotificationPreferencesChanged(customer_id=customer_id, at=at, preferences=command.preferences))
    if command.fiscal is not None:
        events.append(CustomerFiscalDataChanged(customer_id=customer_id, at=at, fiscal=command.fiscal))
    return events


def decide_change(customer: Customer, command: ChangeCustomer) -> list[CustomerEvent]:
    """Records the changed fields of a customer; returns no events if nothing differs.

    Raises CustomerNotFound if the customer is erased, InvalidField for `externalId` and `sourceId`.
    """
    if customer.erased:
        raise CustomerNotFound("The merchant has no customer with this id.")
    problems = []
    if command.external_id not in (UNSET, customer.external_id):
        problem = "cannot be changed: send the one that the customer has, or leave it out"
        problems.append(InvalidField("externalId", problem))
    if command.source_id == customer.customer_id:
        problems.append(InvalidField("sourceId", "must be another customer"))
    refuse_fields(problems)
    return [*_changed_details(customer, command, command.at), *_changed_extras(customer, command)]


def decide_erasure(customer: Customer, command: EraseCustomer) -> list[CustomerEvent]:
    """Erases the customer (contract N61). Returns no events if the customer is erased already."""
    return [] if customer.erased else [CustomerErased(customer_id=customer.customer_id, at=command.at)]


def _given(details: GivenDetails | CreateCustomer) -> dict[str, Any]:
    return {name: value for name in DETAILS if (value := getattr(details, name)) is not UNSET}


def _changed_details(customer: Customer, details: GivenDetails, at: datetime) -> list[CustomerEvent]:
    changed: dict[str, Any] = {
        name: given
        for name in DETAILS
        if (given := getattr(details, name)) is not UNSET and given != getattr(customer, name)
    }
    return [CustomerDetailsChanged(customer_id=customer.customer_id, at=at, **changed)] if changed else []


def _changed_extras(customer: Customer, command: ChangeCustomer) -> list[CustomerEvent]:
    """Returns the events of the source, the metadata, the preferences and the fiscal data, which no order changes."""
    customer_id, at = customer.customer_id, command.at
    events: list[CustomerEvent] = []
    if command.source_id not in (UNSET, customer.source_id):
        events.append(CustomerSourceChanged(customer_id=customer_id, at=at, source_id=command.source_id or None))
    if command.metadata is not UNSET:
        metadata = UNSET if command.metadata is None else command.metadata
        if metadata != customer.metadata:
            events.append(CustomerMetadataChanged(customer_id=customer_id, at=at, metadata=metadata))
    preferences = command.preferences
    if preferences is not UNSET:
        chosen = NotificationPreferences() if preferences is None else preferences
        if chosen != customer.preferences:
            events.append(NotificationPreferencesChanged(customer_id=customer_id, at=at, preferences=preferences))
    if command.fiscal is not UNSET and not is_same(command.fiscal, customer.fiscal):
        events.append(CustomerFiscalDataChanged(customer_id=customer_id, at=at, fiscal=command.fiscal))
    return events
