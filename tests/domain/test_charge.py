"""Charging an order that waits for its payment."""

from __future__ import annotations

from decimal import Decimal

import pytest
from tests.domain.builders import (
    MANUAL,
    NOON,
    SPEI,
    SPLIT,
    SPLIT_WITH_SURCHARGE,
    THREE_PERCENT,
    authorization_requested,
    authorized,
    authorized_and_captured,
    charge,
    created,
    declined,
    method,
    paid,
    payer_action_required,
    payment_id,
    reference_requested,
    started,
    unanswered,
)
from tests.domain.scenario import given

from ledger.domain.orders.events import CancelledBecause, PaymentCancelled
from ledger.domain.orders.state import LIVE
from ledger.domain.orders.statuses import NextAction, OrderStatus, PaymentStatus
from ledger.domain.rejections import AmountExceedsPending, IdempotencyMismatch, InvalidField, OrderNotPayable

PAYABLE = (OrderStatus.PENDING, OrderStatus.PARTIALLY_PAID, OrderStatus.FAILED, OrderStatus.REFERENCE_GENERATED)
FAILED = (created(), started(1, 10000), authorization_requested(1, 10000), declined(1))
HALF_GRANTED = (
    created(pending=False, surcharge=THREE_PERCENT),
    started(1, 10000, 300),
    authorization_requested(1, 10300),
    *authorized_and_captured(1, 5150),
)


def test_a_pending_order_is_charged_in_full():
    order = given(created()).when(charge()).then(started(1, 10000), authorization_requested(1, 10000))
    assert order.status is OrderStatus.PROCESSING


def test_a_failed_order_is_charged_again():
    given(*FAILED).when(charge(2)).then(started(2, 10000), authorization_requested(2, 10000))


def test_a_failed_order_is_charged_with_the_surcharge_of_the_new_method():
    failed = (created(surcharge=THREE_PERCENT), started(1, 10000, 300), authorization_requested(1, 10300), declined(1))
    order = (
        given(*failed)
        .when(charge(2, method=method(SPEI)))
        .then(started(2, 10000, 0, SPEI), reference_requested(2, 10000))
    )
    assert order.surcharge_amount is None
    assert order.amount == 10000


def test_the_rest_of_a_partial_authorisation_is_charged_with_its_share_of_the_surcharge():
    order = given(*HALF_GRANTED).when(charge(2)).then(started(2, 5000, 150), authorization_requested(2, 5150))
    assert order.status is OrderStatus.PARTIALLY_PAID
    assert order.amount_pending == 5150


@pytest.mark.parametrize("action", [NextAction.DEVICE_DATA, NextAction.CHALLENGE, NextAction.REDIRECT])
def test_the_rest_is_not_charged_again_while_its_payer_is_authenticated(action):
    """Both sessions could end with money: the order is PARTIALLY_PAID, and not ACTION_REQUIRED, meanwhile."""
    rest = (started(2, 5000, 150), authorization_requested(2, 5150), payer_action_required(2, action))
    given(*HALF_GRANTED, *rest).when(charge(3)).then_rejected(
        OrderNotPayable, currentStatus=OrderStatus.PARTIALLY_PAID, allowedStatuses=PAYABLE
    )
    given(*HALF_GRANTED, *rest, declined(2)).when(charge(3)).then(
        started(3, 5000, 150), authorization_requested(3, 5150)
    )


def test_a_part_of_a_split_order_is_charged():
    order = (
        given(SPLIT_WITH_SURCHARGE).when(charge(1, 4000)).then(started(1, 4000, 120), authorization_requested(1, 4120))
    )
    assert order.status is OrderStatus.PROCESSING
    assert order.surcharge_amount == 0


def test_a_charge_without_an_amount_pays_all_that_is_pending():
    given(SPLIT_WITH_SURCHARGE, *paid(1, 4000, 120)).when(charge(2)).then(
        started(2, 6000, 180), authorization_requested(2, 6180)
    )


def test_a_payment_of_exactly_what_is_pending_is_accepted():
    given(SPLIT, *paid(1, 4000)).when(charge(2, 6000)).then(started(2, 6000), authorization_requested(2, 6000))


def test_a_payment_of_more_than_is_pending_is_refused():
    given(SPLIT, *paid(1, 4000)).when(charge(2, 6001)).then_rejected(
        AmountExceedsPending, amountPending=Decimal(6000), amountReserved=Decimal(0)
    )


@pytest.mark.parametrize(
    "in_flight",
    [
        (started(2, 5000), authorization_requested(2, 5000)),
        (started(2, 5000), authorization_requested(2, 5000), unanswered(2)),
        (started(2, 5000), authorization_requested(2, 5000), authorized(2, 5000)),
    ],
)
def test_an_open_card_authorisation_reserves_its_part(in_flight):
    history = (SPLIT, *paid(1, 4000), *in_flight)
    given(*history).when(charge(3, 1001)).then_rejected(
        AmountExceedsPending, amountPending=Decimal(6000), amountReserved=Decimal(5000)
    )
    given(*history).when(charge(3)).then_rejected(
        AmountExceedsPending, amountPending=Decimal(6000), amountReserved=Decimal(5000)
    )
    given(*history).when(charge(3, 1000)).then(started(3, 1000), authorization_requested(3, 1000))


