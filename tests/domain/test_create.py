"""Creating an order, and sending its external id again."""

from __future__ import annotations

from decimal import Decimal

import pytest
from tests.domain.builders import (
    MANUAL,
    SPEI,
    THREE_PERCENT,
    abandoned,
    authorization_requested,
    charge,
    create,
    created,
    declined,
    folded,
    method,
    new_payment,
    paid,
    started,
    unanswered,
)
from tests.domain.scenario import given

from ledger.domain.orders.statuses import OrderStatus
from ledger.domain.orders.terms import LineItem
from ledger.domain.rejections import AmountNotChargeable, IdempotencyMismatch, InvalidField


def line(quantity: str, unit_price: str) -> LineItem:
    return LineItem(
        description="Café de olla", quantity=Decimal(quantity), unit_price=Decimal(unit_price), tax_included=True
    )


def test_an_order_without_a_method_is_created_pending():
    order = given().when(create()).then(created())
    assert order.status is OrderStatus.PENDING
    assert order.surcharge_amount is None


def test_an_order_with_a_card_announces_its_payment_before_the_call():
    order = (
        given()
        .when(create(payment=new_payment()))
        .then(created(pending=False), started(1, 10000), authorization_requested(1, 10000))
    )
    assert order.status is OrderStatus.PROCESSING
    assert order.open_intent == order.payments[0].intent


def test_an_amount_that_the_processor_cannot_move_is_refused_before_any_event():
    payment = new_payment(smallest_amount=Decimal(1))
    given().when(create("150.75", payment=payment)).then_rejected(AmountNotChargeable)
    given().when(create(150, payment=payment)).then(
        created(150, pending=False), started(1, 150), authorization_requested(1, 150)
    )


def test_a_part_is_refused_if_its_surcharge_makes_a_fraction_that_the_processor_cannot_move():
    order = [created("1000.5", allow_partials=True, surcharge=THREE_PERCENT)]
    whole = {"smallest_amount": Decimal(1)}
    given(*order).when(charge(1, 110, **whole)).then_rejected(AmountNotChargeable)
    given(*order).when(charge(1, 100, **whole)).then(started(1, 100, 3), authorization_requested(1, 103))
    given(*order).when(charge(1, None, **whole)).then_rejected(AmountNotChargeable)


def test_an_authorisation_for_manual_capture_requests_no_capture():
    given().when(create(payment=new_payment(), capture_method=MANUAL)).then(
        created(pending=False, capture_method=MANUAL),
        started(1, 10000),
        authorization_requested(1, 10000, capture=False),
    )


def test_an_order_created_pending_can_allow_partial_payments():
    given().when(create(allow_partials=True)).then(created(allow_partials=True))


def test_an_order_created_with_a_payment_never_allows_partial_payments():
    events = given().when(create(allow_partials=True, payment=new_payment())).then_events()
    assert events[0].allow_partials is False


@pytest.mark.parametrize("amount", ["0", "-1", "1000000000000", "NaN", "Infinity", "1.00001"])
def test_an_amount_out_of_bounds_is_refused(amount):
    given().when(create(amount)).then_rejected(InvalidField, field="amount")


@pytest.mark.parametrize("amount", ["0.0001", "999999999999", "150.75"])
def test_an_amount_within_bounds_is_kept_exactly(amount):
    assert given().when(create(amount)).then(created(amount)).amount == Decimal(amount)


def test_amounts_are_stored_in_their_shortest_form():
    events = given().when(create("1E+4", payment=new_payment(), surcharge=THREE_PERCENT)).then_events()
    assert [str(events[0].amount), str(events[1].surcharge), str(events[2].amount)] == ["10000", "300", "10300"]
    events = given().when(create("150.50", payment=new_payment())).then_events()
    assert [str(events[0].amount), str(events[1].subtotal), str(events[2].amount)] == ["150.5"] * 3
    events = given().when(create("116.5", payment=new_payment(), surcharge=THREE_PERCENT)).then_events()
    assert [str(events[1].surcharge), str(events[2].amount)] == ["3.5", "120"]  # 3.495


