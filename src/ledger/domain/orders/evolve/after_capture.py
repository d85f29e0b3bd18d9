"""The fold of what happens to captured money: refunds and settlement.

Keep a final status and change the amounts only: late money and its refund count on a payment that has failed.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Final

from msgspec.structs import replace

from ledger.domain.money import ZERO
from ledger.domain.orders.events import (
    AbandonedBecause,
    CallAbandoned,
    LateRefundReported,
    PaymentRefunded,
    PayoutRequested,
    RefundAccepted,
    RefundDestinationChanged,
    RefundRefused,
    RefundReopened,
    RefundRequested,
    RefundReversed,
    SettlementListed,
    SettlementMatched,
    SettlementRefused,
)
from ledger.domain.orders.evolve.disputes import status_to_return_to
from ledger.domain.orders.evolve.history import LATE_REASON, history_with, receipts_of
from ledger.domain.orders.evolve.payments import Folds, on_payment, with_payment
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
from ledger.domain.orders.statuses import CAPTURED_STATUSES, SETTLEMENT_STATUSES, PaymentStatus
from ledger.domain.orders.terms import DestinationType, MethodType

_REFUNDED: Final = frozenset({PaymentStatus.REFUNDED, PaymentStatus.PARTIALLY_REFUNDED})


def refund_ended(payment: Payment) -> Payment:
    """Returns the payment after a refund that came to nothing: its status before the refund, and nothing reserved."""
    status = payment.status
    if status is PaymentStatus.PENDING_REFUND:
        status = status_to_return_to(payment)
    return replace(payment, status=status, returns_to=None, refunding=ZERO)


def with_unsuccessful_refund(order: Order, payment: Payment, event: CallAbandoned) -> Order:
    """Returns the order with the part of the payment's open refund failed, because its call was abandoned."""
    if payment.intent is None or payment.intent.refund_id is None:
        return order
    unsent = event.because is AbandonedBecause.NOT_SENT
    refund_id, status = payment.intent.refund_id, RefundStatus.FAILED
    return replace(order, refunds=_with_part(order, payment, refund_id, status, was_not_sent=unsent))


def _refund_requested(order: Order, event: RefundRequested) -> Order:
    payment = order.payment(event.payment_id)
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
    after = replace(
        _with_refund_in_flight(payment, event.amount),
        intent=None if event.by_merchant else intent,
        keys=(*payment.keys, event.idempotency_key),
        entries=entries,
        updated_at=event.at,
    )
    order = replace(order, refunds=_with_new_part(order, payment, event))
    return with_payment(order, event, payment, after)


def _refund_accepted(order: Order, event: RefundAccepted) -> Order:
    payment = order.payment(event.payment_id)
    refunds = _with_part(order, payment, event.refund_id, RefundStatus.PENDING, event.processor_reference)
    order = replace(order, refunds=refunds)
    after = replace(payment, intent=_release_call(payment), updated_at=event.at)
    return with_payment(order, event, payment, after)


def _refunded(order: Order, event: PaymentRefunded) -> Order:
    payment = order.payment(event.payment_id)
    refunded = min(payment.refunded + event.amount, payment.captured)  # less only after a late refund
    pending = payment.status is PaymentStatus.PENDING_REFUND
    after = replace(
        payment,
        status=refunded_status(payment.captured, refunded) if pending else payment.status,
        refunded=refunded,
        refunding=ZERO,
        returns_to=None,
        intent=_release_call(payment),
        entries=history_with(payment, EntryAction.REFUND, EntryStatus.SUCCESS, event.amount, event.at),
        updated_at=event.at,
    )
    order = replace(order, refunds=_with_successful_part(order, payment, event))
    if event.paid_at is not None:
        paid_at, reference = event.paid_at, event.processor_reference or None
        refunds = _with_changed_part(
            order, event, lambda part: replace(part, paid_at=paid_at, payout_reference=reference)
        )
        order = replace(order, refunds=refunds)
    return with_payment(order, event, payment, after)


