"""Disputes, chargebacks and settlement batches of captured money (contract 2.1, section 8.11 and N36)."""

from __future__ import annotations

from decimal import Decimal
from uuid import UUID

import pytest
from msgspec.structs import replace
from tests.domain.action_builders import BATCH, DISPUTE, dispute, record_refund, refund, refund_outcome, settlement
from tests.domain.builders import (
    NOON,
    SPLIT,
    created,
    declined,
    folded,
    late_capture,
    paid,
    payment_id,
    refund_id,
    refund_requested,
    refunded,
)
from tests.domain.scenario import given
from tests.domain.transition_rows import (
    HELD_HISTORIES,
    LISTED,
    LOST,
    MATCHED,
    ONE,
    OPENED,
    PAID,
    REFUSED,
    WON,
    disputed,
    with_card_payment,
)

from ledger.audit.invariants.orders import broken_order
from ledger.domain.orders import commands as c
from ledger.domain.orders import events as e
from ledger.domain.orders import processor_outcomes as o
from ledger.domain.orders.decide.refunds import decide_refund, decide_refund_reversal, decide_unrequested_refund
from ledger.domain.orders.evolve.order import evolve
from ledger.domain.orders.refund import RefundStatus, SettlementBatch
from ledger.domain.orders.statuses import CAPTURED_STATUSES, REFUNDABLE_STATUSES, OrderStatus, PaymentStatus
from ledger.domain.rejections import (
    InvalidField,
    InvalidOrderState,
    OrderNotRefundable,
    PaymentNotFound,
    RefundExceedsBalance,
)

ALLOWED = tuple(sorted(CAPTURED_STATUSES))
DISPUTABLE = tuple(sorted(REFUNDABLE_STATUSES))


def opened(amount: int, reported: int | None = None) -> e.DisputeOpened:
    return e.DisputeOpened(
        payment_id=ONE, dispute_id=DISPUTE, amount=Decimal(amount), at=NOON, reported_amount=_number(reported)
    )


def lost(amount: int, reported: int | None = None) -> e.DisputeLost:
    return e.DisputeLost(
        payment_id=ONE, dispute_id=DISPUTE, amount=Decimal(amount), at=NOON, reported_amount=_number(reported)
    )


def _number(amount: int | None) -> Decimal | None:
    return None if amount is None else Decimal(amount)


def test_a_dispute_is_about_all_held_money_or_the_amount_it_names() -> None:
    order = given(*PAID).when(dispute(OPENED)).then(opened(10000))
    assert (order.status, order.payments[0].status) == (OrderStatus.COMPLETED, PaymentStatus.DISPUTED)
    given(*PAID).when(dispute(OPENED, 2500)).then(opened(2500))
    given(*HELD_HISTORIES[PaymentStatus.PARTIALLY_REFUNDED]).when(dispute(OPENED)).then(opened(7000))


def test_a_won_dispute_changes_no_amount() -> None:
    won = e.DisputeWon(payment_id=ONE, dispute_id=DISPUTE, at=NOON)
    order = given(*disputed(PAID, 10000)).when(dispute(WON)).then(won)
    assert (order.amount_refunded, order.payments[0].status) == (0, PaymentStatus.CAPTURED)


def test_a_chargeback_counts_as_refunded_without_being_a_refund() -> None:
    order = given(*disputed(PAID, 2500)).when(dispute(LOST)).then(lost(2500))
    assert (order.status, order.amount_refunded) == (OrderStatus.PARTIALLY_REFUNDED, 2500)
    assert (order.refunds, order.payments[0].charged_back) == ((), 2500)


@pytest.mark.parametrize("lost_amount", [1000, 2500, 4000])
def test_a_lost_dispute_takes_the_amount_reported_at_its_end(lost_amount: int) -> None:
    order = given(*disputed(PAID, 2500)).when(dispute(LOST, lost_amount)).then(lost(lost_amount))
    assert (order.amount_refunded, order.payments[0].charged_back) == (lost_amount, lost_amount)
    disputed_entry, chargeback = order.payments[0].entries[-2:]
    assert (disputed_entry.amount, chargeback.amount) == (2500, lost_amount)


