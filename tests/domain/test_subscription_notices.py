"""Messages to a subscription's customer: what causes one, how often it is tried, and when none is sent any more."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from tests.domain.test_subscriptions import HARD, PAID, SOFT, START, due, plan, requested, settled, then

from ledger.domain.customers.terms import Accepted, AttemptOutcome, NotAccepted, Refused
from ledger.domain.plans.terms import OnRetriesExhausted
from ledger.domain.subscriptions import commands
from ledger.domain.subscriptions.decide.changes import decide_cancel
from ledger.domain.subscriptions.decide.messages import decide_notice, decide_notice_outcome
from ledger.domain.subscriptions.notice_events import (
    NoticeDropped,
    NoticeDroppedBecause,
    NoticeKind,
    NoticePostponed,
    NoticeRequested,
    NoticeSent,
)
from ledger.domain.subscriptions.notices import notices_at
from ledger.domain.subscriptions.state import Subscription

B, K = NoticeDroppedBecause, NoticeKind
ATTEMPT = timedelta(seconds=15)
NOT_NOW, SILENT = NotAccepted("CONNECT FAILED"), NotAccepted("DATA TIMEOUT", unknown=True)


def tried(state: Subscription, at: datetime = START, *, real_at: datetime = START, **withheld: Any) -> list[Any]:
    command = commands.NotifyCustomer(
        notifier="smtp",
        deadline_at=real_at + ATTEMPT,
        real_at=real_at,
        at=at,
        withheld={K[kind]: because for kind, because in withheld.items()},
    )
    return decide_notice(state, command)


def ended(state: Subscription, outcome: AttemptOutcome, at: datetime = START) -> list[Any]:
    notice = state.notices[0]
    return decide_notice_outcome(state, commands.RecordNotice(notice_id=notice.notice_id, outcome=outcome, at=at))


def in_trial() -> Subscription:
    """Returns a subscription whose trial is about to end."""
    state = requested(plan(trial_period_days=10))
    return due(state, START + timedelta(days=7))


def causes(state: Subscription) -> list[NoticeKind]:
    return [notice.kind for notice in state.notices]


def test_a_paid_charge_a_declined_one_and_the_end_of_a_trial_cause_a_message_each() -> None:
    state = settled(requested(), PAID)
    assert causes(state) == [K.RECEIPT]
    state = settled(due(state, state.current_period_end), SOFT, state.current_period_end)
    assert causes(state) == [K.RECEIPT, K.PAYMENT_FAILED]
    assert state.notices[1].payment_method_id == UUID(int=9)
    assert state.notices[1].next_attempt_at == state.invoices[1].next_attempt_at
    assert len({notice.notice_id for notice in state.notices}) == 2
    assert causes(in_trial()) == [K.TRIAL_WILL_END]


def test_a_declined_first_charge_and_a_charge_that_was_not_sent_cause_none() -> None:
    assert settled(requested(), SOFT).notices == ()
    state = settled(requested(), PAID)
    unsent = settled(due(state, state.current_period_end), commands.ChargeNotSent(), state.current_period_end)
    assert causes(unsent) == [K.RECEIPT]


def test_a_message_is_requested_and_sent_once_and_changes_nothing_that_a_merchant_sees() -> None:
    state = settled(requested(), PAID)
    (event,) = tried(state)
    assert isinstance(event, NoticeRequested)
    running = then(state, [event])
    assert (tried(running), notices_at(running.notices)) == ([], None)
    (sent,) = ended(running, Accepted())
    assert isinstance(sent, NoticeSent)
    done = then(running, [sent])
    assert (done.notices, done.updated_at, tried(done)) == ((), state.updated_at, [])
    assert decide_notice_outcome(done, commands.RecordNotice(notice_id=sent.notice_id, outcome=NOT_NOW, at=START)) == []


def test_attempts_that_the_server_does_not_accept_come_to_an_end() -> None:
    state, at, attempts = settled(requested(), PAID), START, 0
    while state.notices:
        state = then(state, tried(state, at))
        attempts += 1
        (event,) = ended(state, NOT_NOW, at)
        state = then(state, [event])
        if isinstance(event, NoticePostponed):
            assert tried(state, event.retry_at - timedelta(seconds=1)) == []
            assert notices_at(state.notices) == event.retry_at
            at = event.retry_at
    assert (attempts, event.because, at - START) == (7, B.UNDELIVERED, timedelta(minutes=1 + 5 + 30 + 120 + 360 + 720))


@pytest.mark.parametrize("interrupted", [False, True])
def test_a_message_whose_outcome_is_unknown_is_tried_twice_at_most(interrupted: bool) -> None:
    state, later = settled(requested(), PAID), START + timedelta(minutes=10)
    state = then(state, tried(state))
    if not interrupted:
        state = then(state, ended(state, SILENT))
    assert tried(state, later, real_at=START + ATTEMPT - timedelta(seconds=1)) == [] or not interrupted
    (again,) = tried(state, later, real_at=later)
    assert isinstance(again, NoticeRequested)
    state = then(state, [again])
    (dropped,) = tried(state, later, real_at=later + ATTEMPT) if interrupted else ended(state, SILENT, later)
    assert (dropped.because, dropped.code) == (B.UNKNOWN, None if interrupted else "DATA TIMEOUT")


def test_a_refused_message_is_not_tried_again() -> None:
    state = settled(requested(), PAID)
    (dropped,) = ended(then(state, tried(state)), Refused("RCPT 550 5.1.1"))
    assert (dropped.because, dropped.code) == (B.REFUSED, "RCPT 550 5.1.1")


def test_a_message_that_is_late_by_more_than_a_day_or_withheld_is_dropped() -> None:
    state = settled(requested(), PAID)
    assert isinstance(tried(state, START + timedelta(hours=24))[0], NoticeRequested)
    assert tried(state, START + timedelta(hours=25))[0].because is B.MISSED
    assert tried(state, RECEIPT=B.UNWANTED)[0].because is B.UNWANTED
    assert isinstance(tried(state, PAYMENT_FAILED=B.UNWANTED)[0], NoticeRequested)


def test_no_message_about_a_trial_that_is_over_or_a_debt_that_is_paid() -> None:
    trial = in_trial()
    at = START + timedelta(days=7)
    assert isinstance(tried(trial, at)[0], NoticeRequested)
    for at_period_end in (True, False):
        cancelled = then(trial, decide_cancel(trial, commands.CancelSubscription(at=at, at_period_end=at_period_end)))
        assert tried(cancelled, at)[0].because is B.NOT_NEEDED
    ends_at = START + timedelta(days=10)
    over = due(trial, ends_at)
    assert tried(settled(over, PAID, ends_at), ends_at)[0].because is B.NOT_NEEDED
    failed = settled(over, SOFT, ends_at)
    debt = then(failed, tried(failed, ends_at))  # drops what is about the trial
    assert causes(debt) == [K.PAYMENT_FAILED]
    assert isinstance(tried(debt, ends_at)[0], NoticeRequested)
    paid = settled(due(debt, START + timedelta(days=13)), PAID, START + timedelta(days=13))
    (dropped,) = tried(paid, ends_at)
    assert isinstance(dropped, NoticeDropped)
    assert (dropped.kind, dropped.because) == (K.PAYMENT_FAILED, B.NOT_NEEDED)


def test_the_end_of_a_subscription_by_a_decline_is_announced() -> None:
    state = settled(requested(plan(on_retries_exhausted=OnRetriesExhausted.CANCEL)), PAID)
    at = state.current_period_end
    state = settled(due(state, at), HARD, at)
    assert not state.is_live
    assert causes(state)[-1] is K.PAYMENT_FAILED
    assert isinstance(tried(then(state, tried(state, at)), at)[0], NoticeRequested)