def test_a_partial_authorisation_reserves_only_its_authorised_part():
    split = created(allow_partials=True, surcharge=THREE_PERCENT, capture_method=MANUAL)
    history = (
        split,
        *paid(1, 4000, 120),
        started(2, 6000, 180),
        authorization_requested(2, 6180, capture=False),
        authorized(2, 3090),
    )
    given(*history).when(charge(3, 3000)).then(started(3, 3000, 90), authorization_requested(3, 3090, capture=False))


def test_a_declined_payment_reserves_nothing():
    history = (SPLIT, started(1, 10000), authorization_requested(1, 10000), declined(1))
    given(*history).when(charge(2, 10000)).then(started(2, 10000), authorization_requested(2, 10000))


def test_the_rest_of_an_order_of_one_tender_cannot_be_charged_twice_at_once():
    history = (*HALF_GRANTED, started(2, 5000, 150), authorization_requested(2, 5150))
    given(*history).when(charge(3)).then_rejected(
        AmountExceedsPending, amountPending=Decimal(5150), amountReserved=Decimal(5000)
    )


@pytest.mark.parametrize(
    ("history", "status"),
    [
        ((created(), *paid(1, 10000)), "COMPLETED"),
        ((created(), started(1, 10000), authorization_requested(1, 10000)), "PROCESSING"),
        ((created(), started(1, 10000), authorization_requested(1, 10000), unanswered(1)), "PROCESSING"),
        (
            (created(), started(1, 10000), authorization_requested(1, 10000, capture=False), authorized(1, 10000)),
            "AUTHORIZED",
        ),
        (
            (created(), started(1, 10000), authorization_requested(1, 10000, capture=False), authorized(1, 1)),
            "PARTIALLY_AUTHORIZED",
        ),
    ],
)
def test_an_order_that_waits_for_no_payment_is_not_payable(history, status):
    given(*history).when(charge(9)).then_rejected(OrderNotPayable, currentStatus=status, allowedStatuses=PAYABLE)


def test_a_partial_charge_needs_an_order_that_allows_partial_payments():
    given(created()).when(charge(1, 10000)).then_rejected(InvalidField, field="amount")


@pytest.mark.parametrize("amount", ["0", "-5", "0.5", "NaN", "1000000000000"])
def test_a_part_with_an_invalid_amount_is_refused(amount):
    given(SPLIT).when(charge(1, amount)).then_rejected(InvalidField, field="amount")


def test_a_part_is_a_multiple_of_the_orders_quantum():
    given(created("150.75", allow_partials=True)).when(charge(1, "0.01")).then(
        started(1, "0.01"), authorization_requested(1, "0.01")
    )
    given(created("150.75", allow_partials=True)).when(charge(1, "0.001")).then_rejected(InvalidField, field="amount")


NAMED = (SPLIT, started(1, 4000, external_id="anticipo"), authorization_requested(1, 4000))


def test_a_repeated_external_id_of_a_payment_is_absorbed():
    for history in (NAMED, (*NAMED, *authorized_and_captured(1, 4000)), (*NAMED, declined(1))):
        given(*history).when(charge(2, 4000, external_id="anticipo")).then()
        given(*history).when(charge(2, external_id="anticipo")).then()


def test_a_repeated_external_id_with_another_amount_is_a_mismatch():
    given(*NAMED).when(charge(2, 4001, external_id="anticipo")).then_rejected(IdempotencyMismatch, field="amount")


def test_another_external_id_opens_another_payment():
    history = (*NAMED, *authorized_and_captured(1, 4000))
    given(*history).when(charge(2, 4000, external_id="resto")).then(
        started(2, 4000, external_id="resto"), authorization_requested(2, 4000)
    )


def test_a_reference_that_is_still_being_issued_is_replaced_by_the_next_payment_of_one_tender():
    """A card was authorised in part: the order is PARTIALLY_PAID, and shows neither of its further payments."""
    history = (
        created(10000),
        started(1, 10000),
        authorization_requested(1, 10000),
        *authorized_and_captured(1, 9999),
        started(2, 1, 0, SPEI),
        reference_requested(2, 1),
    )
    replaced = PaymentCancelled(payment_id=payment_id(2), because=CancelledBecause.REPLACED, at=NOON)
    order = given(*history).when(charge(3)).then(started(3, 1), authorization_requested(3, 1), replaced)
    assert [payment.status for payment in order.payments if payment.status in LIVE] == [
        PaymentStatus.PENDING_AUTHORIZATION
    ]