def test_a_dispute_first_reported_at_its_end_is_opened_and_ended() -> None:
    given(*PAID).when(dispute(LOST, 2500)).then(opened(2500), lost(2500))


@pytest.mark.parametrize("stage", [OPENED, WON, LOST])
def test_an_ended_dispute_is_absorbed_also_after_later_disputes(stage: c.DisputeStage) -> None:
    other = (
        e.DisputeOpened(payment_id=ONE, dispute_id="dsp-2", amount=Decimal(1000), at=NOON),
        e.DisputeWon(payment_id=ONE, dispute_id="dsp-2", at=NOON),
    )
    order = given(*disputed(PAID, 2500), lost(2500), *other).when(dispute(stage, 2500)).then()
    assert order.payments[0].charged_back == 2500


def test_a_chargeback_on_a_split_order_is_pending_again() -> None:
    order = given(*disputed((SPLIT, *paid(1, 10000)), 2500)).when(dispute(LOST)).then(lost(2500))
    assert (order.status, order.amount_pending) == (OrderStatus.PARTIALLY_PAID, 2500)


@pytest.mark.parametrize(
    "history",
    [with_card_payment(created()), disputed(PAID, 1), (*PAID, refund_requested(1, 1000))],
    ids=["unpaid", "disputed", "refunding"],
)
def test_only_held_money_can_be_disputed(history: tuple[object, ...]) -> None:
    given(*history).when(dispute(OPENED, name="dsp-2")).then_rejected(
        InvalidOrderState,
        currentStatus=folded(history).payments[0].status,
        allowedStatuses=DISPUTABLE,
    )


def test_a_dispute_names_a_payment_and_an_amount_that_is_one() -> None:
    given(*PAID).when(dispute(OPENED, n=2)).then_rejected(PaymentNotFound)
    for amount in (0, Decimal("0.5")):
        given(*PAID).when(dispute(OPENED, amount)).then_rejected(InvalidField, field="amount")


RETURNED = (*PAID, refund_requested(1, 4000), refunded(1, 4000))


def test_a_dispute_over_more_than_is_held_is_about_what_is_held_and_keeps_the_banks_amount() -> None:
    order = given(*RETURNED).when(dispute(OPENED, 10_000)).then(opened(6000, 10_000))
    [payment] = order.payments
    assert (payment.status, payment.entries[-1].amount, payment.entries[-1].reported_amount) == (
        "DISPUTED",
        6000,
        10_000,
    )
    contested = (*RETURNED, opened(6000, 10_000))
    given(*contested).when(dispute(OPENED, 10_000)).then()
    given(*contested).when(refund(1, n=2)).then_rejected(RefundExceedsBalance, refundableAmount=0)
    won = e.DisputeWon(payment_id=ONE, dispute_id=DISPUTE, at=NOON)
    [payment] = given(*contested).when(dispute(WON)).then(won).payments
    assert (payment.status, payment.refundable, payment.entries[-1].reported_amount) == (
        PaymentStatus.PARTIALLY_REFUNDED,
        6000,
        10_000,
    )
    for end in (dispute(LOST), dispute(LOST, 10_000)):
        order = given(*contested).when(end).then(lost(6000, 10_000))
        [payment] = order.payments
        assert (order.net, payment.status, payment.charged_back) == (0, PaymentStatus.REFUNDED, 6000)
        assert [(each.amount, each.reported_amount) for each in payment.entries[-2:]] == [(6000, 10_000)] * 2
        given(*contested, lost(6000, 10_000)).when(dispute(LOST, 10_000)).then()
    given(*contested).when(dispute(LOST, 5000)).then(lost(5000))
    given(*PAID).when(dispute(LOST, 10_001)).then(opened(10_000, 10_001), lost(10_000, 10_001))


