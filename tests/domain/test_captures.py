"""Captures by the merchant and by the clock, and their outcomes (contract N41)."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal

import pytest
from msgspec.structs import replace
from tests.domain.action_builders import (
    CAPTURE_KEY,
    capture,
    capture_outcome,
    record_capture,
    record_void,
    start_capture,
)
from tests.domain.builders import (
    DEADLINE,
    NOON,
    captured,
    folded,
    late_capture,
    paid,
    payment_id,
    record_authorization,
    scheduled,
)
from tests.domain.scenario import given
from tests.domain.transition_rows import (
    MANUAL_CAPTURE,
    ONE,
    PAID_AT_CREATION,
    SPLIT_MANUAL_CAPTURE,
    capturing,
    with_authorization,
    with_card_payment,
)

from ledger.domain.money import ZERO
from ledger.domain.orders import events as e
from ledger.domain.orders import processor_outcomes as o
from ledger.domain.orders.payment import EntryAction, EntryStatus
from ledger.domain.orders.processor_outcomes import NotFound, NotSent, Unanswered
from ledger.domain.orders.statuses import OrderStatus, PaymentStatus
from ledger.domain.orders.timers import Timer, TimerKind, decide_timer, timer_key, timers_of
from ledger.domain.rejections import (
    AmountExceedsPending,
    CaptureExceedsAuthorized,
    InvalidField,
    InvalidOrderState,
    PaymentNotFound,
)

CAPTURABLE = (OrderStatus.AUTHORIZED, OrderStatus.PARTIALLY_AUTHORIZED)
DUE = (
    *with_authorization(PAID_AT_CREATION),
    e.CaptureScheduled(payment_id=ONE, amount=Decimal(10000), due_at=NOON, at=NOON),
)
REFUSED = e.CaptureRefused(
    payment_id=ONE, code="ISSUER_UNAVAILABLE", retryable=True, at=NOON, message="The card's bank cannot be reached."
)
LAPSE = NOON + timedelta(days=7)
HALF_TAKEN = (*capturing(MANUAL_CAPTURE, 6000), captured(1, 6000))


def capture_requested(amount: int, name: str = CAPTURE_KEY, n: int = 1) -> e.CaptureRequested:
    return e.CaptureRequested(
        payment_id=payment_id(n), amount=Decimal(amount), idempotency_key=name, deadline_at=DEADLINE, at=NOON
    )


def capture_due_after(amount: int, after: timedelta) -> e.CaptureScheduled:
    return e.CaptureScheduled(payment_id=ONE, amount=Decimal(amount), due_at=NOON + after, at=NOON)


def test_a_capture_without_an_amount_takes_the_whole_authorisation() -> None:
    given(*with_authorization(MANUAL_CAPTURE)).when(capture()).then(scheduled(1, 10000), capture_requested(10000))


def test_an_authorisation_can_be_captured_in_two_parts() -> None:
    given(*with_authorization(MANUAL_CAPTURE)).when(capture(6000)).then(scheduled(1, 6000), capture_requested(6000))
    given(*HALF_TAKEN).when(capture(None, "capture-2")).then(capture_requested(4000, "capture-2"))


def test_a_capture_cannot_exceed_the_authorisation() -> None:
    given(*with_authorization(MANUAL_CAPTURE, 6000)).when(capture(6001)).then_rejected(
        CaptureExceedsAuthorized, authorizedAmount=6000
    )
    given(*HALF_TAKEN).when(capture(4001, "capture-2")).then_rejected(CaptureExceedsAuthorized, authorizedAmount=4000)


@pytest.mark.parametrize("amount", [0, "0.5"])
def test_a_capture_is_a_multiple_of_the_quantum(amount: str) -> None:
    given(*with_authorization(MANUAL_CAPTURE)).when(capture(amount)).then_rejected(InvalidField, field="amount")


@pytest.mark.parametrize(
    "history",
    [
        (MANUAL_CAPTURE,),
        with_card_payment(MANUAL_CAPTURE),
        capturing(MANUAL_CAPTURE),
        (MANUAL_CAPTURE, *paid(1, 10000)),
    ],
    ids=["none", "asked", "now", "done"],
)
def test_only_what_is_authorised_can_be_captured(history: tuple[object, ...]) -> None:
    given(*history).when(capture(name="capture-2")).then_rejected(
        InvalidOrderState, currentStatus=folded(history).status, allowedStatuses=CAPTURABLE
    )


def test_an_order_that_is_being_cancelled_is_not_captured() -> None:
    cancellation = e.CancellationRequested(cancellation_id=ONE, refund_captured=False, at=NOON)
    given(*with_authorization(MANUAL_CAPTURE), cancellation).when(capture()).then_rejected(
        InvalidOrderState, currentStatus=OrderStatus.CANCELLATION_REQUESTED, allowedStatuses=CAPTURABLE
    )
    assert given(*DUE, cancellation).when(start_capture()).then_events() == []


def test_a_payment_of_another_order_is_not_found() -> None:
    given(*with_authorization(MANUAL_CAPTURE)).when(capture(n=2)).then_rejected(PaymentNotFound)


def test_the_rest_of_an_authorisation_cannot_be_captured_where_others_have_paid_it() -> None:
    history = (
        *with_authorization(SPLIT_MANUAL_CAPTURE),
        scheduled(1, 6000),
        capture_requested(6000),
        captured(1, 6000),
        *paid(2, 3000),
    )
    given(*history).when(capture(4000, "capture-2", n=1)).then_rejected(
        AmountExceedsPending, amountPending=1000, amountReserved=0
    )
    given(*history).when(capture(1000, "capture-2", n=1)).then(capture_requested(1000, "capture-2"))


def test_a_scheduled_capture_starts_when_due_and_not_before() -> None:
    given(*DUE).when(start_capture()).then(capture_requested(10000))
    assert given(*DUE).when(start_capture(at=NOON - timedelta(seconds=1))).then_events() == []


def test_captured_money_is_recorded_once() -> None:
    order = given(*capturing(MANUAL_CAPTURE)).when(record_capture(capture_outcome(10000))).then(captured(1, 10000))
    assert order.status is OrderStatus.COMPLETED


def test_an_automatic_capture_with_a_retryable_refusal_is_due_again_after_an_hour() -> None:
    refusal = record_capture(o.CaptureRefused(code="ISSUER_UNAVAILABLE", retryable=True))
    given(*capturing(PAID_AT_CREATION)).when(refusal).then(REFUSED, capture_due_after(10000, timedelta(hours=1)))
    given(*capturing(MANUAL_CAPTURE)).when(refusal).then(replace(REFUSED, kept=True))


def refused_times(times: int) -> tuple[object, ...]:
    """Returns a capture that is requested once more after so many refusals that pass."""
    refused = (REFUSED, capture_due_after(10000, timedelta()))
    again = [[*refused, capture_requested(10000, f"capture-{n}")] for n in range(2, 2 + times)]
    return (*capturing(PAID_AT_CREATION), *[event for events in again for event in events])


@pytest.mark.parametrize(("times", "hours"), [(1, 2), (2, 4), (4, 16), (5, 24), (30, 24)])
def test_an_automatic_capture_backs_off_from_refusal_to_refusal(times: int, hours: int) -> None:
    outcome = o.CaptureRefused(code="ISSUER_UNAVAILABLE", retryable=True)
    refusal = record_capture(outcome, name=f"capture-{times + 1}")
    due = capture_due_after(10000, timedelta(hours=hours))
    given(*refused_times(times)).when(refusal).then(REFUSED, due)


@pytest.mark.parametrize(("left", "again"), [(timedelta(hours=1), False), (timedelta(minutes=61), True)])
def test_an_automatic_capture_is_not_due_again_after_its_authorisation_lapses(left: timedelta, again: bool) -> None:
    at = LAPSE - left
    refusal = replace(record_capture(o.CaptureRefused(code="ISSUER_UNAVAILABLE", retryable=True)), at=at)
    events = given(*capturing(PAID_AT_CREATION)).when(refusal).then_events()
    assert [type(event) for event in events] == [e.CaptureRefused, e.CaptureScheduled][: 1 + again]
    order = folded((*capturing(PAID_AT_CREATION), *events))
    assert order.status is OrderStatus.AUTHORIZED
    assert [timer.at for timer in timers_of(order)] == [at + timedelta(hours=1) if again else LAPSE]


def test_an_approval_without_the_requested_capture_makes_it_due_at_once() -> None:
    only_granted = record_authorization(
        1, o.Approved(authorized=Decimal(9000), captured=ZERO, processor_reference="ref")
    )
    events = given(*with_card_payment(PAID_AT_CREATION)).when(only_granted).then_events()
    assert events[1:] == [scheduled(1, 9000)]
    [timer] = timers_of(folded((*with_card_payment(PAID_AT_CREATION), *events)))
    assert (timer.kind, timer.at) == (TimerKind.CAPTURE, NOON)
    assert len(given(*with_card_payment(MANUAL_CAPTURE)).when(only_granted).then_events()) == 1
    cancelled = e.PaymentCancellationRequested(payment_id=ONE, at=NOON)
    assert len(given(*with_card_payment(PAID_AT_CREATION), cancelled).when(only_granted).then_events()) == 1


REFUSED_FOR_GOOD = (
    *capturing(PAID_AT_CREATION),
    e.CaptureRefused(
        payment_id=ONE, code="GENERIC_DECLINE", retryable=False, at=NOON, message="The payment was declined."
    ),
)
RELEASE = e.VoidRequested(payment_id=ONE, idempotency_key=f"{ONE}:void:2", deadline_at=DEADLINE, at=NOON)
RELEASED = e.PaymentCancelled(payment_id=ONE, because=e.CancelledBecause.VOIDED, at=NOON)


def test_a_final_refusal_fails_a_payment_with_its_decline() -> None:
    refusal = record_capture(o.CaptureRefused(code="X"))
    order = given(*capturing(PAID_AT_CREATION)).when(refusal).then(REFUSED_FOR_GOOD[-1])
    assert order.status is OrderStatus.FAILED
    assert order.payments[0].failure.code == "GENERIC_DECLINE"
    entry = order.payments[0].entries[-1]
    assert (entry.action, entry.status) == (EntryAction.CAPTURE, EntryStatus.FAILED)


def test_a_final_refusal_of_a_capture_by_hand_leaves_the_payment_authorised() -> None:
    refusal = record_capture(o.CaptureRefused(code="X"))
    order = given(*capturing(MANUAL_CAPTURE)).when(refusal).then(replace(REFUSED_FOR_GOOD[-1], kept=True))
    assert order.status is OrderStatus.AUTHORIZED
    given(*capturing(MANUAL_CAPTURE), replace(REFUSED_FOR_GOOD[-1], kept=True)).when(capture(name="capture-2")).then(
        scheduled(1, 10000), capture_requested(10000, "capture-2")
    )


def decided_release(*history: object, at: datetime = NOON) -> list[e.OrderEvent]:
    """Returns what the void that is due leads to, with the key of a worker that reads the timer now."""
    order = folded(history)
    timer = Timer(TimerKind.VOID, ONE, NOON)
    return decide_timer(order, timer, timer_key(order, timer), DEADLINE, at)


def test_the_authorisation_of_a_refused_capture_is_voided_once_and_the_payment_stays_failed() -> None:
    order = folded(REFUSED_FOR_GOOD)
    assert [(timer.kind, timer.at) for timer in timers_of(order)] == [(TimerKind.VOID, NOON)]
    assert decided_release(*REFUSED_FOR_GOOD) == [RELEASE]
    assert decided_release(*REFUSED_FOR_GOOD, at=LAPSE) == [], "it has lapsed"
    voiding = (*REFUSED_FOR_GOOD, RELEASE)
    assert (folded(voiding).status, timers_of(folded(voiding))) == (OrderStatus.FAILED, ())
    voided = record_void(o.Voided(processor_reference="v"), name=RELEASE.idempotency_key)
    order = given(*voiding).when(voided).then(RELEASED)
    assert (order.payments[0].status, order.payments[0].intent) == (PaymentStatus.FAILED, None)
    assert timers_of(order) == ()
    assert decided_release(*voiding, RELEASED) == []


def test_a_void_of_a_failed_payment_that_is_refused_is_not_repeated() -> None:
    refusal = record_void(o.VoidRefused(code="VOID_REFUSED"), name=RELEASE.idempotency_key)
    order = (
        given(*REFUSED_FOR_GOOD, RELEASE)
        .when(refusal)
        .then(e.VoidRefused(payment_id=ONE, code="VOID_REFUSED", at=NOON))
    )
    assert (order.payments[0].status, timers_of(order)) == (PaymentStatus.FAILED, ())


def test_a_void_of_a_failed_payment_that_was_given_up_is_due_again_and_its_late_success_counts() -> None:
    abandoned = e.CallAbandoned(
        payment_id=ONE, call=e.ProcessorCall.VOID, because=e.AbandonedBecause.NOT_FOUND, at=NOON
    )
    history = (*REFUSED_FOR_GOOD, RELEASE, abandoned)
    assert folded(history).payments[0].status is PaymentStatus.FAILED
    assert [timer.kind for timer in timers_of(folded(history))] == [TimerKind.VOID]
    voided = record_void(o.Voided(processor_reference="v"), name=RELEASE.idempotency_key)
    order = given(*history).when(voided).then(replace(RELEASE, deadline_at=NOON), RELEASED)
    assert (order.payments[0].status, timers_of(order)) == (PaymentStatus.FAILED, ())


def test_money_of_a_refused_capture_that_was_taken_after_all_is_recorded_and_not_voided() -> None:
    order = (
        given(*REFUSED_FOR_GOOD)
        .when(record_capture(capture_outcome(10000)))
        .then(replace(late_capture(1, 10000), idempotency_key=CAPTURE_KEY))
    )
    assert (order.amount_paid, timers_of(order)) == (10000, ())


def test_a_call_without_an_answer_is_recorded_once() -> None:
    unanswered = e.CallUnanswered(payment_id=ONE, call=e.ProcessorCall.CAPTURE, reason="no answer", at=NOON)
    order = given(*capturing(PAID_AT_CREATION)).when(record_capture(Unanswered(reason="no answer"))).then(unanswered)
    assert order.payments[0].status is PaymentStatus.CAPTURING


@pytest.mark.parametrize(
    ("outcome", "because"), [(NotSent(), e.AbandonedBecause.NOT_SENT), (NotFound(), e.AbandonedBecause.NOT_FOUND)]
)
def test_an_abandoned_automatic_capture_is_due_again_after_a_minute(
    outcome: object, because: e.AbandonedBecause
) -> None:
    abandoned = e.CallAbandoned(payment_id=ONE, call=e.ProcessorCall.CAPTURE, because=because, at=NOON)
    given(*capturing(PAID_AT_CREATION)).when(record_capture(outcome)).then(
        abandoned, capture_due_after(10000, timedelta(minutes=1))
    )  # type: ignore[arg-type]
    given(*capturing(MANUAL_CAPTURE)).when(record_capture(outcome)).then(abandoned)  # type: ignore[arg-type]


def test_a_late_success_of_a_refused_capture_is_recorded() -> None:
    given(*capturing(MANUAL_CAPTURE), REFUSED).when(record_capture(capture_outcome(10000))).then(
        scheduled(1, 10000),
        e.CaptureRequested(
            payment_id=ONE, amount=Decimal(10000), idempotency_key=CAPTURE_KEY, deadline_at=NOON, at=NOON
        ),
        captured(1, 10000),
    )


def test_a_late_success_of_a_capture_that_failed_its_payment_is_recorded() -> None:
    failed = e.CaptureRefused(payment_id=ONE, code="X", retryable=False, at=NOON)
    order = (
        given(*capturing(PAID_AT_CREATION), failed)
        .when(record_capture(capture_outcome(10000)))
        .then(replace(late_capture(1, 10000), idempotency_key=CAPTURE_KEY))
    )
    assert order.status is OrderStatus.COMPLETED


def test_the_outcome_of_another_captures_call_is_ignored() -> None:
    assert (
        given(*capturing(PAID_AT_CREATION)).when(record_capture(o.CaptureRefused(code="X"), name="other")).then_events()
        == []
    )
