"""Refunds: what they can request, and the order of their checks (contract N35 to N39, sections 4.6, 8.7 and 8.11)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from msgspec.structs import astuple, replace
from tests.domain.action_builders import record_refund, refund, refund_outcome
from tests.domain.builders import (
    DEADLINE,
    NOON,
    SPLIT,
    SPLIT_WITH_SURCHARGE,
    THREE_PERCENT,
    created,
    deposited,
    folded,
    late_capture,
    paid,
    payment_id,
    reference_open,
    refund_id,
    refund_requested,
    refunded,
    rules,
)
from tests.domain.scenario import given
from tests.domain.transition_rows import CANCELLING_WITH_REFUND, ONE, PAID, awaiting_deposit, with_card_payment

from ledger.domain.fold import fold
from ledger.domain.orders.commands import Allocation, RefundOrder, RefundOverpayment
from ledger.domain.orders.decide.overpayments import decide_overpayment_refund
from ledger.domain.orders.decide.refunds import refund_all
from ledger.domain.orders.events import AbandonedBecause, CallAbandoned, ProcessorCall, RefundReopened, RefundRequested
from ledger.domain.orders.evolve.order import evolve
from ledger.domain.orders.processor_outcomes import RefundRefused
from ledger.domain.orders.refund import RefundStatus, returned_refund_id
from ledger.domain.orders.state import Order
from ledger.domain.orders.statuses import OrderStatus
from ledger.domain.rejections import (
    IdempotencyMismatch,
    InvalidField,
    InvalidOrderState,
    OrderNotRefundable,
    PaymentNotFound,
    RefundExceedsBalance,
    RefundWindowExpired,
)

OVERPAID = (*awaiting_deposit(created()), deposited(1, 12000))


def not_sent(n: int) -> CallAbandoned:
    return CallAbandoned(
        payment_id=payment_id(n), call=ProcessorCall.REFUND, because=AbandonedBecause.NOT_SENT, at=NOON
    )


def allocated(total: int, *shares: tuple[int, int]) -> RefundOrder:
    return refund(
        total, allocations=tuple(Allocation(payment_id=payment_id(n), amount=Decimal(amount)) for n, amount in shares)
    )


def test_a_refund_cannot_exceed_what_its_payments_hold() -> None:
    history = (SPLIT, *paid(1, 4000), *paid(2, 6000))
    given(*history).when(refund(4001, payment_id=ONE)).then_rejected(RefundExceedsBalance, refundableAmount=4000)
    given(*history).when(refund(10001)).then_rejected(RefundExceedsBalance, refundableAmount=10000)
    given(*history, refund_requested(1, 1000, 9), refunded(1, 1000, 9)).when(
        refund(3001, payment_id=ONE)
    ).then_rejected(RefundExceedsBalance, refundableAmount=3000)


def test_what_a_failed_refund_gave_back_is_a_refund_of_its_own() -> None:
    """A processor may need two steps for one refund, of which one fails: the rest can be refunded once more."""
    failed = RefundRefused(code="ACCOUNT_CLOSED", returned=Decimal(1500), returned_reference="re-2")
    pending = (*awaiting_deposit(created()), deposited(1, 10_000), refund_requested(1, 6000))
    [refused, requested, returned] = given(*pending).when(record_refund(failed)).then_events()
    order = folded([*pending, refused, requested, returned])
    first, second = order.refunds
    assert (first.status, first.amount) == (RefundStatus.FAILED, 6000)
    assert (second.status, second.amount, second.refund_id) == (
        RefundStatus.SUCCEEDED,
        1500,
        returned_refund_id(refund_id(1), ONE),
    )
    assert (second.parts[0].processor_reference, requested.idempotency_key) == ("re-2", f"{second.refund_id}:{ONE}")
    assert (order.net, order.refundable, order.status) == (8500, 8500, OrderStatus.PARTIALLY_REFUNDED)
    given(*pending, refused, requested, returned).when(record_refund(failed)).then()
    given(*pending, refused).when(record_refund(failed)).then(requested, returned)
    for busy in (refund_requested(1, 1000, 2), refund_requested(1, 9000, 2)):
        given(*pending, refused, busy).when(record_refund(failed)).then()
    given(*pending, refused, refund_requested(1, 9000, 2), refunded(1, 9000, 2)).when(record_refund(failed)).then()


def test_without_partial_payouts_a_reference_is_refunded_whole_or_not_at_all() -> None:
    history = (*awaiting_deposit(created(allow_partials=True), 4000), deposited(1, 4000), *paid(2, 6000))
    for part in (refund(3999, payment_id=ONE), refund(9999), allocated(2000, (1, 1000), (2, 1000))):
        given(*history).when(replace(part, rules=rules(partial_payouts=False))).then_rejected(
            InvalidField, field="amount"
        )
        assert given(*history).when(part).then_events()
    for whole in (refund(4000, payment_id=ONE), refund(10000), refund(1, payment_id=payment_id(2))):
        assert given(*history).when(replace(whole, rules=rules(partial_payouts=False))).then_events()


def test_a_refund_follows_its_allocations() -> None:
    history = (SPLIT, *paid(1, 4000), *paid(2, 6000))
    given(*history).when(allocated(5000, (1, 1000), (2, 4000))).then(
        refund_requested(1, 1000), refund_requested(2, 4000)
    )


@pytest.mark.parametrize("command", [allocated(5000, (1, 1000), (2, 3000)), allocated(2000, (1, 1000), (1, 1000))])
def test_allocations_add_up_and_name_each_payment_once(command: RefundOrder) -> None:
    given(SPLIT, *paid(1, 4000), *paid(2, 6000)).when(command).then_rejected(InvalidField, field="allocations")


def test_a_refund_needs_captured_money() -> None:
    given(*with_card_payment(created())).when(refund(1)).then_rejected(
        OrderNotRefundable, currentStatus=OrderStatus.PROCESSING
    )
    given(*PAID).when(refund(1, payment_id=payment_id(2))).then_rejected(PaymentNotFound)
    given(*PAID).when(refund(0)).then_rejected(InvalidField, field="amount")


@pytest.mark.parametrize("named", [None, ONE])
def test_a_card_is_refundable_within_its_processors_period(named: object) -> None:
    window = timedelta(days=180)
    given(*PAID).when(refund(1000, at=NOON + window + timedelta(seconds=1), payment_id=named)).then_rejected(
        RefundWindowExpired
    )
    assert len(given(*PAID).when(refund(1000, at=NOON + window, payment_id=named)).then_events()) == 1
    given(*PAID).when(refund(1000, at=NOON + timedelta(seconds=61), rules=rules(card_window_s=60))).then_rejected(
        RefundWindowExpired
    )


def test_an_order_with_a_pending_cancellation_cannot_be_refunded() -> None:
    history = (SPLIT, *paid(1, 4000), *paid(2, 2000), CANCELLING_WITH_REFUND, refund_requested(1, 4000, 9))
    given(*history).when(refund(1000)).then_rejected(
        InvalidOrderState, currentStatus=OrderStatus.CANCELLATION_REQUESTED, allowedStatuses=()
    )
    over = RefundOverpayment(refund_id=refund_id(2), deadline_at=DEADLINE, at=NOON)
    assert given(*OVERPAID, CANCELLING_WITH_REFUND).when(over).then_events() == []


def test_the_external_id_of_a_refund_is_unique_within_its_order() -> None:
    known = refund_requested(1, 1000, external_id="devolución-1")
    assert given(*PAID, known).when(refund(1000, 2, external_id="devolución-1")).then_events() == []
    given(*PAID, known).when(refund(999, 2, external_id="devolución-1")).then_rejected(
        IdempotencyMismatch, field="amount"
    )


def test_the_external_id_of_a_refund_that_was_never_sent_is_free_again() -> None:
    asked = [refund_requested(n, amount, external_id="devolución-1") for n, amount in ((2, 6000), (1, 1000))]
    history = (SPLIT, *paid(1, 4000), *paid(2, 6000), *asked)
    unsent = [not_sent(n) for n in (1, 2)]
    again = refund(7000, 2, external_id="devolución-1")
    given(*history, *unsent).when(again).then(
        *(refund_requested(n, amount, 2, external_id="devolución-1") for n, amount in ((2, 6000), (1, 1000)))
    )
    assert given(*history, unsent[0], refunded(2, 6000)).when(again).then_events() == []
    assert given(*history, unsent[0]).when(again).then_events() == []


def test_an_overpayment_is_refunded() -> None:
    over = RefundOverpayment(refund_id=refund_id(1), deadline_at=DEADLINE, at=NOON)
    given(*OVERPAID).when(over).then(refund_requested(1, 2000, reason="overpayment", payout=True))
    assert given(*PAID).when(over).then_events() == []


def overpayment_refund(history: Sequence[Any], **changes: Any) -> tuple[list[tuple[UUID, Decimal]], Order]:
    """Returns what each payment gives back of an overpayment, and the order after these refunds."""
    order = folded(history)
    over = RefundOverpayment(refund_id=refund_id(1), deadline_at=DEADLINE, at=NOON, **changes)
    requested = decide_overpayment_refund(order, over)
    shares = [(event.payment_id, event.amount) for event in requested if isinstance(event, RefundRequested)]
    order = fold(evolve, order, requested)
    for n, payment in enumerate(order.payments, 1):
        if payment.refunding:
            order = evolve(order, refunded(n, payment.refunding))
    return shares, order


def test_an_overpaid_payment_gives_back_its_excess_first_and_without_surcharge() -> None:
    history = [SPLIT_WITH_SURCHARGE, *reference_open(1, 200, 6), deposited(1, 250)]
    payment = folded(history).payments[0]
    assert [tuple(astuple(payment.parts_of_refund(Decimal(n), Decimal(1)))) for n in (43, 44, 47, 250)] == [
        (43, 0),
        (44, 0),
        (47, 0),
        (244, 6),
    ]


@pytest.mark.parametrize("second", [6000, 10000])
def test_the_overpayment_of_a_split_order_is_refunded_with_its_surcharge(second: int) -> None:
    surcharge = second * 3 // 100
    history = [SPLIT_WITH_SURCHARGE, *reference_open(1, 10000, 300), *reference_open(2, second, surcharge)]
    history += [deposited(1, 10300), deposited(2, second + surcharge)]
    shares, order = overpayment_refund(history)
    assert shares == [(payment_id(2), second + surcharge)]
    assert (order.amount, order.net, order.overpaid_amount, order.amount_pending) == (10300, 10300, 0, 0)


def test_the_overpayment_of_a_split_order_is_refunded_from_several_payments() -> None:
    history = [SPLIT_WITH_SURCHARGE, *(step for n in (1, 2, 3) for step in reference_open(n, 7000, 210))]
    shares, order = overpayment_refund([*history, *(deposited(n, 7210) for n in (1, 2, 3))])
    assert shares == [(payment_id(3), 7210), (payment_id(2), 4120)]
    assert (order.amount, order.net, order.overpaid_amount, order.amount_pending) == (10300, 10300, 0, 0)


def test_an_overpayment_stays_where_its_reference_can_only_be_refunded_whole() -> None:
    assert overpayment_refund(OVERPAID, rules=rules(partial_payouts=False))[0] == []
    twice = [SPLIT, *reference_open(1, 10000, 0), *reference_open(2, 4000, 0), deposited(1, 10000), deposited(2, 4000)]
    assert overpayment_refund(twice, rules=rules(partial_payouts=False))[0] == [(payment_id(2), 4000)]


def test_an_overpayment_by_card_stays_after_the_refund_period() -> None:
    history = (*PAID, late_capture(1, 500))
    assert overpayment_refund(history)[0] == [(payment_id(1), 500)]
    assert overpayment_refund(history, rules=rules(card_window_s=-1))[0] == []


def test_money_after_an_order_is_covered_changes_no_amount_and_is_refunded_to_its_own_payment() -> None:
    history = [
        created(surcharge=THREE_PERCENT),
        *reference_open(1, 10000),
        deposited(1, 4000, "dep-1"),
        *paid(2, 6000, 180),
    ]
    covered = folded(history)
    assert (covered.status, covered.amount, covered.surcharge_amount) == (OrderStatus.COMPLETED, 10180, 180)
    history += [deposited(1, 6000, "dep-2")]
    order = folded(history)
    assert (order.amount, order.surcharge_amount, order.overpaid_amount) == (10180, 180, 6000)
    shares, order = overpayment_refund(history)
    assert shares == [(payment_id(1), 6000)]
    assert (order.amount, order.net, order.overpaid_amount, order.amount_pending) == (10180, 10180, 0, 0)


def test_a_cancellation_refunds_the_smallest_amount_and_no_payment_that_holds_nothing() -> None:
    fraction = Decimal("0.5")
    order = folded((SPLIT, *paid(1, fraction), *paid(2, 4000), refund_requested(2, 4000, 9), refunded(2, 4000, 9)))
    requested = refund_all(order, refund(1))
    assert [(each.payment_id, each.amount) for each in requested if isinstance(each, RefundRequested)] == [
        (ONE, fraction)
    ]
    assert len(requested) == 1


def test_a_cancellation_refunds_no_payment_whose_refund_is_in_flight() -> None:
    order = folded((SPLIT, *paid(1, 4000), refund_requested(1, 1000, 9)))
    assert refund_all(order, refund(1)) == []


def test_a_failed_refund_of_the_whole_rest_is_reopened_when_it_was_carried_out_after_all() -> None:
    given(*PAID, refund_requested(1, 10000), not_sent(1)).when(record_refund(refund_outcome(10000))).then(
        RefundReopened(refund_id=refund_id(1), payment_id=ONE, at=NOON), refunded(1, 10000)
    )