def _refund_refused(order: Order, event: RefundRefused) -> Order:
    payment = order.payment(event.payment_id)
    reason, refund = event.message or event.code, order.refund(event.refund_id)
    part = None if refund is None else refund.part(event.payment_id)
    if part is not None and part.status is RefundStatus.FAILED:  # another refund of the payment may be open
        after = replace(payment, updated_at=event.at)
    else:
        entries = history_with(payment, EntryAction.REFUND, EntryStatus.FAILED, payment.refunding, event.at, reason)
        intent = _release_call(payment)
        after = replace(refund_ended(payment), intent=intent, entries=entries, updated_at=event.at)
    refunds = _with_part(order, payment, event.refund_id, RefundStatus.FAILED, message=reason, is_final=event.is_final)
    return with_payment(replace(order, refunds=refunds), event, payment, after)


def _refund_reopened(order: Order, event: RefundReopened) -> Order:
    payment = order.payment(event.payment_id)
    amounts = (entry.amount for entry in payment.entries if entry.refund_id == event.refund_id)
    amount = next((amount for amount in amounts if amount is not None), ZERO)
    entries = history_with(
        payment, EntryAction.REFUND, EntryStatus.PENDING, amount, event.at, refund_id=event.refund_id
    )
    after = replace(_with_refund_in_flight(payment, amount), entries=entries, updated_at=event.at)
    order = replace(order, refunds=_with_part(order, payment, event.refund_id, RefundStatus.PENDING))
    return with_payment(order, event, payment, after)


def _refunded_late(order: Order, event: LateRefundReported) -> Order:
    """Returns the order with more refunded money, at most what was captured (I4); the rest is only in the log."""
    payment = order.payment(event.payment_id)
    if event.reason is not None:
        order = replace(order, refunds=(*order.refunds, _unrequested(payment, event, event.reason)))
    refunded = min(payment.refunded + event.amount, payment.captured)
    entry = HistoryEntry(EntryAction.REFUND, EntryStatus.SUCCESS, event.amount, event.at, LATE_REASON, event.refund_id)
    after = replace(
        payment,
        status=PaymentStatus.REFUNDED if event.ends_payment else payment.status,
        refunded=refunded,
        refunding=min(payment.refunding, payment.captured - refunded),
        returns_to=None if payment.returns_to is None else refunded_status(payment.captured, refunded),
        entries=(*payment.entries, entry),
        updated_at=event.at,
    )
    order = replace(order, refunds=_with_successful_part(order, payment, event))
    return with_payment(order, event, payment, after)


def _unrequested(payment: Payment, event: LateRefundReported, reason: str) -> Refund:
    """Returns the refund that begins with the report of its end."""
    is_payout = payment.started.method.type is not MethodType.CARD
    part = RefundPart(
        payment_id=event.payment_id,
        amount=event.amount,
        before=payment.refunded,
        ordinal=len(payment.entries) + 1,
        destination_type=DestinationType.PAYING_ACCOUNT if is_payout else None,
    )
    return Refund(refund_id=event.refund_id, reason=reason, at=event.at, parts=(part,))


def _refund_reversed(order: Order, event: RefundReversed) -> Order:
    """Returns the order with the money of a refund held again. It reopens an order that the refund had closed."""
    payment = order.payment(event.payment_id)
    reason = event.message or event.code
    refunds = _with_part(
        order, payment, event.refund_id, RefundStatus.FAILED, message=reason, came_back=True, is_final=True
    )
    order = replace(order, refunds=refunds)
    parts = (part for refund in order.refunds for part in refund.parts if part.payment_id == event.payment_id)
    given = sum((part.amount for part in parts if part.status is RefundStatus.SUCCEEDED), ZERO)
    refunded = min(payment.charged_back + given, payment.captured)
    entry = HistoryEntry(EntryAction.REFUND, EntryStatus.FAILED, event.amount, event.at, reason, event.refund_id)
    after = replace(
        _with_money_back(payment, refunded),
        refunded=refunded,
        entries=(*payment.entries, entry),
        updated_at=event.at,
    )
    return replace(with_payment(order, event, payment, after), closed=order.closed and refunded >= payment.refunded)


