"""Cancelling an order or one part of it: voids, refunds, and the end of a cancellation (contract N40)."""

from __future__ import annotations

import pytest
from tests.domain.action_builders import (
    VOID_KEY,
    cancel,
    cancel_payment,
    cancellation_id,
    record_capture,
    record_refund,
    record_void,
    refund_outcome,
)
from tests.domain.builders import (
    DEADLINE,
    NOON,
    SPLIT,
    approved,
    authorized_and_captured,
    captured,
    created,
    folded,
    paid,
    payment_id,
    record_authorization,
    refund_id,
    refund_requested,
    refunded,
    scheduled,
)
from tests.domain.scenario import given
from tests.domain.transition_rows import (
    CHALLENGE,
    MANUAL_CAPTURE,
    ONE,
    SPLIT_MANUAL_CAPTURE,
    authenticating,
    awaiting_deposit,
    capturing,
    with_authorization,
    with_card_payment,
)

from ledger.domain.orders import events as e
from ledger.domain.orders import processor_outcomes as o
from ledger.domain.orders.decide.cancellation import decide_cancellation
from ledger.domain.orders.processor_outcomes import Declined, NotFound, NotSent, Unanswered
from ledger.domain.orders.statuses import OrderStatus, PaymentStatus
from ledger.domain.rejections import InvalidOrderState, OrderHasCapturedFunds, PaymentNotFound

REFUSES, CONFIRMS = o.VoidRefused(code="X"), o.Voided(processor_reference="ref")


def cancellation_requested(n: int = 1, *, refund_captured: bool = False) -> e.CancellationRequested:
    return e.CancellationRequested(cancellation_id=cancellation_id(n), refund_captured=refund_captured, at=NOON)


def void_requested(n: int = 1, name: str | None = None) -> e.VoidRequested:
    key = name or f"{cancellation_id()}:{payment_id(n)}"
    return e.VoidRequested(payment_id=payment_id(n), idempotency_key=key, deadline_at=DEADLINE, at=NOON)


def cancelled(because: e.CancelledBecause, n: int = 1) -> e.PaymentCancelled:
    return e.PaymentCancelled(payment_id=payment_id(n), because=because, at=NOON)


VOIDING = (*with_authorization(MANUAL_CAPTURE), cancellation_requested(), void_requested(1, VOID_KEY))
REFUSED = (*VOIDING, e.VoidRefused(payment_id=ONE, code="X", at=NOON), e.CancellationRefused(at=NOON))
GIVING_BACK = (SPLIT, *paid(1, 4000), cancellation_requested(refund_captured=True), refund_requested(1, 4000))


def test_an_order_without_a_payment_is_closed_at_once() -> None:
    closed = e.OrderCancelled(at=NOON, cancellation_id=cancellation_id(), reason="changed my mind")
    given_order = given(created()).when(cancel(reason="changed my mind")).then(closed)
    assert given_order.status is OrderStatus.CANCELLED


def test_a_cancellation_of_the_order_ends_its_reference() -> None:
    closed = e.OrderCancelled(at=NOON, cancellation_id=cancellation_id())
    given(*awaiting_deposit(created())).when(cancel()).then(closed, cancelled(e.CancelledBecause.ORDER_CANCELLED))


def test_a_cancellation_waits_for_the_outcome_of_an_open_authorisation() -> None:
    order = (
        given(*with_card_payment(created()))
        .when(cancel())
        .then(cancellation_requested(), e.PaymentCancellationRequested(payment_id=ONE, at=NOON))
    )
    assert order.status is OrderStatus.CANCELLATION_REQUESTED


def test_an_authorisation_is_voided_under_a_key_of_the_cancellation() -> None:
    given(*with_authorization(MANUAL_CAPTURE)).when(cancel()).then(cancellation_requested(), void_requested())


def test_a_confirmed_void_closes_the_order() -> None:
    order = (
        given(*VOIDING)
        .when(record_void(CONFIRMS))
        .then(cancelled(e.CancelledBecause.VOIDED), e.OrderCancelled(at=NOON))
    )
    assert order.status is OrderStatus.CANCELLED
    assert order.cancellation.cancellation_id == cancellation_id()


def test_a_refused_void_ends_the_cancellation_and_keeps_the_order_open() -> None:
    order = given(*VOIDING).when(record_void(REFUSES)).then(*REFUSED[-2:])
    assert order.status is OrderStatus.AUTHORIZED


