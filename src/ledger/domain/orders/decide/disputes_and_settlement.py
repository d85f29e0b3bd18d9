"""The deciders of disputes, settlement and expiry: what banks, processors and the clock report about a payment.

Never drop a dispute or a settlement line that the payment's status does not allow yet: raise InvalidOrderState, so that
the inbox delivers it again.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Final, assert_never

from ledger.domain.money import GROSS_MAX, shortest
from ledger.domain.orders.commands import DisputeStage, ExpirePayment, RecordDispute, RecordSettlement, SettlementStage
from ledger.domain.orders.decide.closing import with_cancellation_closed
from ledger.domain.orders.decide.guards import require_multiple, require_payment
from ledger.domain.orders.decide.releases import released
from ledger.domain.orders.events import (
    DisputeLost,
    DisputeOpened,
    DisputeWon,
    ExpiredBecause,
    OrderEvent,
    PaymentExpired,
    ReleasedBecause,
    SettlementListed,
    SettlementMatched,
    SettlementRefused,
)
from ledger.domain.orders.payment import Payment
from ledger.domain.orders.processor_outcomes import Released
from ledger.domain.orders.state import Order
from ledger.domain.orders.statuses import CAPTURED_STATUSES, NextAction, PaymentStatus
from ledger.domain.rejections import InvalidField, InvalidOrderState

_AUTHORIZED: Final = frozenset({PaymentStatus.AUTHORIZED, PaymentStatus.PARTIALLY_AUTHORIZED})
_UNSETTLED: Final = frozenset({PaymentStatus.CAPTURED, PaymentStatus.PARTIALLY_CAPTURED})


def decide_dispute(order: Order, command: RecordDispute) -> list[OrderEvent]:
    """Records the opening or the end of a dispute. The same report again is absorbed.

    A lost dispute takes the amount that the bank reports at its end, even if another amount was contested (section
    8.11: chargebacks count as refunded). Raises PaymentNotFound, InvalidField for `amount`, InvalidOrderState.
    """
    payment, at = require_payment(order, command.payment_id), command.at
    if payment.decided(command.dispute_id) is not None:
        return []
    opened: list[OrderEvent] = []
    if payment.dispute is not None and payment.dispute.dispute_id == command.dispute_id:
        if command.stage is DisputeStage.OPENED:
            return []
        amount = payment.dispute.amount
        if command.stage is DisputeStage.LOST and command.amount is not None:
            # A refund that was reported late may have given back a part meanwhile. The bank's report counts anyway.
            amount = _disputed_amount(order, command.amount, max(amount, payment.refundable))
    else:
        amount = _opened_amount(order, payment, command)
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
    """Records the stage of a settlement batch for one payment. The same report again is absorbed.

    Raises PaymentNotFound, InvalidOrderState.
    """
    payment, at = require_payment(order, command.payment_id), command.at
    batch = payment.batch
    is_latest_batch = batch is not None and batch.batch_id == command.batch_id
    listed = payment.status is PaymentStatus.PENDING_SETTLEMENT and is_latest_batch
    match command.stage:
        case SettlementStage.LISTED if is_latest_batch:
            return []
        case SettlementStage.LISTED if payment.status in _UNSETTLED:
            return [SettlementListed(payment_id=payment.payment_id, batch_id=command.batch_id, at=at)]
        case SettlementStage.MATCHED if listed:
            return [SettlementMatched(payment_id=payment.payment_id, batch_id=command.batch_id, at=at)]
        case SettlementStage.REFUSED if listed:
            return [SettlementRefused(payment_id=payment.payment_id, batch_id=command.batch_id, at=at)]
        case _:
            ended = {SettlementStage.MATCHED: PaymentStatus.SETTLED, SettlementStage.REFUSED: PaymentStatus.CAPTURED}
            if is_latest_batch and batch is not None and batch.status is ended.get(command.stage):
                return []
            stage = command.stage.lower()
            raise _wrong_payment_state(
                payment, f"A payment that is {payment.status} cannot be {stage} in batch {command.batch_id}."
            )


def decide_expiry(order: Order, command: ExpirePayment) -> list[OrderEvent]:
    """Ends a payment whose reference, session or authorisation has expired, or the hold on what a capture has left.

    Returns no events before the expiry, or while a call of the payment has no outcome.
    """
    payment = order.payment(command.payment_id)
    if payment.captured and payment.capturable:
        return _rest_lapsed(order, payment, command)
    because = _expiry_reason(payment, command)
    if because is None or payment.intent is not None:
        return []
    return with_cancellation_closed(
        order, [PaymentExpired(payment_id=payment.payment_id, because=because, at=command.at)]
    )


def _rest_lapsed(order: Order, payment: Payment, command: ExpirePayment) -> list[OrderEvent]:
    if payment.intent is not None or payment.lapses_at is None or payment.lapses_at > command.at:
        return []
    return released(order, payment, Released(amount=payment.capturable), ReleasedBecause.LAPSED, command.at)


def _opened_amount(order: Order, payment: Payment, command: RecordDispute) -> Decimal:
    if payment.status not in CAPTURED_STATUSES or payment.refundable <= 0:
        raise _wrong_payment_state(payment, f"A payment that is {payment.status} cannot be disputed.")
    return _disputed_amount(order, command.amount, payment.refundable)


def _disputed_amount(order: Order, reported: Decimal | None, held: Decimal) -> Decimal:
    """Returns the amount that the bank reported (gross), or all that is held. Raises InvalidField above that."""
    amount = held if reported is None else reported
    require_multiple(order, amount, most=GROSS_MAX)
    if amount > held:
        raise InvalidField("amount", "must not exceed the money that the payment holds")
    return shortest(amount)


def _wrong_payment_state(payment: Payment, message: str) -> InvalidOrderState:
    return InvalidOrderState(message, currentStatus=payment.status, allowedStatuses=tuple(sorted(CAPTURED_STATUSES)))


def _expiry_reason(payment: Payment, command: ExpirePayment) -> ExpiredBecause | None:
    """Returns what of the payment has expired, or None."""
    if payment.status is PaymentStatus.REQUIRES_ACTION:
        expired = payment.action_expires_at is not None and payment.action_expires_at <= command.at
        reason = ExpiredBecause.SESSION
        if payment.next_action is NextAction.DISPLAY_REFERENCE:
            reason = ExpiredBecause.REFERENCE
        return reason if expired else None
    lapsed = payment.lapses_at is not None and payment.lapses_at <= command.at
    return ExpiredBecause.AUTHORIZATION if payment.status in _AUTHORIZED and lapsed else None
