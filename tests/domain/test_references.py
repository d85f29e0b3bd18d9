"""References and the money that arrives on them (section 8.10), and what expires (contract 2.1)."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest
from tests.domain.asking import deposit, expire, issues, reference_answered
from tests.domain.moves import (
    BY_HAND,
    CHALLENGE,
    ONCE,
    ONE,
    at_store,
    card,
    ended,
    going_on,
    granted,
    waiting,
    withdrawn,
)
from tests.domain.scenario import given
from tests.domain.story import NOON, SPEI, charge, created, deposited, folded, issued, method, paid, referred, started

from ledger.domain.orders import events as e
from ledger.domain.orders import processor_outcomes as o
from ledger.domain.orders.processor_outcomes import NotFound, NotSent, Unanswered
from ledger.domain.orders.statuses import OrderStatus, PaymentStatus
from ledger.domain.orders.terms import Reference
from ledger.domain.orders.timers import Timer, TimerKind, decide_timer, timer_key, timers_of
from ledger.domain.rejections import InvalidField, InvalidOrderState, PaymentNotFound

ASKED = at_store(created())[:3]
THREE_DAYS = timedelta(hours=72)


def test_a_reference_lives_three_days_or_until_its_order_is_due() -> None:
    given(created()).when(charge(method=method(SPEI))).then(started(1, 10000, 0, SPEI), referred(1, 10000))
    for due, lives in ((timedelta(days=30), timedelta(days=30)), (timedelta(days=1), THREE_DAYS)):
        events = given(created(due_date=NOON + due)).when(charge(method=method(SPEI))).then_events()
        assert events[-1].expires_at == NOON + lives


def test_a_processor_may_know_another_lifetime() -> None:
    events = given(created()).when(charge(method=method(SPEI), reference_s=3600)).then_events()
    assert events[-1].expires_at == NOON + timedelta(hours=1)


def test_a_payer_is_shown_the_reference_once_it_is_issued() -> None:
    order = (
        given(*ASKED)
        .when(reference_answered(issues()))
        .then(
            e.ReferenceIssued(
                payment_id=ONE,
                reference=Reference(clabe="646180157000000004", reference="646180157000000004"),
                expires_at=NOON + THREE_DAYS,
                processor_reference="ref",
                at=NOON,
            )
        )
    )
    assert order.status is OrderStatus.REFERENCE_GENERATED


def test_a_reference_that_was_refused_fails_the_payment() -> None:
    events = given(*ASKED).when(reference_answered(o.ReferenceRefused(code="X"))).then_events()
    assert [(type(event), event.code) for event in events] == [(e.PaymentDeclined, "GENERIC_DECLINE")]
    assert folded([*ASKED, *events]).status is OrderStatus.FAILED


def test_a_reference_that_nobody_answers_for_is_asked_about() -> None:
    silence = e.CallUnanswered(payment_id=ONE, call=e.ProcessorCall.REFERENCE, reason="no answer", at=NOON)
    given(*ASKED).when(reference_answered(Unanswered(reason="no answer"))).then(silence)


@pytest.mark.parametrize(
    ("outcome", "because"), [(NotSent(), e.AbandonedBecause.NOT_SENT), (NotFound(), e.AbandonedBecause.NOT_FOUND)]
)
def test_a_reference_that_never_was_fails_the_payment(outcome: object, because: e.AbandonedBecause) -> None:
    abandoned = e.CallAbandoned(payment_id=ONE, call=e.ProcessorCall.REFERENCE, because=because, at=NOON)
    order = given(*ASKED).when(reference_answered(outcome)).then(abandoned)  # type: ignore[arg-type]  # one of them
    assert order.status is OrderStatus.FAILED


def test_a_deposit_counts_once_under_its_id() -> None:
    order = given(*at_store(created())).when(deposit(6000)).then(deposited(1, 6000))
    assert (order.status, order.amount_pending) == (OrderStatus.PARTIALLY_PAID, 4000)
    order = (
        given(*at_store(created()), deposited(1, 6000))
        .when(deposit(4000, name="dep-2"))
        .then(deposited(1, 4000, "dep-2"))
    )
    assert order.status is OrderStatus.COMPLETED


def test_more_than_was_asked_for_is_overpaid() -> None:
    order = given(*at_store(created())).when(deposit(12000)).then(deposited(1, 12000))
    assert (order.status, order.amount_pending, order.overpaid_amount) == (OrderStatus.COMPLETED, 0, 2000)


@pytest.mark.parametrize("end", [ended(), withdrawn()])
def test_a_deposit_on_a_reference_that_has_ended_is_late_and_counts(end: object) -> None:
    order = given(*at_store(created()), end).when(deposit(10000)).then(deposited(1, 10000, is_late=True))
    assert (order.status, order.late_deposit) == (OrderStatus.COMPLETED, True)
    assert order.payments[0].status is PaymentStatus.CAPTURED


def test_a_deposit_needs_a_reference() -> None:
    given(*card(ONCE)).when(deposit(1)).then_rejected(
        InvalidOrderState, currentStatus=OrderStatus.PROCESSING, allowedStatuses=()
    )
    given(*ASKED).when(deposit(1)).then_rejected(
        InvalidOrderState, currentStatus=OrderStatus.PROCESSING, allowedStatuses=()
    )
    given(*at_store(created())).when(deposit(1, 2)).then_rejected(PaymentNotFound)
    given(*at_store(created())).when(deposit("0.5")).then_rejected(InvalidField, field="amount")


@pytest.mark.parametrize(
    ("history", "because", "after"),
    [
        (at_store(created()), e.ExpiredBecause.REFERENCE, THREE_DAYS),
        (waiting(ONCE, CHALLENGE), e.ExpiredBecause.SESSION, timedelta(minutes=15)),
        (granted(BY_HAND), e.ExpiredBecause.AUTHORIZATION, timedelta(days=7)),
    ],
    ids=["reference", "session", "authorisation"],
)
def test_what_waits_expires_at_its_time_and_not_before(
    history: tuple[object, ...], because: e.ExpiredBecause, after: timedelta
) -> None:
    assert given(*history).when(expire(after=after - timedelta(seconds=1))).then_events() == []
    expired = e.PaymentExpired(payment_id=ONE, because=because, at=NOON + after)
    given(*history).when(expire(after=after)).then(expired)
    assert [due.at for due in timers_of(folded(history))] == [NOON + after]


@pytest.mark.parametrize("history", [going_on(ONCE, CHALLENGE), card(ONCE), (ONCE, *paid(1, 10000))])
def test_nothing_expires_that_is_being_worked_on_or_done(history: tuple[object, ...]) -> None:
    assert given(*history).when(expire()).then_events() == []


def test_a_capture_falls_due_and_begins_once() -> None:
    scheduled = e.CaptureScheduled(payment_id=ONE, amount=Decimal(10000), due_at=NOON, at=NOON)
    order = folded([*granted(ONCE), scheduled])
    due = Timer(TimerKind.CAPTURE, ONE, NOON)
    assert timers_of(order) == (due,)
    key = timer_key(order, due)
    events = decide_timer(order, due, key, NOON, NOON)
    assert [type(event) for event in events] == [e.CaptureRequested]
    assert decide_timer(folded([*granted(ONCE), scheduled, *events]), due, key, NOON, NOON) == []


def test_an_authorisation_that_came_after_its_cancellation_is_due_to_be_voided() -> None:
    asked = e.CancellationRequested(cancellation_id=ONE, refund_captured=False, at=NOON)
    order = folded([*granted(BY_HAND), asked])
    assert TimerKind.VOID in {due.kind for due in timers_of(order)}
    due = next(due for due in timers_of(order) if due.kind is TimerKind.VOID)
    events = decide_timer(order, due, timer_key(order, due), NOON, NOON)
    assert [type(event) for event in events] == [e.VoidRequested]
    assert decide_timer(folded(granted(BY_HAND)), due, "any", NOON, NOON) == []


def test_a_reference_that_is_issued_after_its_payment_has_ended_is_kept() -> None:
    order = folded([*ASKED, withdrawn(), issued(1)])
    assert (order.payments[0].status, order.payments[0].reference is None) == (PaymentStatus.CANCELLED, False)