@pytest.mark.parametrize("succeeds", [True, False])
def test_a_dispute_waits_for_the_refund_that_is_on_its_way(succeeds: bool) -> None:
    pending = (*PAID, refund_requested(1, 4000))
    given(*pending).when(dispute(OPENED, 10_000)).then_rejected(
        InvalidOrderState, currentStatus=PaymentStatus.PENDING_REFUND, allowedStatuses=DISPUTABLE
    )
    refused = e.RefundRefused(refund_id=refund_id(1), payment_id=ONE, code="REFUSED", at=NOON)
    outcome = refunded(1, 4000) if succeeds else refused
    then = (opened(6000, 10_000), lost(6000, 10_000)) if succeeds else (opened(10_000), lost(10_000))
    order = given(*pending, outcome).when(dispute(LOST, 10_000)).then(*then)
    assert (order.net, order.refundable, order.status) == (0, 0, OrderStatus.REFUNDED)


@pytest.mark.parametrize("stage", [WON, LOST])
def test_money_that_went_back_is_contested_without_a_change_of_the_payment(stage: c.DisputeStage) -> None:
    """The bank may take money that a refund returned: the merchant sees it, and proves the refund to the bank."""
    history = (*PAID, refund_requested(1, 10_000), refunded(1, 10_000))
    order = given(*history).when(dispute(OPENED, 10_000)).then(opened(0, 10_000))
    assert (order.status, order.payments[0].status) == (OrderStatus.REFUNDED, PaymentStatus.REFUNDED)
    end = e.DisputeWon(payment_id=ONE, dispute_id=DISPUTE, at=NOON) if stage is WON else lost(0, 10_000)
    order = given(*history, opened(0, 10_000)).when(dispute(stage)).then(end)
    [payment] = order.payments
    assert (payment.status, payment.dispute, payment.charged_back, order.net) == (PaymentStatus.REFUNDED, None, 0, 0)


def test_late_money_on_a_failed_payment_is_contested_and_not_refunded_meanwhile() -> None:
    history = (*with_card_payment(created()), declined(1), late_capture(1, 10000))
    given(*history, refund_requested(1, 1000)).when(dispute(OPENED, 4000)).then_rejected(
        InvalidOrderState, currentStatus=PaymentStatus.FAILED, allowedStatuses=DISPUTABLE
    )
    order = given(*history).when(dispute(OPENED, 4000)).then(opened(4000))
    assert order.payments[0].status is PaymentStatus.FAILED
    contested = (*history, opened(4000))
    given(*contested).when(refund(1000, payment_id=ONE)).then_rejected(
        OrderNotRefundable, currentStatus=PaymentStatus.FAILED
    )
    given(*contested).when(dispute(OPENED, 1, name="dsp-2")).then_rejected(
        InvalidOrderState, currentStatus=PaymentStatus.FAILED, allowedStatuses=DISPUTABLE
    )
    order = given(*contested).when(dispute(LOST)).then(lost(4000))
    assert (order.payments[0].status, order.payments[0].refundable) == (PaymentStatus.FAILED, 6000)


def test_disputed_money_cannot_be_refunded() -> None:
    given(*disputed(PAID, 1000)).when(refund(1000, payment_id=ONE)).then_rejected(
        OrderNotRefundable, currentStatus=PaymentStatus.DISPUTED
    )
    history = (*disputed((SPLIT, *paid(1, 4000)), 1000), *paid(2, 6000))
    events = given(*history).when(refund(6000)).then_events()
    assert [(event.payment_id, event.amount) for event in events] == [(payment_id(2), 6000)]


def test_a_settlement_batch_lists_a_payment_and_settles_or_refuses_it() -> None:
    listed = e.SettlementListed(payment_id=ONE, batch_id=BATCH, at=NOON)
    given(*PAID).when(settlement(LISTED)).then(listed)
    order = (
        given(*PAID, listed)
        .when(settlement(MATCHED))
        .then(e.SettlementMatched(payment_id=ONE, batch_id=BATCH, at=NOON))
    )
    assert order.payments[0].status is PaymentStatus.SETTLED
    order = (
        given(*PAID, listed)
        .when(settlement(REFUSED))
        .then(e.SettlementRefused(payment_id=ONE, batch_id=BATCH, at=NOON))
    )
    assert order.payments[0].status is PaymentStatus.CAPTURED


