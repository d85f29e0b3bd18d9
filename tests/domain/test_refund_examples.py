"""The worked examples of section 4.4, and the states of a refund: allocated, in flight, refused, reopened."""

from __future__ import annotations

from decimal import Decimal

import pytest
from msgspec.structs import replace
from tests.domain.builders import (
    DEADLINE,
    NOON,
    SPEI,
    SPLIT_WITH_SURCHARGE,
    created,
    folded,
    paid,
    payment_id,
    refund_id,
    refund_requested,
    refunded,
)
from tests.domain.scenario import given

from ledger.audit.invariants.orders import broken_order
from ledger.domain.fold import fold
from ledger.domain.orders.commands import RecordRefundOutcome, RefundOrder, ReverseRefund
from ledger.domain.orders.decide.outcomes import decide_outcome
from ledger.domain.orders.decide.refunds import decide_refund, decide_refund_reversal
from ledger.domain.orders.events import (
    AbandonedBecause,
    CallAbandoned,
    LateRefundReported,
    OrderCancelled,
    ProcessorCall,
    RefundReversed,
    SettlementListed,
    SettlementMatched,
)
from ledger.domain.orders.evolve.order import evolve
from ledger.domain.orders.processor_outcomes import Refunded
from ledger.domain.orders.processor_outcomes import RefundRefused as Refusal
from ledger.domain.orders.refund import RefundStatus
from ledger.domain.orders.state import Order
from ledger.domain.orders.statuses import OrderStatus, PaymentStatus
from ledger.domain.rejections import RefundExceedsBalance, RefundInProgress

COVERED = (SPLIT_WITH_SURCHARGE, *paid(1, 4000, 120), *paid(2, 6000, 0, SPEI))


def refund(amount, n=1, payment=None):
    named = None if payment is None else payment_id(payment)
    return RefundOrder(refund_id=refund_id(n), amount=Decimal(amount), deadline_at=DEADLINE, at=NOON, payment_id=named)


def test_the_worked_example_of_a_split_order():
    order = folded(COVERED)
    assert (order.amount, order.amount_paid, order.amount_pending) == (10120, 10120, 0)
    assert order.status is OrderStatus.COMPLETED
    order = folded([*COVERED, refund_requested(1, 1000), refunded(1, 1000)])
    assert (order.surcharge_amount, order.amount, order.amount_refunded, order.amount_pending) == (91, 10091, 1000, 971)
    assert order.status is OrderStatus.PARTIALLY_PAID
    order = folded(
        [*COVERED, refund_requested(1, 1000), refunded(1, 1000), refund_requested(1, 3120, 2), refunded(1, 3120, 2)]
    )
    assert (order.surcharge_amount, order.amount, order.amount_pending) == (0, 10000, 4000)


def test_refunds_with_odd_roundings_end_at_exactly_the_parts():
    history = [created(333, allow_partials=True, surcharge=None), *paid(1, 333, 12)]
    seen = []
    for n, amount in enumerate((100, 100, 145), 1):
        before = folded(history).payments[0].refunded_split(Decimal(1))
        history += [refund_requested(1, amount, n), refunded(1, amount, n)]
        after = folded(history).payments[0].refunded_split(Decimal(1))
        seen.append((after.subtotal - before.subtotal, after.surcharge - before.surcharge))
    assert seen == [(97, 3), (96, 4), (140, 5)]


def decided(order: Order, command):
    return [(event.payment_id, event.amount) for event in decide_refund(order, command)]


def test_a_refund_takes_the_newest_payment_first():
    assert decided(folded(COVERED), refund(7000)) == [(payment_id(2), 6000), (payment_id(1), 1000)]


def test_a_refund_in_flight_has_reserved_its_money():
    order = folded([*COVERED, refund_requested(1, 1000)])
    assert decided(order, refund(6000, 2)) == [(payment_id(2), 6000)]
    with pytest.raises(RefundInProgress):
        decide_refund(order, refund(6001, 2))
    with pytest.raises(RefundInProgress):
        decide_refund(order, refund(1, 2, payment=1))
    with pytest.raises(RefundExceedsBalance) as refused:
        decide_refund(order, refund(9121, 2))
    assert refused.value.facts == {"refundableAmount": 9120}


