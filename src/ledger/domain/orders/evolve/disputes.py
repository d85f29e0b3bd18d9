"""The fold of disputes: opened, won, or lost as a chargeback."""

from __future__ import annotations

from decimal import Decimal
from typing import Final

from msgspec.structs import replace

from ledger.domain.money import ZERO
from ledger.domain.orders.events import DisputeLost, DisputeOpened, DisputeWon
from ledger.domain.orders.evolve.history import history_with
from ledger.domain.orders.evolve.payments import Folds, on_payment
from ledger.domain.orders.payment import EntryAction, EntryStatus, Payment
from ledger.domain.orders.refund import ClosedDispute, Dispute, refunded_status
from ledger.domain.orders.statuses import CAPTURED_STATUSES, PaymentStatus


def _opened(payment: Payment, event: DisputeOpened) -> Payment:
    """Returns the payment with an open dispute. A final status stays: late money and its refund do not change it."""
    is_final = payment.status not in CAPTURED_STATUSES
    entries = history_with(
        payment,
        EntryAction.DISPUTE,
        EntryStatus.PENDING,
        event.amount,
        event.at,
        event.reason,
        reported_amount=event.reported_amount,
    )
    return replace(
        payment,
        status=payment.status if is_final else PaymentStatus.DISPUTED,
        returns_to=payment.returns_to if is_final else payment.status,
        dispute=Dispute(event.dispute_id, event.amount, _reported(event), event.reason),
        entries=entries,
        updated_at=event.at,
    )


def _won(payment: Payment, event: DisputeWon) -> Payment:
    amount = None if payment.dispute is None else payment.dispute.amount
    reason = None if payment.dispute is None else payment.dispute.reason
    return replace(
        _dispute_ended(payment, status_to_return_to(payment)),
        decided_disputes=(*payment.decided_disputes, ClosedDispute(event.dispute_id, ZERO)),
        entries=history_with(payment, EntryAction.DISPUTE, EntryStatus.SUCCESS, amount, event.at, reason),
        updated_at=event.at,
    )


def _lost(payment: Payment, event: DisputeLost) -> Payment:
    """Returns the payment with more refunded money, at most what it holds (I4); the rest is only in the log."""
    taken = min(event.amount, payment.refundable)
    refunded = payment.refunded + taken
    disputed = event.amount if payment.dispute is None else payment.dispute.amount
    reason = None if payment.dispute is None else payment.dispute.reason
    lost = history_with(payment, EntryAction.DISPUTE, EntryStatus.FAILED, disputed, event.at, reason)
    entries = history_with(
        replace(payment, entries=lost),
        EntryAction.CHARGEBACK,
        EntryStatus.SUCCESS,
        event.amount,
        event.at,
        reported_amount=event.reported_amount,
    )
    return replace(
        _dispute_ended(payment, refunded_status(payment.captured, refunded)),
        refunded=refunded,
        charged_back=payment.charged_back + taken,
        decided_disputes=(*payment.decided_disputes, ClosedDispute(event.dispute_id, _reported(event), taken)),
        entries=entries,
        updated_at=event.at,
    )


def _dispute_ended(payment: Payment, status: PaymentStatus) -> Payment:
    """Returns the payment without its dispute, in `status` unless its own is final."""
    if payment.status is not PaymentStatus.DISPUTED:
        return replace(payment, dispute=None)
    return replace(payment, status=status, returns_to=None, dispute=None)


def _reported(event: DisputeOpened | DisputeLost) -> Decimal:
    return event.amount if event.reported_amount is None else event.reported_amount


def status_to_return_to(payment: Payment) -> PaymentStatus:
    """Returns the status after a refund or a dispute that came to nothing; a deposit may have completed the payment."""
    status = payment.returns_to or PaymentStatus.CAPTURED
    completed = status is PaymentStatus.PARTIALLY_CAPTURED and payment.captured >= payment.amount
    return PaymentStatus.CAPTURED if completed else status


EVOLVE: Final[Folds] = {
    DisputeOpened: on_payment(_opened),
    DisputeWon: on_payment(_won),
    DisputeLost: on_payment(_lost),
}
