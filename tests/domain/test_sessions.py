"""The end of a session in which the payer's own action authorises the payment: at the processor first (issue 27, 3)."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from msgspec.structs import replace
from tests.domain.action_builders import VALIDATION_KEY, action_required, cancel, record_authentication, validate
from tests.domain.builders import DEADLINE, NOON, SPLIT, approved, folded, paid
from tests.domain.scenario import given
from tests.domain.transition_rows import CHALLENGE, MANUAL_CAPTURE, ONE, PAID_AT_CREATION, authenticating, in_session

from ledger.domain.orders import commands as c
from ledger.domain.orders import events as e
from ledger.domain.orders import processor_outcomes as o
from ledger.domain.orders.decide.outcomes import outcome_command
from ledger.domain.orders.statuses import OrderStatus, PaymentStatus
from ledger.domain.orders.timers import Timer, TimerKind, decide_timer, timers_of
from ledger.domain.rejections import InvalidOrderState, RequestInProgress

P, O = PaymentStatus, OrderStatus  # noqa: E741 - two columns of one table
END = NOON + timedelta(minutes=15)
VOIDED = o.Voided(processor_reference="pi_1")
PART = in_session(SPLIT, part=6000)
HELD = approved(10000, 0)


def ended(because: e.SessionEnd = e.SessionEnd.EXPIRED, key: str = "end-1") -> e.SessionEndRequested:
    return e.SessionEndRequested(payment_id=ONE, because=because, idempotency_key=key, deadline_at=DEADLINE, at=NOON)


def end(at: Any = NOON) -> c.EndSession:
    return c.EndSession(payment_id=ONE, idempotency_key="end-1", deadline_at=DEADLINE, at=at)


def record(outcome: o.SessionEndOutcome) -> c.RecordSessionEnd:
    return c.RecordSessionEnd(payment_id=ONE, idempotency_key="end-1", outcome=outcome, at=NOON)


def ending(history: Any, because: e.SessionEnd) -> tuple[Any, ...]:
    """Returns the events of a session whose end was requested, in the form in which the deciders request it."""
    if because is e.SessionEnd.ORDER_CANCELLED:
        requested = e.CancellationRequested(cancellation_id=ONE, refund_captured=False, at=NOON)
        return (*history, requested, ended(because))
    return (*history, ended(because))


def test_a_session_is_ended_at_the_processor_before_it_expires() -> None:
    history = in_session(PAID_AT_CREATION)
    timer = Timer(TimerKind.EXPIRY, ONE, END)
    assert timers_of(folded(history)) == (timer,)
    assert decide_timer(folded(history), timer, "end-1", DEADLINE, NOON) == []
    [requested] = decide_timer(folded(history), timer, "end-1", DEADLINE, END)
    assert requested == replace(ended(), at=END)
    order = folded([*history, requested])
    assert (order.status, order.reserved) == (O.PAYER_AUTHENTICATION_CHALLENGE_REQUIRED, 0)
    assert order.open_intent == folded([*history, requested]).payments[0].intent
    assert given(*history).when(c.ExpirePayment(payment_id=ONE, at=END)).then_events() == []
    order = (
        given(*history, requested)
        .when(record(VOIDED))
        .then(e.PaymentExpired(payment_id=ONE, because=e.ExpiredBecause.SESSION, at=NOON))
    )
    assert (order.status, timers_of(order)) == (O.FAILED, ())


@pytest.mark.parametrize(
    ("because", "history", "outcome", "payment", "status"),
    [
        (e.SessionEnd.EXPIRED, in_session(PAID_AT_CREATION), approved(10000), P.CAPTURED, O.COMPLETED),
        (e.SessionEnd.EXPIRED, in_session(PAID_AT_CREATION), HELD, P.PENDING_CAPTURE, O.AUTHORIZED),
        (e.SessionEnd.EXPIRED, in_session(MANUAL_CAPTURE), HELD, P.AUTHORIZED, O.AUTHORIZED),
        (e.SessionEnd.EXPIRED, in_session(PAID_AT_CREATION), o.Declined(code="CARD_EXPIRED"), P.FAILED, O.FAILED),
        (e.SessionEnd.ORDER_CANCELLED, in_session(PAID_AT_CREATION), VOIDED, P.CANCELLED, O.CANCELLED),
        (e.SessionEnd.ORDER_CANCELLED, in_session(PAID_AT_CREATION), approved(10000), P.CAPTURED, O.COMPLETED),
        (e.SessionEnd.ORDER_CANCELLED, in_session(PAID_AT_CREATION), HELD, P.AUTHORIZED, O.CANCELLATION_REQUESTED),
        (e.SessionEnd.PAYMENT_CANCELLED, PART, VOIDED, P.CANCELLED, O.PENDING),
        (e.SessionEnd.PAYMENT_CANCELLED, PART, approved(6000), P.CAPTURED, O.PARTIALLY_PAID),
        (e.SessionEnd.REPLACED, (*PART, *paid(2, 5000)), VOIDED, P.FAILED, O.PARTIALLY_PAID),
        (e.SessionEnd.REPLACED, (*PART, *paid(2, 5000)), approved(6000), P.CAPTURED, O.COMPLETED),
        (e.SessionEnd.REPLACED, (*PART, *paid(2, 5000)), approved(6000, 0), P.AUTHORIZED, O.PARTIALLY_PAID),
    ],
)
def test_if_the_payer_was_quicker_the_money_counts(
    because: e.SessionEnd, history: Any, outcome: Any, payment: PaymentStatus, status: OrderStatus
) -> None:
    history = ending(history, because)
    events = given(*history).when(record(outcome)).then_events()
    order = folded([*history, *events])
    assert (order.payments[0].status, order.status) == (payment, status)
    is_unwanted = because is not e.SessionEnd.EXPIRED and order.payments[0].is_uncaptured
    assert (TimerKind.VOID in {timer.kind for timer in timers_of(order)}) is is_unwanted
    open_steps = [entry for entry in order.payments[0].entries if entry.status in {"PENDING", "UNKNOWN"}]
    assert [entry.action for entry in open_steps] == ["CAPTURE"] * (payment is P.PENDING_CAPTURE)


@pytest.mark.parametrize(
    ("history", "command", "because"),
    [
        (in_session(PAID_AT_CREATION), cancel(), e.SessionEnd.ORDER_CANCELLED),
        (PART, c.CancelPayment(payment_id=ONE, idempotency_key="end-1", deadline_at=DEADLINE, at=NOON), None),
        ((*PART, *paid(2, 5000)), end(), e.SessionEnd.REPLACED),
        ((*PART, *paid(2, 5000)), validate(), e.SessionEnd.REPLACED),
    ],
)
def test_a_session_that_nobody_wants_is_ended_at_the_processor(
    history: Any, command: Any, because: e.SessionEnd | None
) -> None:
    events = given(*history).when(command).then_events()
    assert events[-1].because is (because or e.SessionEnd.PAYMENT_CANCELLED)
    order = folded([*history, *events])
    assert order.payments[0].status is P.REQUIRES_ACTION
    with pytest.raises(RequestInProgress):
        given(*history, *events).when(replace(validate(), idempotency_key="another")).then_events()


def test_another_payment_that_covers_the_order_ends_the_session_by_a_timer() -> None:
    order = folded([*PART, *paid(2, 5000)])
    [timer, _] = timers_of(order)
    assert timer.kind is TimerKind.VOID
    [requested] = decide_timer(order, timer, "end-1", DEADLINE, NOON)
    assert requested == ended(e.SessionEnd.REPLACED)
    assert timers_of(folded(PART))[0].kind is TimerKind.EXPIRY


@pytest.mark.parametrize("because", list(e.SessionEnd))
def test_an_end_without_an_answer_is_sent_again_or_begins_anew(because: e.SessionEnd) -> None:
    before = (*PART, *paid(2, 5000)) if because is e.SessionEnd.REPLACED else PART
    history = ending(before, because)
    [unanswered] = given(*history).when(record(o.Unanswered(reason="silence"))).then_events()
    assert unanswered.call is e.ProcessorCall.VOID
    intent = folded([*history, unanswered]).payments[0].intent
    assert intent is not None
    repeated = c.RepeatCall(payment_id=ONE, idempotency_key="end-1", after=intent.deadline_at, deadline_at=END, at=NOON)
    [again] = given(*history, unanswered).when(repeated).then_events()
    open_again = folded([*history, unanswered, again]).payments[0].intent
    assert open_again is not None
    assert (open_again.ends, open_again.tries) == (because, 2)
    [abandoned] = given(*history, unanswered).when(record(o.NotFound())).then_events()
    order = folded([*history, unanswered, abandoned])
    assert order.payments[0].status is P.REQUIRES_ACTION
    [timer, *_] = timers_of(order)
    [anew] = decide_timer(order, timer, "end-2", DEADLINE, END)
    assert anew.because is because
    command = outcome_command(open_again, VOIDED, NOON)
    assert command == record(VOIDED)


def test_what_arrives_after_the_outcome_changes_nothing_but_money() -> None:
    expired = e.PaymentExpired(payment_id=ONE, because=e.ExpiredBecause.SESSION, at=NOON)
    history = (*ending(in_session(PAID_AT_CREATION), e.SessionEnd.EXPIRED), expired)
    given(*history).when(record(VOIDED)).then()
    given(*history).when(record(o.Unanswered(reason="silence"))).then()
    [late] = given(*history).when(record(approved(10000))).then_events()
    assert isinstance(late, e.LateCaptureReported)
    granted = given(*authenticating(MANUAL_CAPTURE, CHALLENGE)).when(record_authentication(HELD)).then_events()
    events = given(*authenticating(MANUAL_CAPTURE, CHALLENGE), *granted).when(record(VOIDED)).then_events()
    assert [type(event) for event in events] == [e.CancellationRequested, e.VoidRequested, e.PaymentCancelled][1:]


@pytest.mark.parametrize("merchants_order", [PAID_AT_CREATION, MANUAL_CAPTURE])
def test_a_void_that_is_reported_after_an_approval_ends_what_was_approved(merchants_order: Any) -> None:
    history = list(ending(in_session(merchants_order), e.SessionEnd.EXPIRED))
    history += given(*history).when(record(HELD)).then_events()
    history += given(*history).when(record(VOIDED)).then_events()
    assert [type(event) for event in history[-2:]] == [e.VoidRequested, e.PaymentCancelled]
    order = folded(history)
    assert (order.payments[0].status, order.status, timers_of(order)) == (P.CANCELLED, O.FAILED, ())
    given(*history).when(record(VOIDED)).then()


def test_a_payer_is_asked_about_until_the_session_has_ended_at_the_processor() -> None:
    history = in_session(PAID_AT_CREATION)
    late = replace(validate(), at=END)
    [asked] = given(*history).when(late).then_events()
    still = replace(action_required(), processor_reference="pi_1")
    outcome = replace(record_authentication(still), idempotency_key=asked.idempotency_key, at=END)
    [required] = given(*history, asked).when(outcome).then_events()
    assert required.expires_at == END  # asking gives no more time
    paid_there = replace(record_authentication(approved(10000)), idempotency_key=asked.idempotency_key)
    granted = given(*history, asked).when(paid_there).then_events()
    again = replace(validate(), idempotency_key="again")
    given(*history, asked, *granted).when(again).then()  # it is authenticated already
    expired = e.PaymentExpired(payment_id=ONE, because=e.ExpiredBecause.SESSION, at=NOON)
    with pytest.raises(InvalidOrderState):
        given(*history, expired).when(again).then_events()
    assert asked.idempotency_key == VALIDATION_KEY
    assert Decimal(10000) == folded([*history, asked, *granted]).amount_paid