def test_a_refused_refund_releases_the_payment_and_can_succeed_after_all():
    order = folded([*COVERED, refund_requested(1, 1000)])
    for outcome, status, back in (
        (Refusal(code="GENERIC_DECLINE"), PaymentStatus.CAPTURED, 0),
        (Refunded(amount=Decimal(1000), processor_reference="ref"), PaymentStatus.PARTIALLY_REFUNDED, 1000),
    ):
        command = RecordRefundOutcome(refund_id=refund_id(1), payment_id=payment_id(1), outcome=outcome, at=NOON)
        order = fold(evolve, order, decide_outcome(order, command))
        assert decide_outcome(order, command) == []
        assert (order.payments[0].status, order.payments[0].refunded) == (status, back)


def late(part: int, n: int = 1):
    outcome = Refunded(amount=Decimal(part), processor_reference="ref")
    return RecordRefundOutcome(refund_id=refund_id(n), payment_id=payment_id(1), outcome=outcome, at=NOON)


def test_a_late_refund_beside_another_one_in_flight_counts_and_the_other_goes_on():
    """The processor refunded what the recovery had given up, and the merchant had requested again."""
    given_up = CallAbandoned(
        payment_id=payment_id(1), call=ProcessorCall.REFUND, because=AbandonedBecause.NOT_FOUND, at=NOON
    )
    history = [*COVERED, refund_requested(1, 1000), given_up, refund_requested(1, 1000, 2)]
    [reported] = decide_outcome(folded(history), late(1000))
    assert isinstance(reported, LateRefundReported)
    order = folded([*history, reported])
    assert decide_outcome(order, late(1000)) == [], "the same answer twice"
    assert [refund.status for refund in order.refunds] == [RefundStatus.SUCCEEDED, RefundStatus.PENDING]
    payment = order.payments[0]
    assert (payment.status, payment.refunded, payment.refundable) == (PaymentStatus.PENDING_REFUND, 1000, 2120)
    both = fold(evolve, order, decide_outcome(order, late(1000, 2)))
    assert (both.payments[0].status, both.amount_refunded) == (PaymentStatus.PARTIALLY_REFUNDED, 2000)
    refused = RecordRefundOutcome(
        refund_id=refund_id(2), payment_id=payment_id(1), outcome=Refusal(code="GENERIC_DECLINE"), at=NOON
    )
    one = fold(evolve, order, decide_outcome(order, refused))
    assert (one.payments[0].status, one.amount_refunded) == (PaymentStatus.PARTIALLY_REFUNDED, 1000)


def test_a_failure_that_is_final_is_remembered_and_leaves_another_refund_under_way():
    """The answer of the call is late: the processor's message has reported a success that has failed since."""
    given_up = CallAbandoned(
        payment_id=payment_id(1), call=ProcessorCall.REFUND, because=AbandonedBecause.NOT_FOUND, at=NOON
    )
    over = RecordRefundOutcome(
        refund_id=refund_id(1), payment_id=payment_id(1), outcome=Refusal(code="X", is_final=True), at=NOON
    )
    for history in ([given_up, refund_requested(1, 2000, 2)], []):
        order = folded([*COVERED, refund_requested(1, 1000), *history])
        [refused] = decide_outcome(order, over)
        after = fold(evolve, order, [refused])
        assert refused.is_final
        assert (decide_outcome(after, over), decide_outcome(after, late(1000))) == ([], [])
        payment = after.payments[0]
        assert (payment.refunding, payment.intent is None) == ((2000, False) if history else (0, True))