def test_a_settlement_batch_that_does_not_list_a_payment_cannot_settle_it() -> None:
    listed = e.SettlementListed(payment_id=ONE, batch_id=BATCH, at=NOON)
    given(*PAID, listed).when(settlement(MATCHED, name="lote-2")).then_rejected(
        InvalidOrderState, currentStatus=PaymentStatus.PENDING_SETTLEMENT, allowedStatuses=ALLOWED
    )
    given(*PAID).when(settlement(MATCHED)).then_rejected(
        InvalidOrderState, currentStatus=PaymentStatus.CAPTURED, allowedStatuses=ALLOWED
    )
    given(*with_card_payment(created())).when(settlement(LISTED)).then_rejected(
        InvalidOrderState, currentStatus=PaymentStatus.PENDING_AUTHORIZATION, allowedStatuses=ALLOWED
    )


def test_an_older_line_of_a_batch_does_not_undo_a_later_one() -> None:
    listed = e.SettlementListed(payment_id=ONE, batch_id=BATCH, at=NOON)
    for ended in (e.SettlementMatched, e.SettlementRefused):
        given(*PAID, listed, ended(payment_id=ONE, batch_id=BATCH, at=NOON)).when(settlement(LISTED)).then()


FEE = {"fee": Decimal(36), "fee_tax": Decimal(5), "fee_currency": "MXN"}


def test_a_batch_brings_the_fee_and_a_later_report_corrects_it() -> None:
    order = (
        given(*PAID)
        .when(settlement(LISTED, **FEE))
        .then(e.SettlementListed(payment_id=ONE, batch_id=BATCH, at=NOON, **FEE))
    )
    listed = e.SettlementListed(payment_id=ONE, batch_id=BATCH, at=NOON, **FEE)
    matched = e.SettlementMatched(payment_id=ONE, batch_id=BATCH, at=NOON)
    assert order.payments[0].batch == SettlementBatch(BATCH, PaymentStatus.PENDING_SETTLEMENT, *FEE.values())
    given(*PAID, listed).when(settlement(LISTED, **FEE)).then()
    given(*PAID, listed).when(settlement(LISTED)).then()
    [settled] = folded((*PAID, listed, matched)).payments
    assert settled.batch == SettlementBatch(BATCH, PaymentStatus.SETTLED, *FEE.values()), "the line named the fee"
    other = {**FEE, "fee": Decimal(40)}
    given(*PAID, listed, matched).when(settlement(LISTED, **other)).then()
    corrected = e.SettlementMatched(payment_id=ONE, batch_id=BATCH, at=NOON, **other)
    order = given(*PAID, listed, matched).when(settlement(MATCHED, **other)).then(corrected)
    assert order.payments[0].batch == SettlementBatch(BATCH, PaymentStatus.SETTLED, *other.values())
    assert order.payments[0].entries == settled.entries, "no second step in its history"


def test_a_payout_that_the_bank_sends_back_is_refused_after_it_was_matched() -> None:
    listed = e.SettlementListed(payment_id=ONE, batch_id=BATCH, at=NOON)
    matched = e.SettlementMatched(payment_id=ONE, batch_id=BATCH, at=NOON)
    refused = e.SettlementRefused(payment_id=ONE, batch_id=BATCH, at=NOON)
    order = given(*PAID, listed, matched).when(settlement(REFUSED)).then(refused)
    assert order.payments[0].status is PaymentStatus.CAPTURED
    given(*PAID, listed, matched, refused).when(settlement(REFUSED)).then()
    given(*PAID, listed, matched, refused).when(settlement(LISTED)).then()
    given(*PAID, listed, matched, refused).when(settlement(MATCHED)).then_rejected(
        InvalidOrderState, currentStatus=PaymentStatus.CAPTURED, allowedStatuses=ALLOWED
    )
    again = e.SettlementListed(payment_id=ONE, batch_id="lote-2", at=NOON)
    given(*PAID, listed, matched).when(settlement(LISTED, name="lote-2")).then_rejected(
        InvalidOrderState, currentStatus=PaymentStatus.SETTLED, allowedStatuses=ALLOWED
    )
    given(*PAID, listed, matched, refused).when(settlement(LISTED, name="lote-2")).then(again)


