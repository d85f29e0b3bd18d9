"""What a merchant may change of an order's terms after its creation, and when: an event for each term."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from msgspec import UNSET, Raw
from tests.domain.builders import (
    NOON,
    authorization_requested,
    charge,
    created,
    declined,
    folded,
    paid,
    reference_open,
    refund_requested,
    refunded,
    started,
)
from tests.domain.scenario import given

from ledger.domain.merge_patch import merged
from ledger.domain.orders import commands as c
from ledger.domain.orders import events as e
from ledger.domain.orders.decide.payments import decide_charge
from ledger.domain.orders.statuses import NOTHING_OWED, OrderStatus
from ledger.domain.orders.terms import FiscalData, LineItem, ReminderPolicy
from ledger.domain.rejections import InvalidField, InvalidOrderState

POLICY = ReminderPolicy(days=(3,), time_zone="America/Mexico_City")
LATER = NOON + timedelta(days=9)
IN_FLIGHT = (created(), started(1, 10000), authorization_requested(1, 10000))
PAID = (created(), *paid(1, 10000))
OWING = tuple(status for status in OrderStatus if status not in NOTHING_OWED)


def line(price: int, quantity: int = 1) -> LineItem:
    return LineItem(description="Café", quantity=Decimal(quantity), unit_price=Decimal(price), tax_included=True)


def change(**changes: Any) -> c.ChangeOrder:
    return c.ChangeOrder(changes=c.OrderChanges(**changes), reminders=POLICY, at=NOON)


def test_each_term_has_an_event_of_its_own() -> None:
    command = change(
        amount=Decimal(12000),
        description="Otro café",
        invoice_number="F-78",
        metadata=Raw(b'{"mesa":7}'),
        due_date=LATER,
        line_items=(line(6000, 2),),
        fiscal=FiscalData(tax_id="URE180429TM6"),
    )
    order = (
        given(created())
        .when(command)
        .then(
            e.OrderAmountChanged(amount=Decimal(12000), at=NOON),
            e.OrderDescriptionChanged(description="Otro café", at=NOON),
            e.OrderInvoiceNumberChanged(invoice_number="F-78", at=NOON),
            e.OrderMetadataChanged(patch=Raw(b'{"mesa":7}'), at=NOON),
            e.OrderDueDateChanged(due_date=LATER, at=NOON),
            e.RemindersScheduled(due_date=LATER, policy=POLICY, at=NOON),
            e.OrderLineItemsChanged(line_items=(line(6000, 2),), at=NOON),
            e.OrderReceiverChanged(fiscal=FiscalData(tax_id="URE180429TM6"), at=NOON),
        )
    )
    assert (order.amount, order.amount_pending, order.unpaid_subtotal) == (12000, 12000, 12000)
    assert order.terms.metadata == Raw(b'{"mesa":7}')
    assert order.reminders.scheduled.due_date == LATER


def test_null_takes_a_term_away() -> None:
    before = created(description="Café", due_date=LATER, metadata=Raw(b'{"a":1}'), line_items=(line(10000),))
    scheduled = e.RemindersScheduled(due_date=LATER, policy=POLICY, at=NOON)
    order = (
        given(before, scheduled)
        .when(change(description=None, due_date=None, metadata=None, line_items=()))
        .then(
            e.OrderDescriptionChanged(at=NOON),
            e.OrderMetadataChanged(removed=True, at=NOON),
            e.OrderDueDateChanged(at=NOON),
            e.OrderLineItemsChanged(at=NOON),
        )
    )
    assert (order.terms.metadata, order.terms.due_date, order.reminders) == (UNSET, None, None)


def test_what_is_so_already_is_no_change_in_any_status() -> None:
    same = change(amount=Decimal(10000), due_date=None, description=None, metadata=Raw(b'{"a":null}'), line_items=())
    given(*PAID).when(same).then()


@pytest.mark.parametrize(
    "history", [IN_FLIGHT, PAID, (*IN_FLIGHT, declined(1)), (created(), *reference_open(1, 10000))]
)
def test_an_amount_stays_once_a_payment_has_begun(history: tuple[Any, ...]) -> None:
    given(*history).when(change(amount=Decimal(5000))).then_rejected(
        InvalidOrderState, currentStatus=folded(history).status, allowedStatuses=(OrderStatus.PENDING,)
    )


def test_a_payment_takes_the_amount_as_it_is_when_it_begins() -> None:
    order = folded((created(allow_partials=True), e.OrderAmountChanged(amount=Decimal(7000), at=NOON)))
    begun = decide_charge(order, charge(1))
    assert begun[0].subtotal == 7000


def test_an_amount_and_its_lines_change_together() -> None:
    lined = created(line_items=(line(10000),))
    given(lined).when(change(amount=Decimal(5000))).then_rejected(InvalidField, field="amount")
    given(lined).when(change(line_items=(line(5000),))).then_rejected(InvalidField, field="lineItems")
    both = change(amount=Decimal(5000), line_items=(line(5000),))
    assert given(lined).when(both).then_events()[0].amount == 5000
    given(created()).when(change(amount=Decimal(0))).then_rejected(InvalidField, field="amount")


def test_a_due_date_needs_something_that_is_owed() -> None:
    given(*PAID).when(change(due_date=LATER)).then_rejected(
        InvalidOrderState, currentStatus=OrderStatus.COMPLETED, allowedStatuses=OWING
    )
    cancelled = (created(), e.OrderCancelled(at=NOON))
    given(*cancelled).when(change(due_date=LATER)).then_rejected(
        InvalidOrderState, currentStatus=OrderStatus.CANCELLED, allowedStatuses=OWING
    )
    given(*cancelled).when(change(description="x")).then(e.OrderDescriptionChanged(description="x", at=NOON))
    whole = (*PAID, refund_requested(1, 10000), refunded(1, 10000))
    given(*whole).when(change(metadata=Raw(b'{"a":1}'))).then(e.OrderMetadataChanged(patch=Raw(b'{"a":1}'), at=NOON))


def test_an_erased_payer_gets_no_personal_data_again() -> None:
    erased = (created(), e.PayerForgotten(at=NOON))
    for personal in (change(metadata=Raw(b'{"a":1}')), change(fiscal=FiscalData(tax_id="URE180429TM6"))):
        given(*erased).when(personal).then_rejected(
            InvalidOrderState, currentStatus=OrderStatus.PENDING, allowedStatuses=()
        )
    order = folded((created(metadata=Raw(b'{"b":1}')), e.OrderMetadataChanged(at=NOON)))  # as read after an erasure
    assert order.terms.metadata == Raw(b'{"b":1}')


def test_metadata_do_not_grow_beyond_their_limit() -> None:
    long = Raw(b'{"a":"%s"}' % (b"x" * 20_000))
    given(created(metadata=long)).when(change(metadata=Raw(bytes(long).replace(b"a", b"b")))).then_rejected(
        InvalidField, field="metadata"
    )


@pytest.mark.parametrize(
    ("target", "patch", "after"),
    [
        (b'{"a":"b"}', b'{"a":"c"}', b'{"a":"c"}'),
        (b'{"a":"b"}', b'{"b":"c"}', b'{"a":"b","b":"c"}'),
        (b'{"a":"b","b":"c"}', b'{"a":null}', b'{"b":"c"}'),
        (b'{"a":["b"]}', b'{"a":"c"}', b'{"a":"c"}'),
        (b'{"a":{"b":"c"}}', b'{"a":{"b":"d","c":null}}', b'{"a":{"b":"d"}}'),
        (b'{"a":[{"b":"c"}]}', b'{"a":[1]}', b'{"a":[1]}'),
        (b'{"a":"foo"}', b"null", None),
        (b'{"e":null}', b'{"a":1}', b'{"e":null,"a":1}'),
        (b"[1,2]", b'{"a":"b","c":null}', b'{"a":"b"}'),
        (None, b'{"a":{"bb":{"ccc":null}}}', b'{"a":{"bb":{}}}'),
        (b'{"n":1.10}', b'{"m":2.0}', b'{"n":1.10,"m":2.0}'),
    ],
)
def test_a_merge_patch_is_that_of_rfc_7396(target: bytes | None, patch: bytes, after: bytes | None) -> None:
    result = merged(None if target is None else Raw(target), Raw(patch))
    assert (None if result is None else bytes(result)) == after