def test_a_cancellation_after_a_refused_one_is_recognised_when_repeated() -> None:
    lapsed = e.PaymentExpired(payment_id=ONE, because=e.ExpiredBecause.AUTHORIZATION, at=NOON)
    closed = e.OrderCancelled(at=NOON, cancellation_id=cancellation_id(2))
    history = (*with_authorization(SPLIT_MANUAL_CAPTURE), *REFUSED[len(with_authorization(MANUAL_CAPTURE)) :], lapsed)
    order = given(*history).when(cancel(2)).then(closed)
    assert order.cancellation.cancellation_id == cancellation_id(2)
    with pytest.raises(InvalidOrderState):
        decide_cancellation(order, cancel(3))


def test_a_cancellation_while_another_is_pending_is_absorbed() -> None:
    assert given(*VOIDING).when(cancel(2)).then_events() == []


def test_a_void_without_an_answer_is_recorded_once() -> None:
    unanswered = e.CallUnanswered(payment_id=ONE, call=e.ProcessorCall.VOID, reason="no answer", at=NOON)
    given(*VOIDING).when(record_void(Unanswered(reason="no answer"))).then(unanswered)


@pytest.mark.parametrize(
    ("outcome", "because"), [(NotSent(), e.AbandonedBecause.NOT_SENT), (NotFound(), e.AbandonedBecause.NOT_FOUND)]
)
def test_an_abandoned_void_is_requested_again(outcome: object, because: e.AbandonedBecause) -> None:
    abandoned = e.CallAbandoned(payment_id=ONE, call=e.ProcessorCall.VOID, because=because, at=NOON)
    order = given(*VOIDING).when(record_void(outcome)).then(abandoned)  # type: ignore[arg-type]  # one of them
    assert order.status is OrderStatus.CANCELLATION_REQUESTED
    given(*VOIDING, abandoned).when(cancel_payment(name="void-2")).then(void_requested(1, "void-2"))


def test_the_outcome_of_another_voids_call_is_ignored() -> None:
    assert given(*VOIDING).when(record_void(REFUSES, name="other")).then_events() == []


def test_money_that_arrives_before_the_void_ends_the_cancellation() -> None:
    cancelling = (
        *with_card_payment(created()),
        cancellation_requested(),
        e.PaymentCancellationRequested(payment_id=ONE, at=NOON),
    )
    order = (
        given(*cancelling)
        .when(record_authorization(1, approved(10000)))
        .then(*authorized_and_captured(1, 10000), e.CancellationRefused(at=NOON))
    )
    assert order.status is OrderStatus.COMPLETED


def test_a_payment_that_is_declined_during_its_cancellation_is_cancelled() -> None:
    cancelling = (
        *with_card_payment(created()),
        cancellation_requested(),
        e.PaymentCancellationRequested(payment_id=ONE, at=NOON),
    )
    never_authorized = cancelled(e.CancelledBecause.NEVER_AUTHORIZED)
    order = (
        given(*cancelling)
        .when(record_authorization(1, Declined(code="DO_NOT_HONOR")))
        .then(never_authorized, e.OrderCancelled(at=NOON))
    )
    assert (order.status, order.payments[0].status) == (OrderStatus.CANCELLED, PaymentStatus.CANCELLED)


def test_an_authorisation_after_its_cancellation_is_requested_waits_for_its_void() -> None:
    cancelling = (
        *with_card_payment(MANUAL_CAPTURE),
        cancellation_requested(),
        e.PaymentCancellationRequested(payment_id=ONE, at=NOON),
    )
    events = given(*cancelling).when(record_authorization(1, approved(10000, 0))).then_events()
    assert [type(event) for event in events] == [e.PaymentAuthorized]
    assert folded([*cancelling, *events]).status is OrderStatus.CANCELLATION_REQUESTED


def test_a_cancellation_refunds_held_money_only_where_requested() -> None:
    history = (SPLIT, *paid(1, 4000))
    given(*history).when(cancel()).then_rejected(
        OrderHasCapturedFunds, currentStatus=OrderStatus.PARTIALLY_PAID, refundableAmount=4000
    )
    given(*history).when(cancel(refund_captured=True)).then(
        cancellation_requested(refund_captured=True), refund_requested(1, 4000, reason="cancelled")
    )


def test_a_cancellation_whose_refund_succeeds_ends_in_refunded() -> None:
    order = (
        given(*GIVING_BACK).when(record_refund(refund_outcome(4000))).then(refunded(1, 4000), e.OrderCancelled(at=NOON))
    )
    assert order.status is OrderStatus.REFUNDED


def test_a_cancellation_waits_for_the_refunds_of_all_payments() -> None:
    two_refunds = (refund_requested(1, 4000), refund_requested(2, 5000))
    history = (SPLIT, *paid(1, 4000), *paid(2, 5000), cancellation_requested(refund_captured=True), *two_refunds)
    order = given(*history).when(record_refund(refund_outcome(4000))).then(refunded(1, 4000))
    assert order.status is OrderStatus.CANCELLATION_REQUESTED
    given(*history, refunded(1, 4000)).when(record_refund(refund_outcome(5000), payment=2)).then(
        refunded(2, 5000), e.OrderCancelled(at=NOON)
    )


