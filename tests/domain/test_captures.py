"""Taking what was authorised: by the merchant's word, by the clock, and what the processor says to it (contract N41)."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest
from tests.domain.asking import CAPTURE, capture, capture_answered, due_capture, took
from tests.domain.moves import BY_HAND, ONCE, ONE, SPLIT_BY_HAND, capturing, card, granted
from tests.domain.scenario import given
from tests.domain.story import DEADLINE, NOON, captured, folded, paid, payment_id, scheduled

from ledger.domain.orders import events as e
from ledger.domain.orders import processor_outcomes as o
from ledger.domain.orders.processor_outcomes import NotFound, NotSent, Unanswered
from ledger.domain.orders.statuses import OrderStatus, PaymentStatus
from ledger.domain.rejections import (
    AmountExceedsPending,
    CaptureExceedsAuthorized,
    InvalidField,
    InvalidOrderState,
    PaymentNotFound,
)

CAPTURABLE = (OrderStatus.AUTHORIZED, OrderStatus.PARTIALLY_AUTHORIZED)
DUE = (*granted(ONCE), e.CaptureScheduled(payment_id=ONE, amount=Decimal(10000), due_at=NOON, at=NOON))
REFUSED = e.CaptureRefused(payment_id=ONE, code="X", retryable=True, at=NOON)
HALF_TAKEN = (*capturing(BY_HAND, 6000), captured(1, 6000))


def asked_to_take(amount: int, name: str = CAPTURE, n: int = 1) -> e.CaptureRequested:
    return e.CaptureRequested(
        payment_id=payment_id(n), amount=Decimal(amount), idempotency_key=name, deadline_at=DEADLINE, at=NOON
    )


def later(amount: int, after: timedelta) -> e.CaptureScheduled:
    return e.CaptureScheduled(payment_id=ONE, amount=Decimal(amount), due_at=NOON + after, at=NOON)


def test_all_of_an_authorisation_is_captured_where_no_amount_is_said() -> None:
    given(*granted(BY_HAND)).when(capture()).then(scheduled(1, 10000), asked_to_take(10000))


def test_a_part_is_captured_and_the_rest_another_time() -> None:
    given(*granted(BY_HAND)).when(capture(6000)).then(scheduled(1, 6000), asked_to_take(6000))
    given(*HALF_TAKEN).when(capture(None, "capture-2")).then(asked_to_take(4000, "capture-2"))


def test_no_more_is_captured_than_was_granted() -> None:
    given(*granted(BY_HAND, 6000)).when(capture(6001)).then_rejected(CaptureExceedsAuthorized, authorizedAmount=6000)
    given(*HALF_TAKEN).when(capture(4001, "capture-2")).then_rejected(CaptureExceedsAuthorized, authorizedAmount=4000)


@pytest.mark.parametrize("amount", [0, "0.5"])
def test_a_capture_is_a_multiple_of_the_quantum(amount: str) -> None:
    given(*granted(BY_HAND)).when(capture(amount)).then_rejected(InvalidField, field="amount")


@pytest.mark.parametrize(
    "history",
    [(BY_HAND,), card(BY_HAND), capturing(BY_HAND), (BY_HAND, *paid(1, 10000))],
    ids=["none", "asked", "now", "done"],
)
def test_only_what_is_authorised_can_be_captured(history: tuple[object, ...]) -> None:
    given(*history).when(capture(name="capture-2")).then_rejected(
        InvalidOrderState, currentStatus=folded(history).status, allowedStatuses=CAPTURABLE
    )


def test_an_order_that_is_being_cancelled_is_not_captured() -> None:
    asked = e.CancellationRequested(cancellation_id=ONE, refund_captured=False, at=NOON)
    given(*granted(BY_HAND), asked).when(capture()).then_rejected(
        InvalidOrderState, currentStatus=OrderStatus.CANCELLATION_REQUESTED, allowedStatuses=CAPTURABLE
    )
    assert given(*DUE, asked).when(due_capture()).then_events() == []


def test_a_payment_of_another_order_is_not_found() -> None:
    given(*granted(BY_HAND)).when(capture(n=2)).then_rejected(PaymentNotFound)


def test_the_rest_of_a_part_is_not_captured_where_others_have_paid_it() -> None:
    history = (*granted(SPLIT_BY_HAND), scheduled(1, 6000), asked_to_take(6000), captured(1, 6000), *paid(2, 3000))
    given(*history).when(capture(4000, "capture-2", n=1)).then_rejected(
        AmountExceedsPending, amountPending=1000, amountReserved=0
    )
    given(*history).when(capture(1000, "capture-2", n=1)).then(asked_to_take(1000, "capture-2"))


def test_a_capture_that_is_due_begins_and_none_before_its_time() -> None:
    given(*DUE).when(due_capture()).then(asked_to_take(10000))
    assert given(*DUE).when(due_capture(at=NOON - timedelta(seconds=1))).then_events() == []


def test_money_that_was_taken_is_recorded_once() -> None:
    order = given(*capturing(BY_HAND)).when(capture_answered(took(10000))).then(captured(1, 10000))
    assert order.status is OrderStatus.COMPLETED


def test_an_automatic_capture_that_was_refused_for_now_comes_again_an_hour_later() -> None:
    refusal = capture_answered(o.CaptureRefused(code="X", retryable=True))
    given(*capturing(ONCE)).when(refusal).then(REFUSED, later(10000, timedelta(hours=1)))
    given(*capturing(BY_HAND)).when(refusal).then(REFUSED)


def test_a_final_refusal_fails_the_payment() -> None:
    refused = e.CaptureRefused(payment_id=ONE, code="X", retryable=False, at=NOON)
    order = given(*capturing(ONCE)).when(capture_answered(o.CaptureRefused(code="X"))).then(refused)
    assert order.status is OrderStatus.FAILED


def test_a_silence_is_noted_once() -> None:
    silence = e.CallUnanswered(payment_id=ONE, call=e.ProcessorCall.CAPTURE, reason="no answer", at=NOON)
    order = given(*capturing(ONCE)).when(capture_answered(Unanswered(reason="no answer"))).then(silence)
    assert order.payments[0].status is PaymentStatus.CAPTURING


@pytest.mark.parametrize(
    ("outcome", "because"), [(NotSent(), e.AbandonedBecause.NOT_SENT), (NotFound(), e.AbandonedBecause.NOT_FOUND)]
)
def test_an_automatic_capture_that_never_was_comes_again_a_minute_later(
    outcome: object, because: e.AbandonedBecause
) -> None:
    abandoned = e.CallAbandoned(payment_id=ONE, call=e.ProcessorCall.CAPTURE, because=because, at=NOON)
    given(*capturing(ONCE)).when(capture_answered(outcome)).then(abandoned, later(10000, timedelta(minutes=1)))  # type: ignore[arg-type]
    given(*capturing(BY_HAND)).when(capture_answered(outcome)).then(abandoned)  # type: ignore[arg-type]


def test_a_capture_that_was_given_up_and_comes_about_after_all_is_recorded() -> None:
    given(*capturing(BY_HAND), REFUSED).when(capture_answered(took(10000))).then(
        scheduled(1, 10000),
        e.CaptureRequested(payment_id=ONE, amount=Decimal(10000), idempotency_key=CAPTURE, deadline_at=NOON, at=NOON),
        captured(1, 10000),
    )


def test_a_refusal_of_another_call_is_not_this_ones() -> None:
    assert given(*capturing(ONCE)).when(capture_answered(o.CaptureRefused(code="X"), name="other")).then_events() == []
