"""The end of the hold on what a partial capture has left: by a release, a final capture, or the time."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from msgspec.structs import replace
from tests.domain.action_builders import (
    RELEASE_KEY,
    add_payment,
    cancel,
    capture,
    capture_outcome,
    expire,
    final_capture,
    record_capture,
    record_release,
    refund,
    release,
    release_outcome,
)
from tests.domain.builders import (
    DEADLINE,
    NOON,
    captured,
    created,
    folded,
    late_capture,
    payment_id,
    reference_open,
    refund_requested,
    refunded,
    scheduled,
)
from tests.domain.scenario import given
from tests.domain.transition_rows import (
    MANUAL_CAPTURE,
    ONE,
    PAID,
    SPLIT_MANUAL_CAPTURE,
    capturing,
    with_authorization,
)

from ledger.domain.orders import events as e
from ledger.domain.orders import processor_outcomes as o
from ledger.domain.orders.payment import EntryAction, EntryStatus
from ledger.domain.orders.statuses import OrderStatus, PaymentStatus
from ledger.domain.orders.timers import Timer, TimerKind, awaits_payer, timers_of
from ledger.domain.rejections import InvalidOrderState, OrderHasCapturedFunds, PaymentNotFound

HALF_TAKEN = (*capturing(MANUAL_CAPTURE, 6000), captured(1, 6000))
SPLIT_HALF_TAKEN = (*capturing(SPLIT_MANUAL_CAPTURE, 6000), captured(1, 6000))
REQUESTED = e.ReleaseRequested(
    payment_id=ONE, amount=Decimal(4000), idempotency_key=RELEASE_KEY, deadline_at=DEADLINE, at=NOON
)
RELEASING = (*HALF_TAKEN, REQUESTED)


def ended(
    amount: int = 4000, because: e.ReleasedBecause = e.ReleasedBecause.REQUESTED, reference: str | None = "ref"
) -> e.AuthorizationReleased:
    return e.AuthorizationReleased(
        payment_id=ONE, amount=Decimal(amount), because=because, at=NOON, processor_reference=reference
    )


RELEASED = (*RELEASING, ended())


def last_step(order: Any) -> tuple[EntryAction, EntryStatus]:
    entry = order.payments[0].entries[-1]
    return entry.action, entry.status


def test_a_release_ends_the_hold_and_leaves_every_other_amount_as_it_is() -> None:
    before = folded(HALF_TAKEN)
    asked = given(*HALF_TAKEN).when(release()).then(REQUESTED)
    assert (asked.status, asked.payments[0].status) == (OrderStatus.PARTIALLY_PAID, PaymentStatus.PARTIALLY_CAPTURED)
    after = given(*RELEASING).when(record_release(release_outcome(4000))).then(ended())
    assert (after.amount_released, after.payments[0].released, after.payments[0].capturable) == (4000, 4000, 0)
    assert (after.status, after.amount, after.amount_paid, after.amount_pending) == (
        before.status,
        before.amount,
        before.amount_paid,
        before.amount_pending,
    )
    assert after.payments[0].intent is None
    assert last_step(after) == (EntryAction.RELEASE, EntryStatus.SUCCESS)
    assert timers_of(after) == ()


def test_nothing_is_captured_after_a_release_or_while_one_is_under_way() -> None:
    for history in (RELEASED, RELEASING):
        given(*history).when(capture(1, "capture-2")).then_rejected(
            InvalidOrderState,
            currentStatus=OrderStatus.PARTIALLY_PAID,
            allowedStatuses=(OrderStatus.AUTHORIZED, OrderStatus.PARTIALLY_AUTHORIZED),
        )


def test_a_release_that_is_under_way_or_has_happened_is_not_requested_again() -> None:
    given(*RELEASING).when(release("release-2")).then()
    given(*RELEASED).when(release("release-2")).then()


@pytest.mark.parametrize(
    ("history", "allowed"),
    [
        (with_authorization(MANUAL_CAPTURE), (OrderStatus.PARTIALLY_PAID,)),
        (capturing(MANUAL_CAPTURE, 6000), (OrderStatus.PARTIALLY_PAID,)),
        ((created(),), (OrderStatus.PARTIALLY_PAID,)),
        (PAID, ()),
        ((*HALF_TAKEN, refund_requested(1, 1000)), ()),
        ((*HALF_TAKEN, e.CancellationRequested(cancellation_id=ONE, refund_captured=True, at=NOON)), ()),
    ],
    ids=["nothing captured", "being captured", "no payment", "all captured", "being refunded", "being cancelled"],
)
def test_only_the_rest_of_a_capture_is_released(history: tuple[Any, ...], allowed: tuple[OrderStatus, ...]) -> None:
    given(*history).when(release()).then_rejected(
        InvalidOrderState, currentStatus=folded(history).status, allowedStatuses=allowed
    )


def test_the_rest_is_released_also_after_a_refund_of_what_was_captured() -> None:
    history = (*HALF_TAKEN, refund_requested(1, 6000), refunded(1, 6000))
    given(*history).when(release(n=1)).then(REQUESTED)
    given(*history).when(release(n=2)).then_rejected(PaymentNotFound)


def test_a_refused_release_keeps_the_hold() -> None:
    refused = e.ReleaseRefused(payment_id=ONE, code="X", at=NOON, message="Not now.")
    order = given(*RELEASING).when(record_release(o.ReleaseRefused(code="X", message="Not now."))).then(refused)
    assert (order.amount_released, order.payments[0].capturable) == (0, 4000)
    assert last_step(order) == (EntryAction.RELEASE, EntryStatus.FAILED)
    given(*RELEASING, refused).when(release("release-2")).then(replace(REQUESTED, idempotency_key="release-2"))


def test_a_release_without_an_answer_stays_open_until_its_outcome_is_known() -> None:
    unanswered = e.CallUnanswered(payment_id=ONE, call=e.ProcessorCall.RELEASE, reason="no answer", at=NOON)
    order = given(*RELEASING).when(record_release(o.Unanswered(reason="no answer"))).then(unanswered)
    assert order.payments[0].intent is not None
    assert last_step(order) == (EntryAction.RELEASE, EntryStatus.UNKNOWN)
    given(*RELEASING, unanswered).when(expire()).then()
    abandoned = e.CallAbandoned(
        payment_id=ONE, call=e.ProcessorCall.RELEASE, because=e.AbandonedBecause.NOT_FOUND, at=NOON
    )
    open_again = given(*RELEASING, unanswered).when(record_release(o.NotFound())).then(abandoned)
    assert (open_again.payments[0].intent, open_again.payments[0].capturable) == (None, 4000)
    given(*RELEASING, unanswered, abandoned).when(record_release(release_outcome(4000))).then(ended())


def test_what_the_processor_captured_counts_after_a_release() -> None:
    """A capture that was abandoned arrives before the release: both are recorded as the processor reports them."""
    capture_2 = e.CaptureRequested(
        payment_id=ONE, amount=Decimal(4000), idempotency_key="capture-2", deadline_at=DEADLINE, at=NOON
    )
    abandoned = e.CallAbandoned(
        payment_id=ONE, call=e.ProcessorCall.CAPTURE, because=e.AbandonedBecause.NOT_FOUND, at=NOON
    )
    history = (*HALF_TAKEN, capture_2, abandoned, REQUESTED)
    late = replace(late_capture(1, 4000, 10000), idempotency_key="capture-2")
    reported = record_capture(capture_outcome(4000), name="capture-2")
    order = given(*history).when(reported).then(late)
    assert order.payments[0].intent is not None, "the release still waits for its outcome"
    order = given(*history, late).when(record_release(release_outcome(0))).then(ended(0))
    assert (order.status, order.amount_paid, order.amount_released) == (OrderStatus.COMPLETED, 10000, 0)
    assert order.payments[0].status is PaymentStatus.CAPTURED
    order = given(*history, ended(0)).when(reported).then(late)
    assert (order.status, order.amount_paid) == (OrderStatus.COMPLETED, 10000)


def test_no_refund_and_no_cancellation_takes_the_place_of_a_release_that_is_under_way() -> None:
    given(*RELEASING).when(refund(1000)).then_rejected(
        InvalidOrderState, currentStatus=OrderStatus.PARTIALLY_PAID, allowedStatuses=()
    )
    assert folded(RELEASING).payments[0].intent is not None
    with pytest.raises(InvalidOrderState):
        given(*RELEASING).when(cancel(refund_captured=True)).then_events()
    given(*RELEASING).when(cancel()).then_rejected(
        OrderHasCapturedFunds, currentStatus=OrderStatus.PARTIALLY_PAID, refundableAmount=6000
    )


def test_the_end_of_a_refund_leaves_a_release_open() -> None:
    asked = refund_requested(1, 1000)
    refused = e.RefundRefused(refund_id=asked.refund_id, payment_id=ONE, code="X", at=NOON)
    reopened = e.RefundReopened(refund_id=asked.refund_id, payment_id=ONE, at=NOON)
    history = (*HALF_TAKEN, asked, refused, REQUESTED, reopened)
    order = folded((*history, refunded(1, 1000)))
    assert order.payments[0].is_being_released


# ---------------------------------------------------------------- a final capture


@pytest.mark.parametrize("said", [4000, None], ids=["the processor says how much", "all that is left"])
def test_a_final_capture_releases_the_rest_in_the_same_call(said: int | None) -> None:
    asked = e.CaptureRequested(
        payment_id=ONE, amount=Decimal(6000), idempotency_key="capture-1", deadline_at=DEADLINE, at=NOON, final=True
    )
    history = with_authorization(MANUAL_CAPTURE)
    given(*history).when(final_capture(6000)).then(scheduled(1, 6000), asked)
    outcome = replace(capture_outcome(6000), released=None if said is None else Decimal(said))
    order = (
        given(*history, scheduled(1, 6000), asked)
        .when(record_capture(outcome))
        .then(captured(1, 6000), ended(because=e.ReleasedBecause.FINAL_CAPTURE))
    )
    assert (order.status, order.amount_paid, order.amount_pending, order.amount_released) == (
        OrderStatus.PARTIALLY_PAID,
        6000,
        4000,
        4000,
    )


def test_a_final_capture_of_everything_releases_nothing() -> None:
    events = given(*with_authorization(MANUAL_CAPTURE)).when(final_capture(10000)).then_events()
    history = (*with_authorization(MANUAL_CAPTURE), *events)
    given(*history).when(record_capture(capture_outcome(10000))).then(captured(1, 10000))


def test_a_refused_final_capture_releases_nothing() -> None:
    events = given(*with_authorization(MANUAL_CAPTURE)).when(final_capture(6000)).then_events()
    refused = record_capture(o.CaptureRefused(code="X", retryable=True))
    recorded = given(*with_authorization(MANUAL_CAPTURE), *events).when(refused).then_events()
    assert [type(event) for event in recorded] == [e.CaptureRefused]


# ---------------------------------------------------------------- the time


def test_the_rest_of_a_capture_lapses_with_its_authorisation() -> None:
    lapse = NOON + timedelta(days=7)
    assert timers_of(folded(HALF_TAKEN)) == (Timer(TimerKind.LAPSE, ONE, lapse),)
    given(*HALF_TAKEN).when(expire(after=timedelta(days=6))).then()
    lapsed = replace(ended(because=e.ReleasedBecause.LAPSED, reference=None), at=NOON + timedelta(days=8))
    order = given(*HALF_TAKEN).when(expire()).then(lapsed)
    assert (order.status, order.amount_released) == (OrderStatus.PARTIALLY_PAID, 4000)
    assert last_step(order) == (EntryAction.EXPIRATION, EntryStatus.SUCCESS)
    assert timers_of(order) == ()


def test_a_lapse_ends_no_reference_by_which_the_payer_is_to_pay_the_rest() -> None:
    lapsed = replace(ended(because=e.ReleasedBecause.LAPSED, reference=None), at=NOON + timedelta(days=8))
    order = given(*HALF_TAKEN, *reference_open(2, 4000)).when(expire()).then(lapsed)
    assert order.payments[1].status is PaymentStatus.REQUIRES_ACTION


# ---------------------------------------------------------------- what is asked of the payer


def test_no_payer_is_reminded_of_what_was_released() -> None:
    assert awaits_payer(folded(HALF_TAKEN))
    assert not awaits_payer(folded(RELEASED))


def test_the_other_parts_of_a_split_order_are_still_asked_for() -> None:
    part = (*with_authorization(SPLIT_MANUAL_CAPTURE, 6000, 6000), scheduled(1, 4000))
    asked = replace(capturing(SPLIT_MANUAL_CAPTURE)[-1], amount=Decimal(4000))
    history = (*part, asked, captured(1, 4000), ended(2000), *reference_open(2, 4000))
    order = folded(history)
    assert (order.amount_pending, order.pending_released) == (6000, 2000)
    assert awaits_payer(order)
    given(*SPLIT_HALF_TAKEN, REQUESTED).when(record_release(release_outcome(4000))).then(ended())
    assert given(*SPLIT_HALF_TAKEN, ended()).when(add_payment(2, 4000)).then_events(), "what was released can be paid"


def test_the_reference_for_the_rest_ends_with_the_hold() -> None:
    rest = reference_open(2, 4000)
    gone = e.PaymentCancelled(payment_id=payment_id(2), because=e.CancelledBecause.RELEASED, at=NOON)
    order = given(*HALF_TAKEN, *rest, REQUESTED).when(record_release(release_outcome(4000))).then(ended(), gone)
    assert [payment.status for payment in order.payments] == [PaymentStatus.PARTIALLY_CAPTURED, PaymentStatus.CANCELLED]
    assert order.status is OrderStatus.PARTIALLY_PAID
    kept = given(*SPLIT_HALF_TAKEN, *rest, REQUESTED).when(record_release(release_outcome(4000))).then(ended())
    assert kept.payments[1].status is PaymentStatus.REQUIRES_ACTION
