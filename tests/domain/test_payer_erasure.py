"""The erasure of a payer: amounts stay, personal data is removed, and later payments store none."""

from __future__ import annotations

from msgspec import UNSET, Raw
from msgspec.structs import fields, replace
from tests.domain.builders import (
    NOON,
    authorization_requested,
    charge,
    create,
    created,
    declined,
    folded,
    new_payment,
    paid,
    started,
)
from tests.domain.scenario import given
from tests.journal.samples import ADDRESS, CARD, DEVICE, FISCAL

from ledger.domain.customers import events as customer_events
from ledger.domain.orders import events as order_events
from ledger.domain.orders.commands import ErasePayer
from ledger.domain.orders.events import PayerForgotten, PaymentStarted
from ledger.domain.orders.statuses import OrderStatus
from ledger.personal_data import without

LATER = NOON.replace(hour=15)
FORGOTTEN = PayerForgotten(at=LATER)
NOTE = Raw(b'{"guest":"Ana"}')
ORDER = created(metadata=NOTE, billing_address=ADDRESS, device_information=DEVICE, fiscal=FISCAL)
METHOD = replace(started(1, 10000).method, card=CARD)
PAYMENT = replace(started(1, 10000), method=METHOD, billing_address=ADDRESS, device_information=DEVICE, metadata=NOTE)


def test_an_erasure_keeps_the_amounts_and_removes_the_personal_data():
    history = [ORDER, PAYMENT, *paid(1, 10000)[1:]]
    before = folded(history)
    after = given(*history).when(ErasePayer(at=LATER)).then(FORGOTTEN)
    assert (after.status, after.amount_paid, after.updated_at) == (before.status, before.amount_paid, LATER)
    terms, payment = after.terms, after.payments[0].started
    assert (terms.metadata, terms.billing_address, terms.device_information, terms.fiscal) == (UNSET, None, None, None)
    assert (payment.metadata, payment.billing_address, payment.device_information) == (UNSET, None, None)
    assert payment.method.card == replace(CARD, cardholder_name=None)
    assert replace(after.payments[0], started=PAYMENT) == before.payments[0]


def test_a_payment_after_the_erasure_stores_no_personal_data():
    personal = {"method": METHOD, "billing_address": ADDRESS, "device_information": DEVICE, "metadata": NOTE}
    for command in (charge(1, **personal), create(payment=new_payment(1, **personal))):
        payment, _ = given(created(), *failed(), FORGOTTEN).when(command).then_events()
        assert payment == without(payment, order_events.PERSONAL[PaymentStarted])
        assert payment.method.card.last4 == CARD.last4


def failed():
    events = [started(7, 10000), authorization_requested(7, 10000), declined(7)]
    assert folded([created(), *events]).status is OrderStatus.FAILED
    return events


def test_every_personal_field_has_a_default():
    for type_, paths in {**order_events.PERSONAL, **customer_events.PERSONAL}.items():
        known = {field.name: field for field in fields(type_)}
        for path in paths:
            name, _, rest = path.partition(".")
            assert rest or not known[name].required, f"{type_.__name__}.{name}"


def test_a_path_through_an_absent_member_changes_nothing():
    bare = replace(PAYMENT, method=replace(METHOD, card=None), billing_address=None, device_information=None)
    bare = replace(bare, metadata=UNSET)
    assert without(bare, order_events.PERSONAL[PaymentStarted]) is bare
