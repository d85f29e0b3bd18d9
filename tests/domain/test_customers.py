"""The customer: creation, alone or with an order, changes, erasure."""

from __future__ import annotations

from datetime import timedelta
from typing import get_args

import pytest
from msgspec import UNSET, Raw
from tests.domain.builders import CUSTOMER, NOON, ORDER
from tests.domain.scenario import given

from ledger.domain.customers.commands import ChangeCustomer, CreateCustomer, EraseCustomer, UpsertCustomer
from ledger.domain.customers.details import GivenDetails
from ledger.domain.customers.events import (
    TOPICS,
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
from ledger.domain.fiscal_data import FiscalData
from ledger.domain.rejections import CustomerNotFound, DuplicateExternalId, InvalidField

LATER = NOON + timedelta(hours=1)


def introduce(**details):
    return UpsertCustomer(customer_id=CUSTOMER, external_id="cliente-7", at=LATER, details=GivenDetails(**details))


ANA = CustomerCreated(customer_id=CUSTOMER, external_id="cliente-7", at=NOON, first_name="Ana", email="ana@example.com")


def changed(**details):
    return CustomerDetailsChanged(customer_id=CUSTOMER, at=LATER, **details)


def test_a_new_customer_is_created_with_the_given_details():
    customer = (
        given()
        .when(introduce(first_name="Ana"))
        .then(CustomerCreated(customer_id=CUSTOMER, external_id="cliente-7", at=LATER, first_name="Ana"))
    )
    assert (customer.first_name, customer.email, customer.active) == ("Ana", None, True)
    assert customer.created_at == customer.updated_at == LATER


def test_only_differing_details_of_an_existing_customer_are_recorded():
    customer = (
        given(ANA)
        .when(introduce(first_name="Ana", email="ana.lopez@example.com"))
        .then(changed(email="ana.lopez@example.com"))
    )
    assert (customer.first_name, customer.email) == ("Ana", "ana.lopez@example.com")
    assert (customer.created_at, customer.updated_at) == (NOON, LATER)


def test_an_existing_customer_without_differing_details_is_unchanged():
    given(ANA).when(introduce(first_name="Ana", email="ana@example.com")).then()
    given(ANA).when(introduce()).then()


def test_a_null_detail_is_cleared_and_an_absent_one_is_kept():
    customer = given(ANA).when(introduce(email=None)).then(changed(email=None))
    assert (customer.first_name, customer.email) == ("Ana", None)


def test_the_ids_of_an_existing_customer_do_not_change():
    customer = given(ANA).when(introduce(phone_number="+525500000000")).then(changed(phone_number="+525500000000"))
    assert (customer.customer_id, customer.external_id) == (CUSTOMER, "cliente-7")


def test_fiscal_data_are_replaced_as_a_whole_and_cleared_by_null():
    fiscal, other = FiscalData(tax_id="EKU9003173C9", cfdi_use="G03"), FiscalData(tax_id="EKU9003173C9")

    def recorded(data):
        return CustomerFiscalDataChanged(customer_id=CUSTOMER, at=LATER, fiscal=data)

    command = CreateCustomer(customer_id=CUSTOMER, external_id="cliente-7", at=LATER, fiscal=fiscal)
    new = CustomerCreated(customer_id=CUSTOMER, external_id="cliente-7", at=LATER)
    assert given().when(command).then(new, recorded(fiscal)).fiscal == fiscal
    known = recorded(fiscal)
    assert given(ANA, known).when(ChangeCustomer(at=LATER, fiscal=other)).then(recorded(other)).fiscal == other
    given(ANA, known).when(ChangeCustomer(at=LATER, fiscal=FiscalData(tax_id="EKU9003173C9", cfdi_use="G03"))).then()
    given(ANA, known).when(ChangeCustomer(at=LATER)).then()
    assert given(ANA, known).when(ChangeCustomer(at=LATER, fiscal=None)).then(recorded(None)).fiscal is None
    erased = given(ANA, known).when(EraseCustomer(at=LATER)).then(CustomerErased(customer_id=CUSTOMER, at=LATER))
    assert erased.fiscal is None


def test_of_an_erased_customer_only_the_ids_remain():
    customer = given(ANA).when(EraseCustomer(at=LATER)).then(CustomerErased(customer_id=CUSTOMER, at=LATER))
    assert (customer.customer_id, customer.external_id, customer.updated_at) == (CUSTOMER, "cliente-7", LATER)
    assert (customer.first_name, customer.email, customer.active, customer.erased) == (None, None, False, True)


GOLD, SILVER = Raw(b'{"tier":"gold"}'), Raw(b'{"tier":"silver"}')
SOURCE = ORDER
QUIET = NotificationPreferences(sms=False, receipts=False, language="en")


def create(**fields):
    return CreateCustomer(customer_id=CUSTOMER, external_id="cliente-7", at=NOON, **fields)


def test_a_customer_is_created_with_everything_that_is_given():
    customer = (
        given()
        .when(create(first_name="Ana", source_id=SOURCE, metadata=GOLD, preferences=QUIET))
        .then(
            CustomerCreated(
                customer_id=CUSTOMER,
                external_id="cliente-7",
                at=NOON,
                first_name="Ana",
                source_id=SOURCE,
                metadata=GOLD,
            ),
            NotificationPreferencesChanged(customer_id=CUSTOMER, at=NOON, preferences=QUIET),
        )
    )
    assert (customer.source_id, customer.metadata, customer.preferences) == (SOURCE, GOLD, QUIET)


def test_a_customer_without_preferences_has_the_contracts():
    customer = (
        given()
        .when(create(email="a@example.com"))
        .then(CustomerCreated(customer_id=CUSTOMER, external_id="cliente-7", at=NOON, email="a@example.com"))
    )
    assert customer.preferences == NotificationPreferences(
        email=True, sms=True, whatsapp=False, payment_reminders=True, receipts=True, invoices=True, language="es"
    )


def test_an_external_id_that_a_customer_has_or_had_is_not_given_again():
    another = CreateCustomer(customer_id=ORDER, external_id="cliente-7", at=NOON)
    erased = CustomerErased(customer_id=CUSTOMER, at=NOON)
    given(ANA).when(another).then_rejected(DuplicateExternalId, field="externalId")
    given(ANA, erased).when(another).then_rejected(DuplicateExternalId, field="externalId")


def test_a_change_records_what_differs_and_nothing_else():
    command = ChangeCustomer(
        at=LATER, first_name="Ana", phone_number="+5255", source_id=SOURCE, metadata=GOLD, preferences=QUIET
    )
    customer = (
        given(ANA)
        .when(command)
        .then(
            changed(phone_number="+5255"),
            CustomerSourceChanged(customer_id=CUSTOMER, at=LATER, source_id=SOURCE),
            CustomerMetadataChanged(customer_id=CUSTOMER, at=LATER, metadata=GOLD),
            NotificationPreferencesChanged(customer_id=CUSTOMER, at=LATER, preferences=QUIET),
        )
    )
    assert (customer.email, customer.phone_number, customer.updated_at) == ("ana@example.com", "+5255", LATER)
    assert (customer.source_id, customer.metadata, customer.preferences) == (SOURCE, GOLD, QUIET)


FULL = CustomerCreated(
    customer_id=CUSTOMER, external_id="cliente-7", at=NOON, first_name="Ana", source_id=SOURCE, metadata=GOLD
)
CHOSEN = NotificationPreferencesChanged(customer_id=CUSTOMER, at=NOON, preferences=QUIET)


def test_what_a_change_leaves_out_or_repeats_stays():
    given(FULL, CHOSEN).when(ChangeCustomer(at=LATER)).then()
    same = ChangeCustomer(
        at=LATER, external_id="cliente-7", first_name="Ana", source_id=SOURCE, metadata=GOLD, preferences=QUIET
    )
    given(FULL, CHOSEN).when(same).then()


def test_null_clears_and_sets_the_preferences_to_their_defaults():
    command = ChangeCustomer(at=LATER, first_name=None, source_id=None, metadata=None, preferences=None)
    customer = (
        given(FULL, CHOSEN)
        .when(command)
        .then(
            changed(first_name=None),
            CustomerSourceChanged(customer_id=CUSTOMER, at=LATER),
            CustomerMetadataChanged(customer_id=CUSTOMER, at=LATER),
            NotificationPreferencesChanged(customer_id=CUSTOMER, at=LATER),
        )
    )
    assert (customer.first_name, customer.source_id, customer.metadata) == (None, None, UNSET)
    assert customer.preferences == NotificationPreferences()
    replaced = given(FULL).when(ChangeCustomer(at=LATER, metadata=SILVER))
    assert replaced.then(CustomerMetadataChanged(customer_id=CUSTOMER, at=LATER, metadata=SILVER)).metadata == SILVER


@pytest.mark.parametrize(
    ("field", "change"), [("externalId", {"external_id": "cliente-8"}), ("sourceId", {"source_id": CUSTOMER})]
)
def test_an_external_id_is_permanent_and_no_customer_is_its_own_source(field, change):
    given(ANA).when(ChangeCustomer(at=LATER, **change)).then_rejected(InvalidField, field=field)


def test_an_erased_customer_is_not_changed_and_keeps_no_personal_field():
    erased = CustomerErased(customer_id=CUSTOMER, at=LATER)
    given(ANA, erased).when(ChangeCustomer(at=LATER, first_name="Ana")).then_rejected(CustomerNotFound)
    customer = given(FULL, CHOSEN).when(EraseCustomer(at=LATER)).then(erased)
    assert (customer.metadata, customer.preferences) == (UNSET, NotificationPreferences())
    assert customer.source_id == SOURCE, "an id: the orders of related customers stay together"


def test_every_event_is_folded():
    assert set(get_args(CustomerEvent)) == set(TOPICS.values())