def test_a_late_refund_of_a_payment_that_was_refunded_otherwise_is_recorded_and_counts_no_more_than_was_captured():
    given_up = CallAbandoned(
        payment_id=payment_id(1), call=ProcessorCall.REFUND, because=AbandonedBecause.NOT_FOUND, at=NOON
    )
    history = [*COVERED, refund_requested(1, 4120), given_up, refund_requested(1, 4120, 2), refunded(1, 4120, 2)]
    order = folded(history)
    [reported] = decide_outcome(order, late(4120))
    assert (type(reported), reported.amount) == (LateRefundReported, 4120), "an operator finds it in the log"
    order = fold(evolve, order, [reported])
    payment = order.payments[0]
    assert (payment.status, payment.refunded, payment.refundable) == (PaymentStatus.REFUNDED, 4120, 0)
    assert [refund.status for refund in order.refunds] == [RefundStatus.SUCCEEDED, RefundStatus.SUCCEEDED]


@pytest.mark.parametrize("ends_payment", [True, False])
def test_a_late_refund_of_all_that_is_held_ends_the_payment_and_a_refund_that_comes_back_then_moves_nothing(
    ends_payment: bool,
):
    """Earlier releases recorded it without an end of the payment, whose status stays as it was then."""
    given_up = CallAbandoned(
        payment_id=payment_id(1), call=ProcessorCall.REFUND, because=AbandonedBecause.NOT_FOUND, at=NOON
    )
    history = [*COVERED, refund_requested(1, 4120), given_up, refund_requested(1, 1000, 2), refunded(1, 1000, 2)]
    before = folded(history)
    [reported] = decide_outcome(before, late(4120))
    assert reported.ends_payment
    reported = replace(reported, ends_payment=ends_payment)
    order = evolve(before, reported)
    assert list(broken_order(before, reported, order)) == []
    status = PaymentStatus.REFUNDED if ends_payment else PaymentStatus.PARTIALLY_REFUNDED
    assert (order.payments[0].status, order.payments[0].refunded) == (status, 4120)
    command = ReverseRefund(refund_id=refund_id(2), payment_id=payment_id(1), code="UNKNOWN", at=NOON)
    [back] = decide_refund_reversal(order, command)
    after = evolve(order, back)
    assert list(broken_order(order, back, after)) == []
    assert (after.payments[0].status, after.payments[0].refunded) == (status, 4120)


def test_a_refund_that_comes_back_is_held_again_and_never_succeeds_later():
    """The sums follow, another refund in flight goes on, and what the processor reported earlier changes nothing."""
    command = ReverseRefund(refund_id=refund_id(1), payment_id=payment_id(1), code="UNKNOWN", at=NOON)
    history = [*COVERED, refund_requested(1, 1000), refunded(1, 1000), refund_requested(1, 2000, 2)]
    [back] = given(*history).when(command).then_events()
    assert (type(back), back.amount) == (RefundReversed, 1000)
    order = folded([*history, back])
    payment = order.payments[0]
    assert (payment.status, payment.refunded, payment.refundable) == (PaymentStatus.PENDING_REFUND, 0, 2120)
    assert [refund.status for refund in order.refunds] == [RefundStatus.FAILED, RefundStatus.PENDING]
    assert decide_outcome(order, late(1000)) == []
    order = fold(evolve, order, decide_outcome(order, late(2000, 2)))
    assert (order.payments[0].status, order.amount_refunded) == (PaymentStatus.PARTIALLY_REFUNDED, 2000)
    pending = folded([*COVERED, refund_requested(1, 1000)])
    assert decide_refund_reversal(pending, command) == []


def test_a_refund_of_a_settled_payment_that_comes_back_leaves_it_settled_and_reopens_its_order():
    settled = [created(), *paid(1, 10000), SettlementListed(payment_id=payment_id(1), batch_id="b", at=NOON)]
    settled += [SettlementMatched(payment_id=payment_id(1), batch_id="b", at=NOON)]
    command = ReverseRefund(refund_id=refund_id(1), payment_id=payment_id(1), code="UNKNOWN", at=NOON)
    ended = [refund_requested(1, 10000), refunded(1, 10000), OrderCancelled(at=NOON)]
    order = folded([*settled, *ended, *decide_refund_reversal(folded([*settled, *ended]), command)])
    assert (order.payments[0].status, order.net, order.closed) == (PaymentStatus.SETTLED, 10000, False)
