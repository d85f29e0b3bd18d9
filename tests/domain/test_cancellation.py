"""Cancelling an order, or one part of it: what is let go, what is given back, and who has the last word (contract N40)."""

from __future__ import annotations

import pytest
from tests.domain.asking import (
    VOID,
    cancel,
    cancel_payment,
    cancellation_id,
    capture_answered,
    gave_back,
    refund_answered,
    void_answered,
)
from tests.domain.moves import BY_HAND, CHALLENGE, ONE, SPLIT_BY_HAND, at_store, capturing, card, going_on, granted
from tests.domain.scenario import given
from tests.domain.story import (
    DEADLINE,
    NOON,
    SPLIT,
    approved,
    captured,
    created,
    folded,
    paid,
    payment_id,
    refund_asked,
    refund_id,
    refunded,
    scheduled,
    settle,
    taken,
)

from ledger.domain.orders import events as e
from ledger.domain.orders import processor_outcomes as o
from ledger.domain.orders.decide.cancellation import decide_cancellation
from ledger.domain.orders.processor_outcomes import Declined, NotFound, NotSent, Unanswered
from ledger.domain.orders.statuses import OrderStatus, PaymentStatus
from ledger.domain.rejections import InvalidOrderState, OrderHasCapturedFunds, PaymentNotFound

REFUSES, CONFIRMS = o.VoidRefused(code="X"), o.Voided(processor_reference="ref")


def requested(n: int = 1, *, refund_captured: bool = False) -> e.CancellationRequested:
    return e.CancellationRequested(cancellation_id=cancellation_id(n), refund_captured=refund_captured, at=NOON)


def void_asked(n: int = 1, name: str | None = None) -> e.VoidRequested:
    key = name or f"{cancellation_id()}:{payment_id(n)}"
    return e.VoidRequested(payment_id=payment_id(n), idempotency_key=key, deadline_at=DEADLINE, at=NOON)


def gone(because: e.CancelledBecause, n: int = 1) -> e.PaymentCancelled:
    return e.PaymentCancelled(payment_id=payment_id(n), because=because, at=NOON)


VOIDING = (*granted(BY_HAND), requested(), void_asked(1, VOID))
REFUSED = (*VOIDING, e.VoidRefused(payment_id=ONE, code="X", at=NOON), e.CancellationRefused(at=NOON))
GIVING_BACK = (SPLIT, *paid(1, 4000), requested(refund_captured=True), refund_asked(1, 4000))


def test_an_order_without_a_payment_is_closed_at_once() -> None:
    closed = e.OrderCancelled(at=NOON, cancellation_id=cancellation_id(), reason="changed my mind")
    given_order = given(created()).when(cancel(reason="changed my mind")).then(closed)
    assert given_order.status is OrderStatus.CANCELLED


def test_a_reference_ends_with_its_order() -> None:
    closed = e.OrderCancelled(at=NOON, cancellation_id=cancellation_id())
    given(*at_store(created())).when(cancel()).then(closed, gone(e.CancelledBecause.ORDER_CANCELLED))


def test_a_payment_that_is_at_the_processor_is_waited_for() -> None:
    order = (
        given(*card(created()))
        .when(cancel())
        .then(requested(), e.PaymentCancellationRequested(payment_id=ONE, at=NOON))
    )
    assert order.status is OrderStatus.CANCELLATION_REQUESTED


def test_an_authorisation_is_voided_under_a_key_of_the_cancellation() -> None:
    given(*granted(BY_HAND)).when(cancel()).then(requested(), void_asked())


def test_an_order_is_closed_once_its_void_is_confirmed() -> None:
    order = (
        given(*VOIDING).when(void_answered(CONFIRMS)).then(gone(e.CancelledBecause.VOIDED), e.OrderCancelled(at=NOON))
    )
    assert order.status is OrderStatus.CANCELLED
    assert order.cancellation.cancellation_id == cancellation_id()


def test_an_order_stands_whose_void_is_refused() -> None:
    order = given(*VOIDING).when(void_answered(REFUSES)).then(*REFUSED[-2:])
    assert order.status is OrderStatus.AUTHORIZED