def _with_money_back(payment: Payment, refunded: Decimal) -> Payment:
    """Returns the payment with the status of what is refunded now.

    A dispute or a refund of late money that was opened in the final status REFUNDED shows from now on.
    """
    status = _status_by_amounts(payment, refunded)
    if payment.dispute is not None:
        held = payment.captured - refunded - payment.refunding
        contested = replace(payment.dispute, amount=min(payment.dispute.reported_amount, held))
        payment = replace(payment, dispute=contested)
    if payment.status not in _REFUNDED:
        return replace(payment, returns_to=status if payment.returns_to in _REFUNDED else payment.returns_to)
    if payment.dispute is not None:
        return replace(payment, status=PaymentStatus.DISPUTED, returns_to=status)
    if payment.refunding:
        return replace(payment, status=PaymentStatus.PENDING_REFUND, returns_to=status)
    if status is PaymentStatus.REFUNDED:  # more had been reported than was captured: nothing is held again
        return payment
    return replace(payment, status=status)


def _status_by_amounts(payment: Payment, refunded: Decimal) -> PaymentStatus:
    """Returns the status of a payment with captured money by what of it was refunded, and by its settlement batch."""
    if refunded:
        return refunded_status(payment.captured, refunded)
    if payment.batch is not None and payment.batch.status is not PaymentStatus.CAPTURED:
        return payment.batch.status
    return PaymentStatus.CAPTURED if payment.captured >= payment.amount else PaymentStatus.PARTIALLY_CAPTURED


def _release_call(payment: Payment) -> Intent | None:
    """Returns the open call that releases the payment's rest: the outcome of a refund leaves it open."""
    return payment.intent if payment.is_being_released else None


def _with_refund_in_flight(payment: Payment, amount: Decimal) -> Payment:
    """Returns the payment with a refund of `amount` in flight. A final status stays; only `refunding` shows it then."""
    if payment.status not in CAPTURED_STATUSES:
        return replace(payment, refunding=amount)
    return replace(payment, status=PaymentStatus.PENDING_REFUND, returns_to=payment.status, refunding=amount)


def _with_new_part(order: Order, payment: Payment, event: RefundRequested) -> tuple[Refund, ...]:
    part = RefundPart(
        payment_id=event.payment_id,
        amount=event.amount,
        before=payment.refunded,
        ordinal=len(payment.entries) + 1,
        destination_type=event.destination_type or _destination_type(event),
        destination=None if order.payer_forgotten else event.destination,
        by_merchant=event.by_merchant,
    )
    existing = order.refund(event.refund_id)
    if existing is None:
        refund = Refund(
            refund_id=event.refund_id, reason=event.reason, at=event.at, external_id=event.external_id, parts=(part,)
        )
        return (*order.refunds, refund)
    refund = replace(existing, parts=(*existing.parts, part))
    return tuple(refund if other is existing else other for other in order.refunds)


def _destination_type(event: RefundRequested) -> DestinationType | None:
    """Returns the type of a payout of an earlier release, which stored none. The processor had it in any case."""
    if not event.payout:
        return None
    return DestinationType.PAYING_ACCOUNT if event.destination is None else DestinationType.ACCOUNT


def _destination_changed(order: Order, event: RefundDestinationChanged) -> Order:
    payment = order.payment(event.payment_id)
    destination = None if order.payer_forgotten else event.destination
    refunds = _with_changed_part(
        order, event, lambda part: replace(part, destination_type=DestinationType.ACCOUNT, destination=destination)
    )
    return with_payment(replace(order, refunds=refunds), event, payment, replace(payment, updated_at=event.at))


