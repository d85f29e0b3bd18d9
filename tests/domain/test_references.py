"""References, deposits (section 8.10), expiry (contract 2.1), and timers."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest
from msgspec.structs import replace
from tests.domain.action_builders import deposit, expire, record_reference, reference_outcome
from tests.domain.builders import (
    NOON,
    SPEI,
    charge,
    created,
    deposited,
    folded,
    method,
    paid,
    reference_issued,
    reference_requested,
    started,
)
from tests.domain.scenario import given
from tests.domain.transition_rows import (
    CHALLENGE,
    MANUAL_CAPTURE,
    ONE,
    PAID_AT_CREATION,
    authenticating,
    awaiting_deposit,
    awaiting_payer,
    payment_cancelled,
    payment_expired,
    with_authorization,
    with_card_payment,
)

from ledger.domain.orders import events as e
from ledger.domain.orders import processor_outcomes as o
from ledger.domain.orders.processor_outcomes import NotFound, NotSent, Unanswered
from ledger.domain.orders.statuses import OrderStatus, PaymentStatus
from ledger.domain.orders.terms import Reference
from ledger.domain.orders.timers import Timer, TimerKind, decide_timer, timer_key, timers_of
from ledger.domain.rejections import InvalidField, InvalidOrderState, PaymentNotFound

ASKED = awaiting_deposit(created())[:3]
THREE_DAYS = timedelta(hours=72)


def test_a_reference_is_valid_for_three_days_or_until_its_orders_due_date() -> None:
    given(created()).when(charge(method=method(SPEI))).then(started(1, 10000, 0, SPEI), reference_requested(1, 10000))
    for due, validity in ((timedelta(days=30), timedelta(days=30)), (timedelta(days=1), THREE_DAYS)):
        events = given(created(due_date=NOON + due)).when(charge(method=method(SPEI))).then_events()
        assert events[-1].expires_at == NOON + validity


def test_a_processor_can_set_the_validity_of_its_references() -> None:
    events = given(created()).when(charge(method=method(SPEI), reference_s=3600)).then_events()
    assert events[-1].expires_at == NOON + timedelta(hours=1)


def test_an_issued_reference_is_shown_to_the_payer() -> None:
    order = (
        given(*ASKED)
        .when(record_reference(reference_outcome()))
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


def test_a_voucher_keeps_its_network_and_its_page() -> None:
    issued = replace(reference_outcome(), clabe=None, channel="OXXO", voucher_url="https://vouchers.example/1")
    order = given(*ASKED).when(record_reference(issued)).then_events()
    assert (order[0].reference.channel, order[0].reference.voucher_url) == ("OXXO", "https://vouchers.example/1")


def test_a_refused_reference_fails_the_payment() -> None:
    events = given(*ASKED).when(record_reference(o.ReferenceRefused(code="X"))).then_events()
    assert [(type(event), event.code) for event in events] == [(e.PaymentDeclined, "GENERIC_DECLINE")]
    assert folded([*ASKED, *events]).status is OrderStatus.FAILED


def test_a_reference_request_without_an_answer_is_recorded_as_unknown() -> None:
    unanswered = e.CallUnanswered(payment_id=ONE, call=e.ProcessorCall.REFERENCE, reason="no answer", at=NOON)
    given(*ASKED).when(record_reference(Unanswered(reason="no answer"))).then(unanswered)


@pytest.mark.parametrize(
    ("outcome", "because"), [(NotSent(), e.AbandonedBecause.NOT_SENT), (NotFound(), e.AbandonedBecause.NOT_FOUND)]
)
def test_an_abandoned_reference_request_fails_the_payment(outcome: object, because: e.AbandonedBecause) -> None:
    abandoned = e.CallAbandoned(payment_id=ONE, call=e.ProcessorCall.REFERENCE, because=because, at=NOON)
    order = given(*ASKED).when(record_reference(outcome)).then(abandoned)  # type: ignore[arg-type]  # one of them
    assert order.status is OrderStatus.FAILED


def test_a_deposit_counts_once_for_each_id() -> None:
    order = given(*awaiting_deposit(created())).when(deposit(6000)).then(deposited(1, 6000))
    assert (order.status, order.amount_pending) == (OrderStatus.PARTIALLY_PAID, 4000)
    order = (
        given(*awaiting_deposit(created()), deposited(1, 6000))
        .when(deposit(4000, name="dep-2"))
        .then(deposited(1, 4000, "dep-2"))
    )
    assert order.status is OrderStatus.COMPLETED


def test_a_deposit_above_the_amount_is_overpaid() -> None:
    order = given(*awaiting_deposit(created())).when(deposit(12000)).then(deposited(1, 12000))
    assert (order.status, order.amount_pending, order.overpaid_amount) == (OrderStatus.COMPLETED, 0, 2000)


@pytest.mark.parametrize("end", [payment_expired(), payment_cancelled()])
def test_a_deposit_on_an_ended_reference_is_late_and_counts(end: object) -> None:
    order = given(*awaiting_deposit(created()), end).when(deposit(10000)).then(deposited(1, 10000, is_late=True))
    assert (order.status, order.late_deposit) == (OrderStatus.COMPLETED, True)
    assert order.payments[0].status is PaymentStatus.CAPTURED


def test_a_deposit_needs_a_reference() -> None:
    given(*with_card_payment(PAID_AT_CREATION)).when(deposit(1)).then_rejected(
        InvalidOrderState, currentStatus=OrderStatus.PROCESSING, allowedStatuses=()
    )
    given(*ASKED).when(deposit(1)).then_rejected(
        InvalidOrderState, currentStatus=OrderStatus.PROCESSING, allowedStatuses=()
    )
    given(*awaiting_deposit(created())).when(deposit(1, 2)).then_rejected(PaymentNotFound)
    given(*awaiting_deposit(created())).when(deposit("0.5")).then_rejected(InvalidField, field="amount")


@pytest.mark.parametrize(
    ("history", "because", "after"),
    [
        (awaiting_deposit(created()), e.ExpiredBecause.REFERENCE, THREE_DAYS),
        (awaiting_payer(PAID_AT_CREATION, CHALLENGE), e.ExpiredBecause.SESSION, timedelta(minutes=15)),
        (with_authorization(MANUAL_CAPTURE), e.ExpiredBecause.AUTHORIZATION, timedelta(days=7)),
    ],
    ids=["reference", "session", "authorisation"],
)
def test_a_waiting_payment_expires_at_its_time_and_not_before(
    history: tuple[object, ...], because: e.ExpiredBecause, after: timedelta
) -> None:
    assert given(*history).when(expire(after=after - timedelta(seconds=1))).then_events() == []
    expired = e.PaymentExpired(payment_id=ONE, because=because, at=NOON + after)
    given(*history).when(expire(after=after)).then(expired)
    assert [timer.at for timer in timers_of(folded(history))] == [NOON + after]


@pytest.mark.parametrize(
    "history",
    [
        authenticating(PAID_AT_CREATION, CHALLENGE),
        with_card_payment(PAID_AT_CREATION),
        (PAID_AT_CREATION, *paid(1, 10000)),
    ],
)
def test_a_payment_with_an_open_call_or_with_money_does_not_expire(history: tuple[object, ...]) -> None:
    assert given(*history).when(expire()).then_events() == []


def test_a_due_capture_starts_once() -> None:
    scheduled = e.CaptureScheduled(payment_id=ONE, amount=Decimal(10000), due_at=NOON, at=NOON)
    order = folded([*with_authorization(PAID_AT_CREATION), scheduled])
    timer = Timer(TimerKind.CAPTURE, ONE, NOON)
    assert timers_of(order) == (timer,)
    key = timer_key(order, timer)
    events = decide_timer(order, timer, key, NOON, NOON)
    assert [type(event) for event in events] == [e.CaptureRequested]
    assert (
        decide_timer(folded([*with_authorization(PAID_AT_CREATION), scheduled, *events]), timer, key, NOON, NOON) == []
    )


def test_an_authorisation_after_its_cancellation_is_due_for_a_void() -> None:
    cancellation = e.CancellationRequested(cancellation_id=ONE, refund_captured=False, at=NOON)
    order = folded([*with_authorization(MANUAL_CAPTURE), cancellation])
    assert TimerKind.VOID in {timer.kind for timer in timers_of(order)}
    timer = next(timer for timer in timers_of(order) if timer.kind is TimerKind.VOID)
    events = decide_timer(order, timer, timer_key(order, timer), NOON, NOON)
    assert [type(event) for event in events] == [e.VoidRequested]
    assert decide_timer(folded(with_authorization(MANUAL_CAPTURE)), timer, "any", NOON, NOON) == []


def test_a_reference_issued_after_its_payment_has_ended_is_kept() -> None:
    order = folded([*ASKED, payment_cancelled(), reference_issued(1)])
    assert (order.payments[0].status, order.payments[0].reference is None) == (PaymentStatus.CANCELLED, False)