def test_a_second_cancellation_after_a_refused_one_is_known_when_it_is_repeated() -> None:
    lapsed = e.PaymentExpired(payment_id=ONE, because=e.ExpiredBecause.AUTHORIZATION, at=NOON)
    closed = e.OrderCancelled(at=NOON, cancellation_id=cancellation_id(2))
    history = (*granted(SPLIT_BY_HAND), *REFUSED[len(granted(BY_HAND)) :], lapsed)
    order = given(*history).when(cancel(2)).then(closed)
    assert order.cancellation.cancellation_id == cancellation_id(2)
    with pytest.raises(InvalidOrderState):
        decide_cancellation(order, cancel(3))


def test_a_cancellation_while_another_runs_is_absorbed() -> None:
    assert given(*VOIDING).when(cancel(2)).then_events() == []


def test_a_void_that_nobody_answers_is_noted_once() -> None:
    silence = e.CallUnanswered(payment_id=ONE, call=e.ProcessorCall.VOID, reason="no answer", at=NOON)
    given(*VOIDING).when(void_answered(Unanswered(reason="no answer"))).then(silence)


@pytest.mark.parametrize(
    ("outcome", "because"), [(NotSent(), e.AbandonedBecause.NOT_SENT), (NotFound(), e.AbandonedBecause.NOT_FOUND)]
)
def test_a_void_that_came_to_nothing_is_asked_again(outcome: object, because: e.AbandonedBecause) -> None:
    abandoned = e.CallAbandoned(payment_id=ONE, call=e.ProcessorCall.VOID, because=because, at=NOON)
    order = given(*VOIDING).when(void_answered(outcome)).then(abandoned)  # type: ignore[arg-type]  # one of them
    assert order.status is OrderStatus.CANCELLATION_REQUESTED
    given(*VOIDING, abandoned).when(cancel_payment(name="void-2")).then(void_asked(1, "void-2"))


def test_the_void_of_another_call_is_not_this_ones() -> None:
    assert given(*VOIDING).when(void_answered(REFUSES, name="other")).then_events() == []


def test_money_that_arrived_first_is_kept() -> None:
    asked_to_end = (*card(created()), requested(), e.PaymentCancellationRequested(payment_id=ONE, at=NOON))
    order = given(*asked_to_end).when(settle(1, approved(10000))).then(*taken(1, 10000), e.CancellationRefused(at=NOON))
    assert order.status is OrderStatus.COMPLETED


def test_a_payment_that_was_declined_meanwhile_is_cancelled() -> None:
    asked_to_end = (*card(created()), requested(), e.PaymentCancellationRequested(payment_id=ONE, at=NOON))
    never = gone(e.CancelledBecause.NEVER_AUTHORIZED)
    order = given(*asked_to_end).when(settle(1, Declined(code="DO_NOT_HONOR"))).then(never, e.OrderCancelled(at=NOON))
    assert (order.status, order.payments[0].status) == (OrderStatus.CANCELLED, PaymentStatus.CANCELLED)


def test_an_authorisation_that_comes_after_its_cancellation_waits_for_its_void() -> None:
    asked_to_end = (*card(BY_HAND), requested(), e.PaymentCancellationRequested(payment_id=ONE, at=NOON))
    events = given(*asked_to_end).when(settle(1, approved(10000, 0))).then_events()
    assert [type(event) for event in events] == [e.PaymentAuthorized]
    assert folded([*asked_to_end, *events]).status is OrderStatus.CANCELLATION_REQUESTED


def test_held_money_is_given_back_only_where_that_was_said() -> None:
    history = (SPLIT, *paid(1, 4000))
    given(*history).when(cancel()).then_rejected(
        OrderHasCapturedFunds, currentStatus=OrderStatus.PARTIALLY_PAID, refundableAmount=4000
    )
    given(*history).when(cancel(refund_captured=True)).then(
        requested(refund_captured=True), refund_asked(1, 4000, reason="cancelled")
    )


def test_an_order_ends_refunded_once_all_went_back() -> None:
    order = (
        given(*GIVING_BACK).when(refund_answered(gave_back(4000))).then(refunded(1, 4000), e.OrderCancelled(at=NOON))
    )
    assert order.status is OrderStatus.REFUNDED


