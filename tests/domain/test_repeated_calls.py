"""Calls that never reached the processor: postponed, sent again under their key by one worker, and never authorisations."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from msgspec.structs import replace
from tests.domain.action_builders import (
    CAPTURE_KEY,
    RELEASE_KEY,
    VOID_KEY,
    record_capture,
    record_refund,
    record_release,
    record_void,
)
from tests.domain.builders import DEADLINE, NOON, captured, deposited, folded, paid, reference_open, refund_requested
from tests.domain.scenario import given
from tests.domain.transition_rows import MANUAL_CAPTURE, ONE, PAID_AT_CREATION, capturing, voiding, with_card_payment

from ledger.domain.orders import events as e
from ledger.domain.orders import processor_outcomes as o
from ledger.domain.orders.commands import RepeatCall
from ledger.domain.orders.decide.unanswered_calls import can_be_repeated
from ledger.domain.orders.payment import EntryStatus

UNTIL, LATER = DEADLINE + timedelta(seconds=10), DEADLINE + timedelta(minutes=5)
REFUNDING = (PAID_AT_CREATION, *paid(1, 10000), refund_requested(1, 4000))
RELEASING = (
    *capturing(MANUAL_CAPTURE, 6000),
    captured(1, 6000),
    e.ReleaseRequested(
        payment_id=ONE, amount=Decimal(4000), idempotency_key=RELEASE_KEY, deadline_at=DEADLINE, at=NOON
    ),
)
CALLS = {
    e.ProcessorCall.CAPTURE: (capturing(MANUAL_CAPTURE), record_capture, CAPTURE_KEY),
    e.ProcessorCall.VOID: (voiding(MANUAL_CAPTURE), record_void, VOID_KEY),
    e.ProcessorCall.REFUND: (REFUNDING, record_refund, REFUNDING[-1].idempotency_key),
    e.ProcessorCall.RELEASE: (RELEASING, record_release, RELEASE_KEY),
}
every_call = pytest.mark.parametrize("call", CALLS)


def repeat(key: str, **changes: Any) -> RepeatCall:
    fields = {"payment_id": ONE, "idempotency_key": key, "after": DEADLINE, "deadline_at": LATER, "at": NOON}
    return RepeatCall(**(fields | changes))


def postponed(call: e.ProcessorCall) -> e.CallPostponed:
    return e.CallPostponed(payment_id=ONE, call=call, until=UNTIL, at=NOON)


def repeated(call: e.ProcessorCall, key: str) -> e.CallRepeated:
    return e.CallRepeated(payment_id=ONE, call=call, idempotency_key=key, deadline_at=LATER, at=NOON)


@every_call
def test_a_call_that_did_not_arrive_is_postponed_and_stays_open(call: e.ProcessorCall) -> None:
    history, record, key = CALLS[call]
    before, event = folded(history), postponed(call)
    assert given(*history).when(record(o.NotSent())).then_events()[0].because is e.AbandonedBecause.NOT_SENT
    given(*history).when(record(o.NotSent(until=UNTIL))).then(event)
    order = given(*history, event).when(repeat("another key")).then()
    [payment] = order.payments
    assert payment.intent is not None
    assert (payment.intent.unsent, payment.intent.over_at, payment.intent.idempotency_key) == (True, UNTIL, key)
    assert (order.status, payment.status) == (before.status, before.payments[0].status)
    assert payment.entries[-1].status is EntryStatus.PENDING
    assert "sent again" in str(payment.entries[-1].reason)


@every_call
def test_one_worker_sends_it_again_under_its_key(call: e.ProcessorCall) -> None:
    history, _, key = CALLS[call]
    history = (*history, postponed(call))
    order = given(*history).when(repeat(key)).then(repeated(call, key))
    [payment] = order.payments
    intent = payment.intent
    assert intent is not None
    assert (intent.unsent, intent.over_at, intent.tries, intent.first_deadline_at) == (False, LATER, 2, DEADLINE)
    assert payment.keys == folded(history).payments[0].keys
    assert payment.entries[-1].reason is None
    after = (*history, repeated(call, key))
    again = repeat(key, after=LATER, deadline_at=LATER + timedelta(minutes=1))
    order = given(*after).when(again).then(replace(repeated(call, key), deadline_at=again.deadline_at))
    assert (order.payments[0].intent.tries, order.payments[0].intent.first_deadline_at) == (3, DEADLINE)


@every_call
def test_a_silence_of_the_repeated_call_is_recorded_too(call: e.ProcessorCall) -> None:
    history, record, key = CALLS[call]
    silence = e.CallUnanswered(payment_id=ONE, call=call, reason="?", at=NOON, came_back_at=UNTIL)
    outcome = o.Unanswered(reason="?", came_back_at=UNTIL)
    order = given(*history, silence, repeated(call, key)).when(record(outcome)).then(silence)
    assert order.payments[0].intent.over_at == UNTIL


def test_an_authorisation_is_never_sent_again() -> None:
    order = folded(with_card_payment(MANUAL_CAPTURE))
    [payment] = order.payments
    assert payment.intent is not None
    assert not can_be_repeated(order, payment.intent)
    given(*with_card_payment(MANUAL_CAPTURE)).when(repeat(payment.intent.idempotency_key)).then()


def test_a_payout_is_not_sent_again_after_the_erasure_of_its_destination() -> None:
    history = (
        *reference_open(1, 10000),
        deposited(1, 10000),
        replace(refund_requested(1, 4000), payout=True),
    )
    key = history[-1].idempotency_key
    forgotten = e.PayerForgotten(at=NOON)
    given(PAID_AT_CREATION, *history).when(repeat(key)).then(repeated(e.ProcessorCall.REFUND, key))
    given(PAID_AT_CREATION, *history, forgotten).when(repeat(key)).then()
    given(*REFUNDING, forgotten).when(repeat(REFUNDING[-1].idempotency_key)).then(
        repeated(e.ProcessorCall.REFUND, REFUNDING[-1].idempotency_key)
    )