@pytest.mark.parametrize("status", [PaymentStatus.PENDING_REFUND, PaymentStatus.DISPUTED, PaymentStatus.REFUNDED])
def test_a_batch_pays_out_a_payment_whose_money_was_returned_meanwhile(status: PaymentStatus) -> None:
    """Its status stays: only the status to which it returns moves with the batch."""
    after = {
        PaymentStatus.PENDING_REFUND: (refund_requested(1, 10000),),
        PaymentStatus.DISPUTED: (e.DisputeOpened(payment_id=ONE, dispute_id=DISPUTE, amount=Decimal(10000), at=NOON),),
        PaymentStatus.REFUNDED: (refund_requested(1, 10000), refunded(1, 10000)),
    }[status]
    history = (*PAID, *after)
    for stage, reached in ((LISTED, PaymentStatus.PENDING_SETTLEMENT), (MATCHED, PaymentStatus.SETTLED)):
        events = given(*history).when(settlement(stage)).then_events()
        history = (*history, *events)
        [payment] = folded(history).payments
        assert (payment.status, payment.batch) == (status, SettlementBatch(BATCH, reached))
        assert payment.returns_to is (None if status is PaymentStatus.REFUNDED else reached)
        given(*history).when(settlement(stage)).then()


def test_late_money_on_a_failed_payment_is_refundable_and_the_payment_stays_failed() -> None:
    history = (*with_card_payment(created()), declined(1), late_capture(1, 10000), refund_requested(1, 10000))
    events = given(*history).when(record_refund(refund_outcome(10000))).then_events()
    order = folded([*history, *events])
    assert (order.status, order.payments[0].status) == (OrderStatus.REFUNDED, PaymentStatus.FAILED)


@pytest.mark.parametrize(("late", "reported"), [(10_000, None), (10_000, 10_000), (4_000, 10_000)])
def test_a_dispute_ends_after_a_late_refund_and_takes_what_is_left(late: int, reported: int | None) -> None:
    refunded = e.LateRefundReported(
        payment_id=ONE, refund_id=UUID(int=50), amount=Decimal(late), processor_reference="r-50", at=NOON
    )
    order = given(*PAID, opened(10_000), refunded).when(dispute(LOST, reported)).then(lost(10_000 - late, 10_000))
    (payment,) = order.payments
    assert (payment.status, payment.refunded, order.net) == (PaymentStatus.REFUNDED, 10_000, 0)
    assert payment.charged_back == 10_000 - late
    [as_stored_before] = folded((*PAID, opened(10_000), refunded, lost(10_000))).payments
    assert (as_stored_before.refunded, as_stored_before.charged_back) == (10_000, 10_000 - late)


@pytest.mark.parametrize("amount", [1, 6_000, 10_000])
def test_a_refund_of_money_that_a_bank_took_begins_with_the_report_of_its_end(amount: int) -> None:
    order = folded([*PAID, opened(10_000), lost(10_000)])
    outcome = o.Refunded(amount=Decimal(amount), processor_reference="re_1")
    [late] = decide_unrequested_refund(order, refund(amount, payment_id=ONE, reason="Elsewhere"), outcome)
    assert isinstance(late, e.LateRefundReported)
    after = evolve(order, late)
    assert [*broken_order(order, late, after)] == []
    assert decide_unrequested_refund(after, refund(amount, payment_id=ONE, reason="Elsewhere"), outcome) == []
    assert (after.status, after.amount_refunded) == (OrderStatus.REFUNDED, 10_000)
    [shown] = after.refunds
    assert (shown.amount, shown.reason, shown.status) == (amount, "Elsewhere", RefundStatus.SUCCEEDED)
    with pytest.raises(RefundExceedsBalance):
        decide_refund(after, refund(1, n=2, payment_id=ONE))


