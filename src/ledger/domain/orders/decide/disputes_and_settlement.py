"""The deciders of disputes, settlement and expiry: what banks, processors and the clock report about a payment.

Never drop a dispute or a settlement line that the payment's status does not allow yet: raise InvalidOrderState, so that
the inbox delivers it again.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any, Final, assert_never
from uuid import UUID

from ledger.domain.fold import fold
from ledger.domain.money import GROSS_MAX, ZERO, shortest
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
from ledger.domain.orders.evolve.order import evolve
from ledger.domain.orders.payment import Payment
from ledger.domain.orders.processor_outcomes import Released
from ledger.domain.orders.refund import SettlementBatch
from ledger.domain.orders.state import Order
from ledger.domain.orders.statuses import CAPTURED_STATUSES, REFUNDABLE_STATUSES, NextAction, PaymentStatus
from ledger.domain.rejections import InvalidOrderState

_AUTHORIZED: Final = frozenset({PaymentStatus.AUTHORIZED, PaymentStatus.PARTIALLY_AUTHORIZED})
_CAPTURE_OPEN: Final = frozenset({PaymentStatus.PENDING_CAPTURE, PaymentStatus.CAPTURING})
_NOT_REFUSED: Final = frozenset({PaymentStatus.PENDING_SETTLEMENT, PaymentStatus.SETTLED})
_REACHED: Final = {
    SettlementStage.LISTED: PaymentStatus.PENDING_SETTLEMENT,
    SettlementStage.MATCHED: PaymentStatus.SETTLED,
    SettlementStage.REFUSED: PaymentStatus.CAPTURED,
}
"""How far a batch is by the stage that the processor reports (`SettlementBatch.status`)."""
_SETTLEMENT_EVENTS: Final[Mapping[SettlementStage, type[SettlementListed | SettlementMatched | SettlementRefused]]] = {
    SettlementStage.LISTED: SettlementListed,
    SettlementStage.MATCHED: SettlementMatched,
    SettlementStage.REFUSED: SettlementRefused,
}


def decide_dispute(order: Order, command: RecordDispute) -> list[OrderEvent]:
    """Records the opening or the end of a dispute. The same report again is absorbed.

    A bank can contest more than the payment holds: a part has gone back by refunds. The dispute is over what is held,
    and the events keep the bank's amount. A lost dispute takes the amount that the bank reports at its end, even if
    another amount was contested (section 8.11: chargebacks count as refunded).

    Raises PaymentNotFound, InvalidField for `amount`, InvalidOrderState while a refund or another dispute is open.
    """
    payment, at = require_payment(order, command.payment_id), command.at
    if payment.decided(command.dispute_id) is not None:
        return []
    if command.amount is not None:
        require_multiple(order, command.amount, most=GROSS_MAX)
    about: dict[str, Any] = {"payment_id": payment.payment_id, "dispute_id": command.dispute_id, "at": at}
    opened, contested = list[OrderEvent](), payment.refundable
    if payment.dispute is not None and payment.dispute.dispute_id == command.dispute_id:
        contested = payment.dispute.reported_amount
    else:
        _require_disputable(payment)
        opened = [DisputeOpened(**about, **_amounts(payment, command.amount or contested), reason=command.reason)]
    match command.stage:
        case DisputeStage.OPENED:
            return opened
        case DisputeStage.WON:
            return [*opened, DisputeWon(**about)]
        case DisputeStage.LOST:
            return [*opened, DisputeLost(**about, **_amounts(payment, command.amount or contested))]
        case _:
            assert_never(command.stage)


def taken_again(order: Order, payment_id: UUID, came_back: Decimal, at: datetime) -> list[OrderEvent]:
    """Returns the events of lost disputes that take money which came back from a refund, at most `came_back` (gross).

    A lost dispute takes what is held at its end, and the bank took what it had reported. So what comes back later is
    the bank's until it has as much. Raises InvalidOrderState while a refund or another dispute is open.
    """
    events: list[OrderEvent] = []
    for dispute in {each.dispute_id: each for each in order.payment(payment_id).decided_disputes}.values():
        payment = order.payment(payment_id)
        taken = sum((each.taken for each in payment.decided_disputes if each.dispute_id == dispute.dispute_id), ZERO)
        amount = min(dispute.lost - taken, came_back, payment.refundable)
        if amount <= 0:
            continue
        _require_disputable(payment)
        about: dict[str, Any] = {"payment_id": payment_id, "dispute_id": dispute.dispute_id, "at": at}
        about |= {"amount": shortest(amount), "reported_amount": dispute.lost if dispute.lost > amount else None}
        again: list[OrderEvent] = [DisputeOpened(**about), DisputeLost(**about)]
        order, came_back = fold(evolve, order, again), came_back - amount
        events += again
    return events


def decide_settlement(order: Order, command: RecordSettlement) -> list[OrderEvent]:
    """Records the stage of a settlement batch for one payment. The same report again is absorbed.

    A batch can list a payment that was refunded or disputed meanwhile: it pays out the payment, and keeps back what was
    returned. A batch that was paid out can still be refused, if the bank sends it back. A report of the stage that the
    batch has, with another fee, corrects the fee.

    Raises PaymentNotFound, InvalidOrderState.
    """
    payment, batch = require_payment(order, command.payment_id), None
    if payment.batch is not None and payment.batch.batch_id == command.batch_id:
        batch = payment.batch
    reached = None if batch is None else batch.status
    reported = _REACHED[command.stage]
    if batch is not None and reached is reported:
        return [] if _has_fee(batch, command) else [_settlement_event(command)]
    match command.stage:
        case SettlementStage.LISTED if batch is not None:
            return []
        case SettlementStage.LISTED if _can_be_listed(payment):
            return [_settlement_event(command)]
        case SettlementStage.MATCHED if reached is PaymentStatus.PENDING_SETTLEMENT:
            return [_settlement_event(command)]
        case SettlementStage.REFUSED if reached in _NOT_REFUSED:
            return [_settlement_event(command)]
        case _:
            stage = command.stage.lower()
            raise _wrong_payment_state(
                payment, f"A payment that is {payment.status} cannot be {stage} in batch {command.batch_id}."
            )


def _can_be_listed(payment: Payment) -> bool:
    """Returns whether a batch can list a payment: it has captured money, all of it, and no other batch has it."""
    is_free = payment.batch is None or payment.batch.status is PaymentStatus.CAPTURED
    return payment.captured > 0 and payment.status not in _CAPTURE_OPEN and is_free


def _has_fee(batch: SettlementBatch, command: RecordSettlement) -> bool:
    reported = (command.fee, command.fee_tax, command.fee_currency)
    return command.fee is None or reported == (batch.fee, batch.fee_tax, batch.fee_currency)


def _settlement_event(command: RecordSettlement) -> OrderEvent:
    return _SETTLEMENT_EVENTS[command.stage](
        payment_id=command.payment_id,
        batch_id=command.batch_id,
        at=command.at,
        fee=None if command.fee is None else shortest(command.fee),
        fee_tax=None if command.fee_tax is None else shortest(command.fee_tax),
        fee_currency=command.fee_currency,
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


def _require_disputable(payment: Payment) -> None:
    """Raises InvalidOrderState if no money was captured, or if a refund or another dispute has no outcome yet."""
    message = f"A payment that is {payment.status} cannot be disputed."
    if payment.refunding or payment.dispute is not None:
        message = "The payment cannot be disputed before its open refund or dispute has an outcome."
    elif payment.status in REFUNDABLE_STATUSES and payment.captured:
        return
    raise _wrong_payment_state(payment, message, REFUNDABLE_STATUSES)


def _amounts(payment: Payment, reported: Decimal) -> dict[str, Any]:
    """Returns the part of the reported amount (gross) that is held, and the reported amount if that is more."""
    amount = min(reported, payment.refundable)
    return {"amount": shortest(amount), "reported_amount": shortest(reported) if reported > amount else None}


def _wrong_payment_state(
    payment: Payment, message: str, allowed: frozenset[PaymentStatus] = CAPTURED_STATUSES
) -> InvalidOrderState:
    return InvalidOrderState(message, currentStatus=payment.status, allowedStatuses=tuple(sorted(allowed)))


def _expiry_reason(payment: Payment, command: ExpirePayment) -> ExpiredBecause | None:
    """Returns what of the payment has expired, or None. A session that ends by a call does not expire without one."""
    if payment.ends_by_call:
        return None
    if payment.status is PaymentStatus.REQUIRES_ACTION:
        expired = payment.action_expires_at is not None and payment.action_expires_at <= command.at
        reason = ExpiredBecause.SESSION
        if payment.next_action is NextAction.DISPLAY_REFERENCE:
            reason = ExpiredBecause.REFERENCE
        return reason if expired else None
    lapsed = payment.lapses_at is not None and payment.lapses_at <= command.at
    return ExpiredBecause.AUTHORIZATION if payment.status in _AUTHORIZED and lapsed else None
