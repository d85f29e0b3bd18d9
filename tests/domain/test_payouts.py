"""Where the refund of a transfer or of cash goes, and the refunds that the merchant pays out itself."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from msgspec.structs import replace
from tests.domain.action_builders import CLABE, cancel, confirm_payout, deposit, record_refund, refund
from tests.domain.action_builders import refund_destination as to_account
from tests.domain.builders import (
    DEADLINE,
    NOON,
    created,
    deposited,
    folded,
    payment_id,
    reference_open,
    refund_id,
    refund_requested,
    rules,
)
from tests.domain.scenario import given
from tests.domain.transition_rows import ONE, PAID, awaiting_deposit

from ledger.domain.orders import events as e
from ledger.domain.orders import processor_outcomes as o
from ledger.domain.orders.refund import RefundStatus
from ledger.domain.orders.statuses import OrderStatus, PaymentStatus
from ledger.domain.orders.terms import Destination, DestinationType
from ledger.domain.rejections import (
    InvalidField,
    InvalidOrderState,
    RefundInProgress,
    RefundNotFound,
)

OTHER = "032180000118359719"
SENT = deposited(1, 10000)
DEPOSITED = (*awaiting_deposit(created()), SENT)
BY_MERCHANT = refund_requested(1, 4000, payout=True, by_merchant=True)
WAITING = (*DEPOSITED, BY_MERCHANT)
PAID_OUT = e.PaymentRefunded(
    refund_id=refund_id(1), payment_id=ONE, amount=Decimal(4000), processor_reference="", at=NOON, paid_at=NOON
)
CHANGED = e.RefundDestinationChanged(
    refund_id=refund_id(1), payment_id=ONE, at=NOON, destination=Destination(clabe=CLABE)
)
ASKED = e.PayoutRequested(
    refund_id=refund_id(1),
    payment_id=ONE,
    amount=Decimal(4000),
    processor="sandbox",
    idempotency_key=BY_MERCHANT.idempotency_key,
    deadline_at=DEADLINE,
    at=NOON,
)


def destination_of(history: tuple[Any, ...], **changes: Any) -> tuple[DestinationType | None, str | None, bool]:
    """Returns where a refund of 4,000 goes: its type and account, and whether the merchant has to pay it out."""
    [event] = given(*history).when(refund(4000, **changes)).then_events()
    return event.destination_type, event.destination and event.destination.clabe, event.by_merchant


def test_a_payout_goes_to_the_named_account_else_to_the_one_that_paid_else_by_hand() -> None:
    named = (*DEPOSITED[:-1], replace(SENT, sender_clabe=CLABE))
    to = Destination(clabe=OTHER)
    assert destination_of(named, destination=to) == (DestinationType.ACCOUNT, OTHER, False)
    assert destination_of(named) == (DestinationType.PAYING_ACCOUNT, CLABE, False)
    assert destination_of(DEPOSITED, rules=rules(simulates_payouts=False)) == (DestinationType.MANUAL, None, True)
    assert destination_of(DEPOSITED) == (DestinationType.MANUAL, None, False), "a sandbox confirms it by itself"
    assert destination_of(named, rules=rules(returns_to_payer=True)) == (DestinationType.PAYING_ACCOUNT, None, False)
    elsewhere = given(*named).when(refund(4000, destination=to, rules=rules(returns_to_payer=True)))
    elsewhere.then_rejected(InvalidField, field="destination")
    assert destination_of(PAID, destination=to) == (None, None, False), "money goes back to its card"


def test_deposits_from_two_accounts_name_none() -> None:
    first = replace(deposited(1, 4000), sender_clabe=CLABE)
    for sender in (OTHER, None):
        [second] = given(*DEPOSITED[:-1], first).when(deposit(6000, name="dep-2", sender=sender)).then_events()
        assert second.sender_clabe == sender
        assert destination_of((*DEPOSITED[:-1], first, second))[0] is DestinationType.MANUAL
    same = given(*DEPOSITED[:-1], first).when(deposit(6000, name="dep-2", sender=CLABE)).then_events()
    assert destination_of((*DEPOSITED[:-1], first, *same))[0] is DestinationType.PAYING_ACCOUNT


def test_a_refund_that_the_merchant_pays_out_waits_for_its_confirmation() -> None:
    order = folded(WAITING)
    assert (order.status, order.payments[0].status) == (OrderStatus.REFUND_PROCESSING, PaymentStatus.PENDING_REFUND)
    assert (order.open_intent, order.refunds[0].has_no_answer) == (None, False)
    given(*WAITING).when(refund(1, 2)).then_rejected(RefundInProgress)
    done = given(*WAITING).when(confirm_payout()).then(PAID_OUT)
    assert (done.amount_refunded, done.refunds[0].status) == (4000, RefundStatus.SUCCEEDED)
    given(*WAITING, PAID_OUT).when(confirm_payout(payout_reference="again")).then()


def test_a_confirmation_has_its_time_and_reference() -> None:
    earlier, now = NOON + timedelta(hours=1), NOON + timedelta(hours=2)
    done = (
        given(*WAITING)
        .when(confirm_payout(at=now, paid_at=earlier, payout_reference="MBAN1"))
        .then(replace(PAID_OUT, at=now, paid_at=earlier, processor_reference="MBAN1"))
    )
    [part] = done.refunds[0].parts
    assert (part.paid_at, part.payout_reference) == (earlier, "MBAN1")
    for wrong in (NOON + timedelta(seconds=1), NOON - timedelta(seconds=1)):
        given(*WAITING).when(confirm_payout(paid_at=wrong)).then_rejected(InvalidField, field="paidAt")


def test_an_account_that_is_named_later_is_paid_by_the_processor_and_not_by_the_merchant_as_well() -> None:
    order = given(*WAITING).when(to_account()).then(CHANGED, ASKED)
    assert order.open_intent is not None
    history = (*WAITING, CHANGED, ASKED)
    given(*history).when(to_account()).then()
    for command in (confirm_payout(), to_account(OTHER)):
        given(*history).when(command).then_rejected(
            InvalidOrderState, currentStatus=OrderStatus.REFUND_PROCESSING, allowedStatuses=()
        )
    accepted = e.RefundAccepted(refund_id=refund_id(1), payment_id=ONE, processor_reference="ref", at=NOON)
    given(*history).when(record_refund(o.RefundPending(processor_reference="ref"))).then(accepted)
    given(*history, accepted).when(confirm_payout()).then_rejected(
        InvalidOrderState, currentStatus=OrderStatus.REFUND_PROCESSING, allowedStatuses=()
    )


def test_a_confirmed_refund_is_not_paid_out_by_the_processor() -> None:
    given(*WAITING, PAID_OUT).when(to_account()).then_rejected(
        InvalidOrderState, currentStatus=OrderStatus.PARTIALLY_REFUNDED, allowedStatuses=()
    )


@pytest.mark.parametrize(
    "requested",
    [
        refund_requested(1, 4000, payout=True, destination_type=None),
        refund_requested(1, 4000, payout=True, destination_type=DestinationType.PAYING_ACCOUNT),
        refund_requested(1, 4000, payout=True, destination_type=DestinationType.ACCOUNT),
    ],
    ids=["of an earlier release", "to the paying account", "to an account"],
)
def test_a_payout_that_a_processor_has_is_neither_confirmed_nor_changed(requested: e.RefundRequested) -> None:
    accepted = e.RefundAccepted(refund_id=refund_id(1), payment_id=ONE, processor_reference="ref", at=NOON)
    for command in (confirm_payout(), to_account()):
        given(*DEPOSITED, requested, accepted).when(command).then_rejected(
            InvalidOrderState, currentStatus=OrderStatus.REFUND_PROCESSING, allowedStatuses=()
        )


def test_a_sandboxs_payout_is_confirmed_and_changed_after_its_call() -> None:
    requested = refund_requested(1, 4000, payout=True)
    accepted = e.RefundAccepted(refund_id=refund_id(1), payment_id=ONE, processor_reference="ref", at=NOON)
    given(*DEPOSITED, requested).when(confirm_payout()).then_rejected(RefundInProgress, paymentId=ONE)
    given(*DEPOSITED, requested, accepted).when(to_account()).then(CHANGED)
    given(*DEPOSITED, requested, accepted).when(confirm_payout()).then(PAID_OUT)
    reported = record_refund(o.Refunded(amount=Decimal(4000), processor_reference="ref"))
    given(*DEPOSITED, requested, accepted, PAID_OUT).when(reported).then()
    done = given(*DEPOSITED, requested, accepted).when(reported).then_events()
    given(*DEPOSITED, requested, accepted, *done).when(confirm_payout()).then()


def test_a_refund_is_named_by_either_id() -> None:
    named = replace(BY_MERCHANT, external_id="dev-1")
    given(*DEPOSITED, named).when(confirm_payout(reference="dev-1")).then(PAID_OUT)
    given(*DEPOSITED, named).when(confirm_payout(2)).then_rejected(RefundNotFound)


def test_a_cancellation_waits_for_the_payout_of_its_merchant() -> None:
    asked = replace(cancel(refund_captured=True), rules=rules(simulates_payouts=False))
    history = (created(allow_partials=True), *reference_open(1, 10000), deposited(1, 4000))
    events = given(*history).when(asked).then_events()
    assert folded((*history, *events)).status is OrderStatus.CANCELLATION_REQUESTED
    closed = given(*history, *events).when(confirm_payout()).then_events()
    assert [type(event) for event in closed] == [e.PaymentRefunded, e.OrderCancelled]


def test_an_erased_payer_leaves_no_account() -> None:
    named = replace(SENT, sender_clabe=CLABE)
    to = refund_requested(
        1, 1000, payout=True, destination_type=DestinationType.PAYING_ACCOUNT, destination=Destination(clabe=CLABE)
    )
    order = folded((*DEPOSITED[:-1], named, to, e.PayerForgotten(at=NOON)))
    assert (order.payments[0].paying_account, order.refunds[0].parts[0].destination) == (None, None)
    forgotten = (*DEPOSITED[:-1], e.PayerForgotten(at=NOON))
    [event] = given(*forgotten).when(deposit(10000, sender=CLABE)).then_events()
    assert event.sender_clabe is None
    assert payment_id(1) == ONE


def test_no_processor_pays_out_what_another_refund_has_paid_by_then() -> None:
    """A refund that failed is reported as paid after all, while a second one waits for the merchant."""
    first = refund_requested(1, 10000, payout=True)
    failed = e.RefundRefused(refund_id=refund_id(1), payment_id=ONE, code="X", at=NOON)
    second = refund_requested(1, 10000, 2, payout=True, by_merchant=True)
    late = given(*DEPOSITED, first, failed, second).when(
        record_refund(o.Refunded(amount=Decimal(10000), processor_reference="r"))
    )
    [reported] = late.then_events()
    assert isinstance(reported, e.LateRefundReported)
    history = (*DEPOSITED, first, failed, second, reported)
    given(*history).when(to_account(n=2)).then_rejected(
        InvalidOrderState, currentStatus=folded(history).status, allowedStatuses=()
    )
    assert given(*history).when(confirm_payout(2)).then_events(), "the merchant may have paid it"