def test_a_refused_refund_ends_the_cancellation_and_keeps_the_order_open() -> None:
    refused = e.RefundRefused(refund_id=refund_id(1), payment_id=ONE, code="X", at=NOON)
    order = (
        given(*GIVING_BACK).when(record_refund(o.RefundRefused(code="X"))).then(refused, e.CancellationRefused(at=NOON))
    )
    assert order.status is OrderStatus.PARTIALLY_PAID


@pytest.mark.parametrize("refund_captured", [False, True])
def test_a_paid_order_cannot_be_cancelled(refund_captured: bool) -> None:
    given(created(), *paid(1, 10000)).when(cancel(refund_captured=refund_captured)).then_rejected(
        OrderHasCapturedFunds, currentStatus=OrderStatus.COMPLETED, refundableAmount=10000
    )


@pytest.mark.parametrize(
    "history",
    [
        (created(), e.OrderCancelled(at=NOON)),
        (created(), *paid(1, 10000), refund_requested(1, 10000), refunded(1, 10000)),
        (created(), *paid(1, 10000), refund_requested(1, 10000)),
        capturing(MANUAL_CAPTURE),
        authenticating(created(), CHALLENGE),
    ],
    ids=["cancelled", "refunded", "refund in flight", "being captured", "being authenticated"],
)
def test_an_ended_or_unstoppable_order_cannot_be_cancelled(history: tuple[object, ...]) -> None:
    with pytest.raises(InvalidOrderState):
        decide_cancellation(folded(history), cancel(2, refund_captured=True))


def test_one_part_of_a_split_order_is_cancelled_alone() -> None:
    history = with_authorization(SPLIT_MANUAL_CAPTURE, 4000, 4000)
    given(*history).when(cancel_payment()).then(void_requested(1, VOID_KEY))
    order = (
        given(*history, void_requested(1, VOID_KEY))
        .when(record_void(CONFIRMS))
        .then(cancelled(e.CancelledBecause.VOIDED))
    )
    assert order.status is OrderStatus.PENDING
    given(*awaiting_deposit(SPLIT, 4000)).when(cancel_payment()).then(cancelled(e.CancelledBecause.PAYMENT_CANCELLED))
    given(*with_card_payment(SPLIT, 1, 4000)).when(cancel_payment()).then(
        e.PaymentCancellationRequested(payment_id=ONE, at=NOON)
    )


def test_the_payment_of_an_order_of_one_tender_cannot_be_cancelled_alone() -> None:
    given(*with_authorization(MANUAL_CAPTURE)).when(cancel_payment()).then_rejected(
        InvalidOrderState, currentStatus=OrderStatus.AUTHORIZED, allowedStatuses=()
    )
    given(*with_authorization(MANUAL_CAPTURE)).when(cancel_payment(2)).then_rejected(PaymentNotFound)


def test_a_captured_payment_cannot_be_voided() -> None:
    given(SPLIT, *paid(1, 4000)).when(cancel_payment()).then_rejected(
        InvalidOrderState, currentStatus=OrderStatus.PARTIALLY_PAID, allowedStatuses=()
    )


def test_a_capture_that_is_reported_during_a_void_keeps_the_money() -> None:
    kept = e.VoidRefused(payment_id=ONE, code="ALREADY_CAPTURED", at=NOON)
    events = (
        given(*VOIDING)
        .when(record_capture(o.Captured(amount=approved(10000).captured, processor_reference="ref")))
        .then_events()
    )
    assert events[0] == kept
    assert events[-2:] == [captured(1, 10000), e.CancellationRefused(at=NOON)]


def test_a_refused_void_makes_the_scheduled_capture_due_again() -> None:
    history = (*with_authorization(created()), scheduled(1, 10000), void_requested(1, VOID_KEY))
    refused = e.VoidRefused(payment_id=ONE, code="X", at=NOON)
    given(*history).when(record_void(REFUSES)).then(refused, scheduled(1, 10000))


def test_a_late_success_of_an_abandoned_void_completes_the_cancellation() -> None:
    events = given(*REFUSED).when(record_void(CONFIRMS, name="void-9")).then_events()
    assert events[0] == cancellation_requested()
    assert events[2:] == [cancelled(e.CancelledBecause.VOIDED), e.OrderCancelled(at=NOON)]
    assert folded([*REFUSED, *events]).status is OrderStatus.CANCELLED
