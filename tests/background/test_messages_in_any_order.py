"""Messages about a refund and a dispute of one payment come to the same end in whichever order they arrive."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from itertools import permutations
from typing import Any
from uuid import UUID

import pytest
from tests.domain.builders import (
    NOON,
    created,
    deposited,
    folded,
    payment_id,
    reference_issued,
    reference_open,
    refund_id,
    refund_requested,
)

from ledger.background.inbox import message_handlers
from ledger.background.inbox.overpayment import NotApplicableYet
from ledger.domain.fold import fold
from ledger.domain.orders.evolve.order import evolve
from ledger.domain.orders.state import Order
from ledger.domain.orders.statuses import PaymentStatus
from ledger.domain.rejections import InvalidOrderState
from ledger.processors.messages import (
    DepositReceived,
    DisputeLost,
    DisputeOpened,
    DisputeWon,
    OrderMessage,
    RefundConfirmed,
    RefundFailed,
)

CLABE = reference_issued(1).reference.clabe
ABOUT: dict[str, Any] = {
    "processor": "sandbox",
    "merchant_id": UUID(int=1),
    "occurred_at": NOON,
    "payment_id": payment_id(1),
    "processor_reference": "x",
}
REFUND = {"idempotency_key": f"{refund_id(1)}:{payment_id(1)}"} | ABOUT
CONFIRMED = RefundConfirmed(amount=Decimal(4000), message_id="confirmed", **REFUND)
FAILED = RefundFailed(code="X", is_final=True, message_id="failed", **REFUND)
FAILED_IN_PART = RefundFailed(code="X", is_final=True, returned=Decimal(1000), message_id="failed in part", **REFUND)
OPENED = DisputeOpened(dispute_id="d", amount=Decimal(10_000), message_id="opened", **ABOUT)
LOST = DisputeLost(dispute_id="d", amount=Decimal(10_000), message_id="lost", **ABOUT)
WON = DisputeWon(dispute_id="d", message_id="won", **ABOUT)


PAID_AND_GIVEN_BACK = (deposited(1, 10_000), refund_requested(1, 4000, payout=True))


def after(messages: Sequence[OrderMessage], history: Sequence[Any]) -> Order:
    """The order of a payment by transfer after messages that are tried until they apply."""
    order, waiting = folded([created(), *reference_open(1, 10_000), *history]), list[OrderMessage]()
    for message in messages:
        waiting.append(message)
        for each in [each for _ in waiting for each in waiting]:
            if each in waiting:
                try:
                    order = fold(evolve, order, message_handlers._decide(order, each, NOON))
                except (NotApplicableYet, InvalidOrderState):
                    continue
                waiting.remove(each)
    assert waiting == [], "each message applies in the end"
    return order


@pytest.mark.parametrize(
    ("messages", "refunded", "status"),
    [
        ((CONFIRMED, FAILED), 0, PaymentStatus.CAPTURED),
        ((CONFIRMED, FAILED_IN_PART, FAILED), 0, PaymentStatus.CAPTURED),
        ((CONFIRMED, FAILED_IN_PART), 1000, PaymentStatus.PARTIALLY_REFUNDED),
        ((CONFIRMED, OPENED, LOST), 10_000, PaymentStatus.REFUNDED),
        ((CONFIRMED, FAILED, OPENED, LOST), 10_000, PaymentStatus.REFUNDED),
        ((CONFIRMED, FAILED, OPENED, WON), 0, PaymentStatus.CAPTURED),
        ((FAILED_IN_PART, FAILED, OPENED, LOST), 10_000, PaymentStatus.REFUNDED),
    ],
)
def test_a_refund_that_fails_and_a_dispute_end_alike_in_any_order(messages, refunded, status) -> None:
    for order_of_arrival in permutations(messages):
        for again in (None, *messages):
            order = after([*order_of_arrival, *([] if again is None else [again])], PAID_AND_GIVEN_BACK)
            [payment] = order.payments
            shown = (payment.refunded, payment.status, payment.refunding, payment.dispute)
            assert shown == (refunded, status, 0, None), [each.message_id for each in order_of_arrival]


def transfer(name: str, amount: int) -> DepositReceived:
    named = ABOUT | {"message_id": name, "processor_reference": name}
    return DepositReceived(reference=CLABE, amount=Decimal(amount), currency="MXN", **named)


def taken_back(name: str, amount: int) -> DisputeLost:
    return DisputeLost(dispute_id=name, amount=Decimal(amount), message_id=name, **ABOUT)


def test_a_transfer_is_taken_back_before_it_has_arrived_or_after_that() -> None:
    """The bank takes its own transfer back, and none of another one."""
    messages = (transfer("a", 6000), transfer("b", 4000), taken_back("back", 6000), taken_back("again", 4000))
    for order_of_arrival in permutations(messages):
        for again in (None, *messages):
            order = after([*order_of_arrival, *([] if again is None else [again])], ())
            assert (order.amount_paid, order.net) == (10_000, 0)
    for order_of_arrival in permutations(messages[:3]):
        assert after(order_of_arrival, ()).net == 4000