def _payout_requested(order: Order, event: PayoutRequested) -> Order:
    payment = order.payment(event.payment_id)
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
    refunds = _with_changed_part(order, event, lambda part: replace(part, by_merchant=False))
    after = replace(payment, intent=intent, updated_at=event.at)
    return with_payment(replace(order, refunds=refunds), event, payment, after)


def _with_changed_part(
    order: Order,
    event: RefundDestinationChanged | PayoutRequested | PaymentRefunded,
    change: Callable[[RefundPart], RefundPart],
) -> tuple[Refund, ...]:
    return tuple(
        replace(
            refund,
            parts=tuple(change(part) if part.payment_id == event.payment_id else part for part in refund.parts),
        )
        if refund.refund_id == event.refund_id
        else refund
        for refund in order.refunds
    )


def _with_successful_part(
    order: Order, payment: Payment, event: PaymentRefunded | LateRefundReported
) -> tuple[Refund, ...]:
    earlier = sum(part.success is not None for refund in order.refunds for part in refund.parts)
    success = RefundSuccess(at=event.at, receipts_before=receipts_of(order), ordinal=earlier + 1)
    status, reference = RefundStatus.SUCCEEDED, event.processor_reference
    return _with_part(order, payment, event.refund_id, status, reference, success=success)


def _with_part(
    order: Order,
    payment: Payment,
    refund_id: object,
    status: RefundStatus,
    reference: str | None = None,
    message: str | None = None,
    *,
    was_not_sent: bool = False,
    came_back: bool = False,
    is_final: bool = False,
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
                    came_back=came_back,
                    is_final=is_final,
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


def _settlement_listed(payment: Payment, event: SettlementListed) -> Payment:
    return _settling(payment, event, PaymentStatus.PENDING_SETTLEMENT, EntryStatus.PENDING)


def _settlement_matched(payment: Payment, event: SettlementMatched) -> Payment:
    return _settling(payment, event, PaymentStatus.SETTLED, EntryStatus.SUCCESS)


def _settlement_refused(payment: Payment, event: SettlementRefused) -> Payment:
    return _settling(payment, event, PaymentStatus.CAPTURED, EntryStatus.FAILED)


def _settling(
    payment: Payment,
    event: SettlementListed | SettlementMatched | SettlementRefused,
    status: PaymentStatus,
    entry: EntryStatus,
) -> Payment:
    """Returns the payment with the batch as it is now.

    A refund, a dispute or a final status stays; only the status moves to which the payment returns from it.
    """
    own = status if payment.status in SETTLEMENT_STATUSES else payment.status
    returns_to = status if payment.returns_to in SETTLEMENT_STATUSES else payment.returns_to
    before = payment.batch if payment.batch is not None and payment.batch.batch_id == event.batch_id else None
    batch = SettlementBatch(event.batch_id, status, event.fee, event.fee_tax, event.fee_currency)
    if event.fee is None and before is not None:
        batch = replace(before, status=status)
    is_correction = before is not None and before.status is status
    entries = history_with(payment, EntryAction.SETTLEMENT, entry, payment.captured, event.at)
    return replace(
        payment,
        status=own,
        returns_to=returns_to,
        batch=batch,
        entries=payment.entries if is_correction else entries,
        updated_at=event.at,
    )


EVOLVE: Final[Folds] = {
    RefundRequested: _refund_requested,
    RefundDestinationChanged: _destination_changed,
    PayoutRequested: _payout_requested,
    RefundAccepted: _refund_accepted,
    PaymentRefunded: _refunded,
    RefundRefused: _refund_refused,
    RefundReopened: _refund_reopened,
    LateRefundReported: _refunded_late,
    RefundReversed: _refund_reversed,
    SettlementListed: on_payment(_settlement_listed),
    SettlementMatched: on_payment(_settlement_matched),
    SettlementRefused: on_payment(_settlement_refused),
}