@pytest.mark.parametrize(
    "lines", [[("2", "5000")], [("0.5", "19999"), ("1", "0.5")], [("3", "3333.333"), ("1", "0.002")]]
)
def test_line_items_that_add_up_are_accepted(lines):
    items = tuple(line(*each) for each in lines)
    assert given().when(create(line_items=items)).then_events()[0].line_items == items


@pytest.mark.parametrize("lines", [[("2", "4999")], [("1", "10000.0011")], [("1", "9999.9989")]])
def test_line_items_that_do_not_add_up_are_refused(lines):
    items = tuple(line(*each) for each in lines)
    given().when(create(line_items=items)).then_rejected(InvalidField, field="lineItems")


def test_line_items_add_up_within_a_thousandth():
    given().when(create(line_items=(line("1", "10000.001"),))).then_events()


def test_the_surcharge_is_rounded_half_up_to_the_orders_quantum():
    events = given().when(create(350, payment=new_payment(), surcharge=THREE_PERCENT)).then_events()
    assert events[1].surcharge == 11  # 10.5
    assert events[2].amount == 361
    events = given().when(create("150.50", payment=new_payment(), surcharge=THREE_PERCENT)).then_events()
    assert events[1].surcharge == Decimal("4.52")  # 4.515


def test_a_method_that_is_not_listed_bears_no_surcharge():
    events = given().when(create(payment=new_payment(method=method(SPEI)), surcharge=THREE_PERCENT)).then_events()
    assert events[1].surcharge == 0


PAID = (created(pending=False), *paid(1, 10000))
IN_FLIGHT = (created(pending=False), started(1, 10000), authorization_requested(1, 10000))
FAILED = (*IN_FLIGHT, declined(1))


@pytest.mark.parametrize("history", [PAID, IN_FLIGHT, (*IN_FLIGHT, unanswered(1)), (created(),)])
def test_a_repeated_external_id_of_an_open_or_paid_order_changes_nothing(history):
    order = given(*history).when(create(payment=new_payment(2))).then()
    assert order == folded(history)


def test_a_repeated_external_id_of_a_failed_order_starts_a_new_payment():
    order = (
        given(*FAILED).when(create(payment=new_payment(2))).then(started(2, 10000), authorization_requested(2, 10000))
    )
    assert order.status is OrderStatus.PROCESSING
    assert [payment.status for payment in order.payments] == ["FAILED", "PENDING_AUTHORIZATION"]


def test_a_repeated_retry_with_the_same_payment_id_is_absorbed():
    given(*FAILED, started(2, 10000), authorization_requested(2, 10000), declined(2)).when(
        create(payment=new_payment(2))
    ).then()


def test_a_repeated_external_id_after_an_abandoned_payment_starts_a_new_one():
    given(*IN_FLIGHT, abandoned(1)).when(create(payment=new_payment(2))).then(
        started(2, 10000), authorization_requested(2, 10000)
    )


def test_a_retry_bears_the_surcharge_of_the_order_and_not_the_current_one():
    failed = (
        created(pending=False, surcharge=THREE_PERCENT),
        started(1, 10000, 300),
        authorization_requested(1, 10300),
        declined(1),
    )
    given(*failed).when(create(payment=new_payment(2), surcharge=None)).then(
        started(2, 10000, 300), authorization_requested(2, 10300)
    )


def test_a_repeated_external_id_of_a_failed_order_without_a_method_changes_nothing():
    given(*FAILED).when(create()).then()


def test_a_repeated_external_id_with_another_amount_is_a_mismatch():
    for history in (PAID, FAILED, (created(),)):
        given(*history).when(create(9999, payment=new_payment(2))).then_rejected(IdempotencyMismatch, field="amount")


def test_a_repeated_external_id_with_another_currency_is_a_mismatch():
    command = create(currency="USD", payment=new_payment(2))
    given(*PAID).when(command).then_rejected(IdempotencyMismatch, field="currency")


def test_other_fields_of_a_repeated_request_are_not_compared():
    given(*PAID).when(create(payment=new_payment(2), description="otra cosa", customer_id=method().method_id)).then()


def test_an_equal_amount_with_trailing_zeros_is_not_a_mismatch():
    given(*PAID).when(create("10000.0", payment=new_payment(2))).then()