def test_an_order_stands_whose_refund_was_refused() -> None:
    refused = e.RefundRefused(refund_id=refund_id(1), payment_id=ONE, code="X", at=NOON)
    order = (
        given(*GIVING_BACK)
        .when(refund_answered(o.RefundRefused(code="X")))
        .then(refused, e.CancellationRefused(at=NOON))
    )
    assert order.status is OrderStatus.PARTIALLY_PAID


@pytest.mark.parametrize("refund_captured", [False, True])
def test_a_paid_order_is_refunded_and_not_cancelled(refund_captured: bool) -> None:
    given(created(), *paid(1, 10000)).when(cancel(refund_captured=refund_captured)).then_rejected(
        OrderHasCapturedFunds, currentStatus=OrderStatus.COMPLETED, refundableAmount=10000
    )


@pytest.mark.parametrize(
    "history",
    [
        (created(), e.OrderCancelled(at=NOON)),
        (created(), *paid(1, 10000), refund_asked(1, 10000), refunded(1, 10000)),
        (created(), *paid(1, 10000), refund_asked(1, 10000)),
        capturing(BY_HAND),
        going_on(created(), CHALLENGE),
    ],
    ids=["cancelled", "refunded", "refund in flight", "being captured", "being authenticated"],
)
def test_what_has_ended_or_is_being_carried_out_cannot_be_cancelled(history: tuple[object, ...]) -> None:
    with pytest.raises(InvalidOrderState):
        decide_cancellation(folded(history), cancel(2, refund_captured=True))


def test_one_part_of_a_split_order_is_cancelled_alone() -> None:
    history = granted(SPLIT_BY_HAND, 4000, 4000)
    given(*history).when(cancel_payment()).then(void_asked(1, VOID))
    order = given(*history, void_asked(1, VOID)).when(void_answered(CONFIRMS)).then(gone(e.CancelledBecause.VOIDED))
    assert order.status is OrderStatus.PENDING
    given(*at_store(SPLIT, 4000)).when(cancel_payment()).then(gone(e.CancelledBecause.PAYMENT_CANCELLED))
    given(*card(SPLIT, 1, 4000)).when(cancel_payment()).then(e.PaymentCancellationRequested(payment_id=ONE, at=NOON))


def test_the_only_payment_of_an_order_is_cancelled_with_it() -> None:
    given(*granted(BY_HAND)).when(cancel_payment()).then_rejected(
        InvalidOrderState, currentStatus=OrderStatus.AUTHORIZED, allowedStatuses=()
    )
    given(*granted(BY_HAND)).when(cancel_payment(2)).then_rejected(PaymentNotFound)


def test_money_that_was_taken_cannot_be_voided() -> None:
    given(SPLIT, *paid(1, 4000)).when(cancel_payment()).then_rejected(
        InvalidOrderState, currentStatus=OrderStatus.PARTIALLY_PAID, allowedStatuses=()
    )


def test_a_capture_that_comes_during_a_void_keeps_the_money() -> None:
    kept = e.VoidRefused(payment_id=ONE, code="ALREADY_CAPTURED", at=NOON)
    events = (
        given(*VOIDING)
        .when(capture_answered(o.Captured(amount=approved(10000).captured, processor_reference="ref")))
        .then_events()
    )
    assert events[0] == kept
    assert events[-2:] == [captured(1, 10000), e.CancellationRefused(at=NOON)]


def test_a_capture_that_was_due_before_its_void_is_due_again() -> None:
    history = (*granted(created()), scheduled(1, 10000), void_asked(1, VOID))
    refused = e.VoidRefused(payment_id=ONE, code="X", at=NOON)
    given(*history).when(void_answered(REFUSES)).then(refused, scheduled(1, 10000))


def test_a_void_that_was_given_up_and_comes_about_after_all_ends_the_cancelled_order() -> None:
    events = given(*REFUSED).when(void_answered(CONFIRMS, name="void-9")).then_events()
    assert events[0] == requested()
    assert events[2:] == [gone(e.CancelledBecause.VOIDED), e.OrderCancelled(at=NOON)]
    assert folded([*REFUSED, *events]).status is OrderStatus.CANCELLED
