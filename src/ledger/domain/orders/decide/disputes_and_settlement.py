"""What happens to money that is here without anybody asking: disputes, settlement, and the end of a payment's time.

The rule a stranger would break: a dispute or a settlement line that has no edge from where the payment stands is not
dropped: it is refused, and whoever delivers it tries again.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Final, assert_never

from ledger.domain.money import GROSS_MAX, shortest
from ledger.domain.orders.commands import DisputeStage, ExpirePayment, RecordDispute, RecordSettlement, SettlementStage
from ledger.domain.orders.decide.closing import with_cancellation_closed
from ledger.domain.orders.decide.guards import require_multiple, require_payment
from ledger.domain.orders.events import (
    DisputeLost,
    DisputeOpened,
    DisputeWon,
    ExpiredBecause,
    OrderEvent,
    PaymentExpired,
    SettlementListed,
    SettlementMatched,
    SettlementRefused,
)
from ledger.domain.orders.payment import HELD, Payment
from ledger.domain.orders.state import Order
from ledger.domain.orders.statuses import NextAction, PaymentStatus
from ledger.domain.rejections import InvalidField, InvalidOrderState

_GRANTED: Final = frozenset({PaymentStatus.AUTHORIZED, PaymentStatus.PARTIALLY_AUTHORIZED})
_UNSETTLED: Final = frozenset({PaymentStatus.CAPTURED, PaymentStatus.PARTIALLY_CAPTURED})


def decide_dispute(order: Order, command: RecordDispute) -> list[OrderEvent]:
    """Record a dispute's opening or its end; what is gone is what the bank says at the end, contested or not.

    Raises PaymentNotFound, InvalidField, InvalidOrderState.
    """
    payment, at = require_payment(order, command.payment_id), command.at
    if payment.decided(command.dispute_id) is not None:
        return []
    opened: list[OrderEvent] = []
    if payment.dispute is not None and payment.dispute.dispute_id == command.dispute_id:
        if command.stage is DisputeStage.OPENED:
            return []
        taken = command.stage is DisputeStage.LOST and command.amount is not None
        amount = _within(order, payment, command.amount) if taken else payment.dispute.amount
    else:
        amount = _contested(order, payment, command)
        opened = [DisputeOpened(payment_id=payment.payment_id, dispute_id=command.dispute_id, amount=amount, at=at)]
    match command.stage:
        case DisputeStage.OPENED:
            return opened
        case DisputeStage.WON:
            return [*opened, DisputeWon(payment_id=payment.payment_id, dispute_id=command.dispute_id, at=at)]
        case DisputeStage.LOST:
            lost = DisputeLost(payment_id=payment.payment_id, dispute_id=command.dispute_id, amount=amount, at=at)
            return [*opened, lost]
        case _:
            assert_never(command.stage)


def decide_settlement(order: Order, command: RecordSettlement) -> list[OrderEvent]:
    """Record what a settlement batch says of a payment. Raises PaymentNotFound, InvalidOrderState."""
    payment, at = require_payment(order, command.payment_id), command.at
    batch = payment.batch
    same = batch is not None and batch.batch_id == command.batch_id
    listed = payment.status is PaymentStatus.PENDING_SETTLEMENT and same
    match command.stage:
        case SettlementStage.LISTED if same:
            return []
        case SettlementStage.LISTED if payment.status in _UNSETTLED:
            return [SettlementListed(payment_id=payment.payment_id, batch_id=command.batch_id, at=at)]
        case SettlementStage.MATCHED if listed:
            return [SettlementMatched(payment_id=payment.payment_id, batch_id=command.batch_id, at=at)]
        case SettlementStage.REFUSED if listed:
            return [SettlementRefused(payment_id=payment.payment_id, batch_id=command.batch_id, at=at)]
        case _:
            done = {SettlementStage.MATCHED: PaymentStatus.SETTLED, SettlementStage.REFUSED: PaymentStatus.CAPTURED}
            if same and batch is not None and batch.status is done.get(command.stage):
                return []
            raise _not_now(payment, "The payment is not in this batch.")


def decide_expiry(order: Order, command: ExpirePayment) -> list[OrderEvent]:
    """End a payment whose time is up; no events where it is not, or where somebody is at work on it."""
    payment = order.payment(command.payment_id)
    because = _up(payment, command)
    if because is None or payment.intent is not None:
        return []
    return with_cancellation_closed(
        order, [PaymentExpired(payment_id=payment.payment_id, because=because, at=command.at)]
    )


def _contested(order: Order, payment: Payment, command: RecordDispute) -> Decimal:
    if payment.status not in HELD or payment.refundable <= 0:
        raise _not_now(payment, f"A payment that is {payment.status} cannot be disputed.")
    return _within(order, payment, command.amount)


def _within(order: Order, payment: Payment, named: Decimal | None) -> Decimal:
    """The amount that a bank named, or all that is held. Raises InvalidField where that is more than is held."""
    amount = payment.refundable if named is None else named
    require_multiple(order, amount, most=GROSS_MAX)
    if amount > payment.refundable:
        raise InvalidField("amount", "must not exceed what is held of the payment")
    return shortest(amount)


def _not_now(payment: Payment, message: str) -> InvalidOrderState:
    return InvalidOrderState(message, currentStatus=payment.status, allowedStatuses=tuple(sorted(HELD)))


def _up(payment: Payment, command: ExpirePayment) -> ExpiredBecause | None:
    """What of the payment has ended by the clock."""
    if payment.status is PaymentStatus.REQUIRES_ACTION:
        over = payment.action_expires_at is not None and payment.action_expires_at <= command.at
        kind = ExpiredBecause.SESSION
        if payment.next_action is NextAction.DISPLAY_REFERENCE:
            kind = ExpiredBecause.REFERENCE
        return kind if over else None
    lapsed = payment.lapses_at is not None and payment.lapses_at <= command.at
    return ExpiredBecause.AUTHORIZATION if payment.status in _GRANTED and lapsed else None
