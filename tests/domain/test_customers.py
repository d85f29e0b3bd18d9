"""The customer of an order: creation, changed details, erasure."""

from __future__ import annotations

from datetime import timedelta
from typing import get_args

from tests.domain.builders import CUSTOMER, NOON
from tests.domain.scenario import given

from ledger.domain.customers.commands import EraseCustomer, UpsertCustomer
from ledger.domain.customers.events import CustomerCreated, CustomerDetailsChanged, CustomerErased, CustomerEvent

LATER = NOON + timedelta(hours=1)


def introduce(**details):
    return UpsertCustomer(customer_id=CUSTOMER, external_id="cliente-7", at=LATER, **details)


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


def test_of_an_erased_customer_only_the_ids_remain():
    customer = given(ANA).when(EraseCustomer(at=LATER)).then(CustomerErased(customer_id=CUSTOMER, at=LATER))
    assert (customer.customer_id, customer.external_id, customer.updated_at) == (CUSTOMER, "cliente-7", LATER)
    assert (customer.first_name, customer.email, customer.active, customer.erased) == (None, None, False, True)


def test_every_event_is_folded():
    assert set(get_args(CustomerEvent)) == {CustomerCreated, CustomerDetailsChanged, CustomerErased}