def test_a_dispute_shows_the_payers_reason_until_its_end() -> None:
    for stage, status in ((WON, "SUCCESS"), (LOST, "FAILED")):
        with_reason = replace(dispute(OPENED, 10_000), reason="PRODUCT_NOT_RECEIVED")
        events = given(*PAID).when(with_reason).then_events()
        ended = given(*PAID, *events).when(dispute(stage, None if stage is WON else 10_000)).then_events()
        for history, expected in ((events, "PENDING"), ([*events, *ended], status)):
            [shown] = [each for each in folded([*PAID, *history]).payments[0].entries if each.action == "DISPUTE"]
            assert (shown.status, shown.reason) == (expected, "PRODUCT_NOT_RECEIVED")


@pytest.mark.parametrize("refunded_amount", [10000, 4000])
@pytest.mark.parametrize("stage", [LOST, WON])
def test_a_refund_comes_back_before_a_dispute_ends_or_after_that_with_the_same_end(stage, refunded_amount) -> None:
    """The bank has what it reported either way: a lost dispute takes the money that comes back later."""
    before = (*PAID, refund_requested(1, refunded_amount), refunded(1, refunded_amount))
    back = c.ReverseRefund(refund_id=refund_id(1), payment_id=ONE, code="X", at=NOON)
    ends = set()
    for commands in ((OPENED, back, stage), (OPENED, stage, back), (stage, back), (back, OPENED, stage)):
        history = list(before)
        for command in commands:
            is_dispute = isinstance(command, c.DisputeStage)
            history += given(*history).when(dispute(command, 10000) if is_dispute else command).then_events()
            payment = folded(history).payments[0]
            assert (payment.status is PaymentStatus.DISPUTED) == (payment.dispute is not None and command is back) or (
                command is OPENED
            )
        order = folded(history)
        payment = order.payments[0]
        assert [entry.status for entry in payment.entries if entry.status == "PENDING"] == []
        ends.add(
            (order.status, payment.status, order.net, payment.charged_back, payment.refundable, order.overpaid_amount)
        )
    held, status, of_order = 10000, PaymentStatus.CAPTURED, OrderStatus.COMPLETED
    if stage is LOST:
        held, status, of_order = 0, PaymentStatus.REFUNDED, OrderStatus.REFUNDED
    assert ends == {(of_order, status, held, 10000 - held, held, 0)}


def test_a_lost_dispute_takes_no_more_of_what_comes_back_than_came_back_and_than_the_bank_had_reported() -> None:
    history = [*PAID, refund_requested(1, 6000), refunded(1, 6000), refund_requested(1, 4000, 2), refunded(1, 4000, 2)]
    history += given(*history).when(dispute(LOST, 7000)).then_events()
    history.append(late_capture(1, 5000, 15000))
    held = []
    for n in (1, 2):
        back = c.ReverseRefund(refund_id=refund_id(n), payment_id=ONE, code="X", at=NOON, returned=Decimal(500))
        history += given(*history).when(back).then_events()
        held.append(int(folded(history).net))
    assert held == [5000, 5000 + 3500 - 1500], "of 5,500 and 3,500 that came back, the bank takes 7,000"
    assert folded(history).payments[0].charged_back == 7000
    opened_again = [*PAID, refund_requested(1, 6000), refunded(1, 6000)]
    opened_again += given(*opened_again).when(dispute(LOST, 10000)).then_events()
    opened_again += [late_capture(1, 5000, 15000), refund_requested(1, 1000, 2)]
    back = c.ReverseRefund(refund_id=refund_id(1), payment_id=ONE, code="X", at=NOON)
    with pytest.raises(InvalidOrderState):  # the dispute waits for the other refund, as a new one does
        decide_refund_reversal(folded(opened_again), back)


def test_a_refund_that_comes_back_shows_another_one_under_way() -> None:
    late = [*PAID, refund_requested(1, 10000), refunded(1, 10000), late_capture(1, 5000, 15000)]
    history = [*late, refund_requested(1, 5000, 2)]
    back = c.ReverseRefund(refund_id=refund_id(1), payment_id=ONE, code="X", at=NOON)
    history += given(*history).when(back).then_events()
    assert folded(history).payments[0].status is PaymentStatus.PENDING_REFUND
    assert folded([*history, refunded(1, 5000, 2)]).payments[0].status is PaymentStatus.PARTIALLY_REFUNDED
