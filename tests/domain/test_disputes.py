"""What banks say of money that is here: chargebacks and settlement batches (contract 2.1, sections 8.11 and N36)."""

from __future__ import annotations

from decimal import Decimal

import pytest
from tests.domain.asking import BATCH, DISPUTE, batch, dispute, gave_back, refund, refund_answered
from tests.domain.moves import HELD_STORIES, LISTED, LOST, MATCHED, ONE, OPENED, PAID, REFUSED, WON, card, disputed
from tests.domain.scenario import given
from tests.domain.story import NOON, SPLIT, created, declined, folded, late, paid, payment_id, refund_asked

from ledger.domain.orders import commands as c
from ledger.domain.orders import events as e
from ledger.domain.orders.payment import HELD
from ledger.domain.orders.statuses import OrderStatus, PaymentStatus
from ledger.domain.rejections import InvalidField, InvalidOrderState, OrderNotRefundable, PaymentNotFound

ALLOWED = tuple(sorted(HELD))


def opened(amount: int) -> e.DisputeOpened:
    return e.DisputeOpened(payment_id=ONE, dispute_id=DISPUTE, amount=Decimal(amount), at=NOON)


def lost(amount: int) -> e.DisputeLost:
    return e.DisputeLost(payment_id=ONE, dispute_id=DISPUTE, amount=Decimal(amount), at=NOON)


def test_a_dispute_contests_all_that_is_held_or_the_amount_it_names() -> None:
    order = given(*PAID).when(dispute(OPENED)).then(opened(10000))
    assert (order.status, order.payments[0].status) == (OrderStatus.COMPLETED, PaymentStatus.DISPUTED)
    given(*PAID).when(dispute(OPENED, 2500)).then(opened(2500))
    given(*HELD_STORIES[PaymentStatus.PARTIALLY_REFUNDED]).when(dispute(OPENED)).then(opened(7000))


def test_a_dispute_that_is_won_changes_no_amount() -> None:
    won = e.DisputeWon(payment_id=ONE, dispute_id=DISPUTE, at=NOON)
    order = given(*disputed(PAID, 10000)).when(dispute(WON)).then(won)
    assert (order.amount_refunded, order.payments[0].status) == (0, PaymentStatus.CAPTURED)


def test_a_chargeback_counts_as_refunded_and_is_no_refund() -> None:
    order = given(*disputed(PAID, 2500)).when(dispute(LOST)).then(lost(2500))
    assert (order.status, order.amount_refunded) == (OrderStatus.PARTIALLY_REFUNDED, 2500)
    assert (order.refunds, order.payments[0].charged_back) == ((), 2500)


@pytest.mark.parametrize("gone", [1000, 2500, 4000])
def test_a_dispute_takes_what_the_bank_says_at_its_end_and_not_what_was_contested(gone: int) -> None:
    order = given(*disputed(PAID, 2500)).when(dispute(LOST, gone)).then(lost(gone))
    assert (order.amount_refunded, order.payments[0].charged_back) == (gone, gone)
    contested, taken = order.payments[0].entries[-2:]
    assert (contested.amount, taken.amount) == (2500, gone)


def test_a_dispute_takes_no_more_than_is_held() -> None:
    given(*disputed(PAID, 2500)).when(dispute(LOST, 10001)).then_rejected(InvalidField, field="amount")


def test_a_dispute_that_is_first_heard_of_at_its_end_is_opened_and_ended() -> None:
    given(*PAID).when(dispute(LOST, 2500)).then(opened(2500), lost(2500))


@pytest.mark.parametrize("stage", [OPENED, WON, LOST])
def test_a_dispute_is_decided_once_however_many_came_after_it(stage: c.DisputeStage) -> None:
    other = (
        e.DisputeOpened(payment_id=ONE, dispute_id="dsp-2", amount=Decimal(1000), at=NOON),
        e.DisputeWon(payment_id=ONE, dispute_id="dsp-2", at=NOON),
    )
    order = given(*disputed(PAID, 2500), lost(2500), *other).when(dispute(stage, 2500)).then()
    assert order.payments[0].charged_back == 2500


def test_a_split_order_waits_for_what_was_charged_back() -> None:
    order = given(*disputed((SPLIT, *paid(1, 10000)), 2500)).when(dispute(LOST)).then(lost(2500))
    assert (order.status, order.amount_pending) == (OrderStatus.PARTIALLY_PAID, 2500)


@pytest.mark.parametrize(
    "history",
    [card(created()), disputed(PAID, 1), (*PAID, refund_asked(1, 1000))],
    ids=["unpaid", "disputed", "refunding"],
)
def test_only_held_money_is_contested(history: tuple[object, ...]) -> None:
    given(*history).when(dispute(OPENED, name="dsp-2")).then_rejected(
        InvalidOrderState, currentStatus=folded(history).payments[0].status, allowedStatuses=ALLOWED
    )


def test_no_more_is_contested_than_is_held() -> None:
    given(*PAID).when(dispute(OPENED, 10001)).then_rejected(InvalidField, field="amount")
    given(*PAID).when(dispute(OPENED, n=2)).then_rejected(PaymentNotFound)


def test_contested_money_is_not_refunded() -> None:
    given(*disputed(PAID, 1000)).when(refund(1000, payment_id=ONE)).then_rejected(
        OrderNotRefundable, currentStatus=PaymentStatus.DISPUTED
    )
    history = (*disputed((SPLIT, *paid(1, 4000)), 1000), *paid(2, 6000))
    events = given(*history).when(refund(6000)).then_events()
    assert [(event.payment_id, event.amount) for event in events] == [(payment_id(2), 6000)]


def test_a_batch_lists_a_payment_and_settles_or_refuses_it() -> None:
    listed = e.SettlementListed(payment_id=ONE, batch_id=BATCH, at=NOON)
    given(*PAID).when(batch(LISTED)).then(listed)
    order = given(*PAID, listed).when(batch(MATCHED)).then(e.SettlementMatched(payment_id=ONE, batch_id=BATCH, at=NOON))
    assert order.payments[0].status is PaymentStatus.SETTLED
    order = given(*PAID, listed).when(batch(REFUSED)).then(e.SettlementRefused(payment_id=ONE, batch_id=BATCH, at=NOON))
    assert order.payments[0].status is PaymentStatus.CAPTURED


def test_a_batch_that_does_not_list_a_payment_does_not_settle_it() -> None:
    listed = e.SettlementListed(payment_id=ONE, batch_id=BATCH, at=NOON)
    given(*PAID, listed).when(batch(MATCHED, name="lote-2")).then_rejected(
        InvalidOrderState, currentStatus=PaymentStatus.PENDING_SETTLEMENT, allowedStatuses=ALLOWED
    )
    given(*PAID).when(batch(MATCHED)).then_rejected(
        InvalidOrderState, currentStatus=PaymentStatus.CAPTURED, allowedStatuses=ALLOWED
    )
    given(*card(created())).when(batch(LISTED)).then_rejected(
        InvalidOrderState, currentStatus=PaymentStatus.PENDING_AUTHORIZATION, allowedStatuses=ALLOWED
    )


def test_money_reported_late_on_a_failed_payment_is_refunded_and_the_payment_stays_failed() -> None:
    history = (*card(created()), declined(1), late(1, 10000), refund_asked(1, 10000))
    events = given(*history).when(refund_answered(gave_back(10000))).then_events()
    order = folded([*history, *events])
    assert (order.status, order.payments[0].status) == (OrderStatus.REFUNDED, PaymentStatus.FAILED)
