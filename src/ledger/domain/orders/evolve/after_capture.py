"""The fold of what happens to captured money: refunds, disputes, settlement.

Keep a final status and change the amounts only: late money and its refund count on a payment that has failed.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Final, assert_never

from msgspec.structs import replace

from ledger.domain.money import ZERO
from ledger.domain.orders.events import (
    AbandonedBecause,
    CallAbandoned,
    DisputeLost,
    DisputeOpened,
    DisputeWon,
    LateRefundReported,
    PaymentRefunded,
    RefundAccepted,
    RefundRefused,
    RefundReopened,
    RefundRequested,
    SettlementListed,
    SettlementMatched,
    SettlementRefused,
)
from ledger.domain.orders.evolve.disputes import DisputeEvent, evolve_dispute, status_to_return_to
from ledger.domain.orders.evolve.history import LATE_REASON, history_with, receipts_of
from ledger.domain.orders.payment import EntryAction, EntryStatus, HistoryEntry, Intent, Payment
from ledger.domain.orders.refund import (
    Refund,
    RefundPart,
    RefundStatus,
    RefundSuccess,
    SettlementBatch,
    refunded_status,
)
from ledger.domain.orders.state import Order
from ledger.domain.orders.statuses import CAPTURED_STATUSES, PaymentStatus

_RefundEvent = RefundRequested | RefundAccepted | PaymentRefunded | RefundRefused | RefundReopened
_SettlementEvent = SettlementListed | SettlementMatched | SettlementRefused
AfterCaptureEvent = _RefundEvent | LateRefundReported | DisputeEvent | _SettlementEvent

_STATUSES_BY_SETTLEMENT: Final[dict[type, tuple[PaymentStatus, EntryStatus]]] = {
    SettlementListed: (PaymentStatus.PENDING_SETTLEMENT, EntryStatus.PENDING),
    SettlementMatched: (PaymentStatus.SETTLED, EntryStatus.SUCCESS),
    SettlementRefused: (PaymentStatus.CAPTURED, EntryStatus.FAILED),
}


def evolve_after_capture(payment: Payment, event: AfterCaptureEvent) -> Payment:
    """Returns the payment after `event`."""
    match event:
        case RefundRequested() | RefundAccepted() | PaymentRefunded() | RefundRefused() | RefundReopened():
            return _evolve_refund(payment, event)
        case LateRefundReported():
            return _refunded_late(payment, event)
        case DisputeOpened() | DisputeWon() | DisputeLost():
            return evolve_dispute(payment, event)
        case SettlementListed() | SettlementMatched() | SettlementRefused():
            status, entry = _STATUSES_BY_SETTLEMENT[type(event)]
            return replace(
                payment,
                status=status,
                batch=SettlementBatch(event.batch_id, status),
                entries=history_with(payment, EntryAction.SETTLEMENT, entry, payment.captured, event.at),
                updated_at=event.at,
            )
        case _:
            assert_never(event)


def evolve_refunds(order: Order, payment: Payment, event: AfterCaptureEvent | CallAbandoned) -> tuple[Refund, ...]:
    """Returns the order's refunds after `event`; `payment` is the event's payment before it."""
    match event:
        case RefundRequested():
            return _with_part(order, payment, event)
        case RefundAccepted():
            return _update_part(order, payment, event.refund_id, RefundStatus.PENDING, event.processor_reference)
        case PaymentRefunded() | LateRefundReported():
            return _succeeded(order, payment, event)
        case RefundRefused():
            message = event.message or event.code
            return _update_part(order, payment, event.refund_id, RefundStatus.FAILED, message=message)
        case RefundReopened():
            return _update_part(order, payment, event.refund_id, RefundStatus.PENDING)
        case CallAbandoned() if payment.intent is not None and payment.intent.refund_id is not None:
            unsent = event.because is AbandonedBecause.NOT_SENT
            return _update_part(order, payment, payment.intent.refund_id, RefundStatus.FAILED, was_not_sent=unsent)
        case _:
            return order.refunds


def refund_ended(payment: Payment) -> Payment:
    """Returns the payment after a refund that came to nothing: its status before the refund, and nothing reserved."""
    status = payment.status
    if status is PaymentStatus.PENDING_REFUND:
        status = status_to_return_to(payment)
    return replace(payment, status=status, returns_to=None, refunding=ZERO)


def _evolve_refund(payment: Payment, event: _RefundEvent) -> Payment:
    match event:
        case RefundRequested():
            return _refund_requested(payment, event)
        case RefundAccepted():
            return replace(payment, intent=None, updated_at=event.at)
        case PaymentRefunded():
            refunded = min(payment.refunded + event.amount, payment.captured)  # less only after a late refund
            pending = payment.status is PaymentStatus.PENDING_REFUND
            return replace(
                payment,
                status=refunded_status(payment.captured, refunded) if pending else payment.status,
                refunded=refunded,
                refunding=ZERO,
                returns_to=None,
                intent=None,
                entries=history_with(payment, EntryAction.REFUND, EntryStatus.SUCCESS, event.amount, event.at),
                updated_at=event.at,
            )
        case RefundRefused():
            reason = event.message or event.code
            entries = history_with(payment, EntryAction.REFUND, EntryStatus.FAILED, payment.refunding, event.at, reason)
            return replace(refund_ended(payment), intent=None, entries=entries, updated_at=event.at)
        case RefundReopened():
            return _refund_reopened(payment, event)


def _refund_requested(payment: Payment, event: RefundRequested) -> Payment:
    intent = Intent(
        action=EntryAction.REFUND,
        processor=event.processor,
        idempotency_key=event.idempotency_key,
        amount=event.amount,
        capture=False,
        deadline_at=event.deadline_at,
        payment_id=event.payment_id,
        refund_id=event.refund_id,
    )
    entries = history_with(
        payment, EntryAction.REFUND, EntryStatus.PENDING, event.amount, event.at, refund_id=event.refund_id
    )
    return replace(
        _with_refund_in_flight(payment, event.amount),
        intent=intent,
        keys=(*payment.keys, event.idempotency_key),
        entries=entries,
        updated_at=event.at,
    )


def _refund_reopened(payment: Payment, event: RefundReopened) -> Payment:
    amounts = (entry.amount for entry in payment.entries if entry.refund_id == event.refund_id)
    amount = next((amount for amount in amounts if amount is not None), ZERO)
    entries = history_with(
        payment, EntryAction.REFUND, EntryStatus.PENDING, amount, event.at, refund_id=event.refund_id
    )
    return replace(_with_refund_in_flight(payment, amount), entries=entries, updated_at=event.at)


def _refunded_late(payment: Payment, event: LateRefundReported) -> Payment:
    """Returns the payment with more refunded money, at most what was captured (I4); the rest is only in the log."""
    refunded = min(payment.refunded + event.amount, payment.captured)
    entry = HistoryEntry(EntryAction.REFUND, EntryStatus.SUCCESS, event.amount, event.at, LATE_REASON, event.refund_id)
    return replace(
        payment,
        refunded=refunded,
        refunding=min(payment.refunding, payment.captured - refunded),
        returns_to=None if payment.returns_to is None else refunded_status(payment.captured, refunded),
        entries=(*payment.entries, entry),
        updated_at=event.at,
    )


def _with_refund_in_flight(payment: Payment, amount: Decimal) -> Payment:
    """Returns the payment with a refund of `amount` in flight. A final status stays; only `refunding` shows it then."""
    if payment.status not in CAPTURED_STATUSES:
        return replace(payment, refunding=amount)
    return replace(payment, status=PaymentStatus.PENDING_REFUND, returns_to=payment.status, refunding=amount)


def _with_part(order: Order, payment: Payment, event: RefundRequested) -> tuple[Refund, ...]:
    part = RefundPart(
        payment_id=event.payment_id,
        amount=event.amount,
        before=payment.refunded,
        ordinal=len(payment.entries) + 1,
    )
    existing = order.refund(event.refund_id)
    if existing is None:
        refund = Refund(
            refund_id=event.refund_id, reason=event.reason, at=event.at, external_id=event.external_id, parts=(part,)
        )
        return (*order.refunds, refund)
    refund = replace(existing, parts=(*existing.parts, part))
    return tuple(refund if other is existing else other for other in order.refunds)


def _succeeded(order: Order, payment: Payment, event: PaymentRefunded | LateRefundReported) -> tuple[Refund, ...]:
    earlier = sum(part.success is not None for refund in order.refunds for part in refund.parts)
    success = RefundSuccess(at=event.at, receipts_before=receipts_of(order), ordinal=earlier + 1)
    status, reference = RefundStatus.SUCCEEDED, event.processor_reference
    return _update_part(order, payment, event.refund_id, status, reference, success=success)


def _update_part(
    order: Order,
    payment: Payment,
    refund_id: object,
    status: RefundStatus,
    reference: str | None = None,
    message: str | None = None,
    *,
    was_not_sent: bool = False,
    success: RefundSuccess | None = None,
) -> tuple[Refund, ...]:
    return tuple(
        replace(
            refund,
            parts=tuple(
                replace(
                    part,
                    status=status,
                    processor_reference=reference or part.processor_reference,
                    message=message,
                    before=payment.refunded,
                    was_not_sent=was_not_sent,
                    success=success,
                )
                if part.payment_id == payment.payment_id
                else part
                for part in refund.parts
            ),
        )
        if refund.refund_id == refund_id
        else refund
        for refund in order.refunds
    )
