"""Giving money back: which payments give which part, what follows from the processor's word.

The rule a stranger would break: a refund in flight has taken its money already (`Payment.refundable`), and there is one
in flight per payment. That is why no order of events refunds more than was captured.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from datetime import timedelta
from decimal import Decimal
from typing import Final

from ledger.domain.money import ZERO, shortest
from ledger.domain.orders.commands import RecordRefundOutcome, RefundOrder, RefundOverpayment
from ledger.domain.orders.decide.closing import with_cancellation_closed
from ledger.domain.orders.decide.guards import require_multiple, require_payment, wrong_state
from ledger.domain.orders.events import (
    AbandonedBecause,
    CallAbandoned,
    CallUnanswered,
    OrderEvent,
    PaymentRefunded,
    ProcessorCall,
    RefundAccepted,
    RefundRefused,
    RefundReopened,
    RefundRequested,
)
from ledger.domain.orders.payment import HELD, Payment
from ledger.domain.orders.processor_outcomes import NotFound, NotSent, Refunded, RefundPending, Unanswered
from ledger.domain.orders.processor_outcomes import RefundRefused as Refusal
from ledger.domain.orders.refund import RefundPart, RefundStatus
from ledger.domain.orders.state import Order
from ledger.domain.orders.statuses import PaymentStatus
from ledger.domain.orders.terms import MethodType
from ledger.domain.rejections import (
    IdempotencyMismatch,
    InvalidField,
    OrderNotRefundable,
    RefundExceedsBalance,
    RefundInProgress,
    RefundWindowExpired,
)

_GIVES_BACK: Final = HELD | {PaymentStatus.FAILED, PaymentStatus.REFUNDED}
"""Where money can be given back from. A final status gives back what was reported late, and stays final."""

Shares = list[tuple[Payment, Decimal]]


def decide_refund(order: Order, command: RefundOrder) -> list[OrderEvent]:
    """Give money back (contract N35 to N39, sections 8.7 and 8.11). The same refund again, by either id, is absorbed.

    Raises InvalidField, PaymentNotFound, IdempotencyMismatch, InvalidOrderState, OrderNotRefundable, RefundInProgress,
    RefundWindowExpired, RefundExceedsBalance.
    """
    if order.refund(command.refund_id) is not None or _is_repeated(order, command):
        return []
    require_multiple(order, command.amount)
    asked = _asked_shares(order, command)
    if order.cancel_requested:
        raise wrong_state(order, "The order is being cancelled.")
    if order.amount_paid == 0:
        raise OrderNotRefundable("Nothing was captured on this order.", currentStatus=order.status)
    shares = _newest_first(order, command) if asked is None else _as_asked(asked, command)
    if not command.partial_payouts:
        _insist_on_whole_payouts(shares)
    return [_requested(command, payment, amount) for payment, amount in shares]


def decide_overpayment_refund(order: Order, command: RefundOverpayment) -> list[OrderEvent]:
    """Give back what is held beyond the order's amount (section 4.6), as far as it is free."""
    if order.refund(command.refund_id) is not None or order.cancel_requested:
        return []
    refund = RefundOrder(
        refund_id=command.refund_id,
        amount=order.overpaid_amount,
        reason="overpayment",
        deadline_at=command.deadline_at,
        at=command.at,
        card_window_s=command.card_window_s,
        partial_payouts=command.partial_payouts,
    )
    return [_requested(refund, payment, share) for payment, share in _of_the_extra(order, refund)]


def refund_all(order: Order, command: RefundOrder) -> list[OrderEvent]:
    """Ask for everything that is held, payment by payment: what a cancellation with `refundCaptured` begins with."""
    free = [payment for payment in _by_capture(order) if _is_free(payment) and payment.refundable > 0]
    return [_requested(command, payment, payment.refundable) for payment in free]


def decide_refund_outcome(order: Order, command: RecordRefundOutcome) -> list[OrderEvent]:
    """Record what became of one payment's part of a refund; no events where that is known already."""
    refund, payment = order.refund(command.refund_id), order.payment(command.payment_id)
    part = None if refund is None else refund.part(command.payment_id)
    assert part is not None, "an outcome follows an intent"
    if part.status is RefundStatus.PENDING:
        return with_cancellation_closed(order, _while_pending(payment, part, command))
    carried_out = isinstance(command.outcome, Refunded | RefundPending)
    may_reopen = payment.status in _GIVES_BACK and not payment.refunding and part.amount <= payment.refundable
    if part.status is not RefundStatus.FAILED or not carried_out or not may_reopen:
        return []
    reopened = RefundReopened(refund_id=command.refund_id, payment_id=command.payment_id, at=command.at)
    return with_cancellation_closed(order, [reopened, *_while_pending(payment, part, command)])


def _while_pending(payment: Payment, part: RefundPart, command: RecordRefundOutcome) -> list[OrderEvent]:
    refund_id, payment_id, at = command.refund_id, command.payment_id, command.at
    asking = payment.intent is not None and payment.intent.refund_id == refund_id
    known = payment.intent is not None and payment.intent.unknown
    match command.outcome:
        case Refunded(processor_reference=reference):
            return [
                PaymentRefunded(
                    refund_id=refund_id, payment_id=payment_id, amount=part.amount, processor_reference=reference, at=at
                )
            ]
        case RefundPending(processor_reference=reference) if asking:
            return [RefundAccepted(refund_id=refund_id, payment_id=payment_id, processor_reference=reference, at=at)]
        case Refusal(code=code, message=message):
            return [RefundRefused(refund_id=refund_id, payment_id=payment_id, code=code, at=at, message=message)]
        case Unanswered(reason=reason) if asking and not known:
            return [CallUnanswered(payment_id=payment_id, call=ProcessorCall.REFUND, reason=reason, at=at)]
        case NotSent() if asking:
            return [_abandoned(command, AbandonedBecause.NOT_SENT)]
        case NotFound() if asking:
            return [_abandoned(command, AbandonedBecause.NOT_FOUND)]
        case _:
            return []


def _abandoned(command: RecordRefundOutcome, because: AbandonedBecause) -> CallAbandoned:
    return CallAbandoned(payment_id=command.payment_id, call=ProcessorCall.REFUND, because=because, at=command.at)


def _is_repeated(order: Order, command: RefundOrder) -> bool:
    known = None if command.external_id is None else order.refund_by_external_id(command.external_id)
    if known is None:
        return False
    if known.amount != command.amount:
        raise IdempotencyMismatch("The refund with this externalId has another amount.", field="amount")
    return True


def _asked_shares(order: Order, command: RefundOrder) -> Shares | None:
    """The payments and amounts that the request names, or None where it leaves that to us."""
    if not command.allocations:
        return None if command.payment_id is None else [(require_payment(order, command.payment_id), command.amount)]
    for at, allocation in enumerate(command.allocations):
        require_multiple(order, allocation.amount, f"allocations[{at}].amount")
    if sum((allocation.amount for allocation in command.allocations), ZERO) != command.amount:
        raise InvalidField("allocations", "must add up to amount")
    named = [allocation.payment_id for allocation in command.allocations]
    if len(set(named)) < len(named):
        raise InvalidField("allocations", "must name each payment once")
    if command.payment_id is not None and named != [command.payment_id]:
        raise InvalidField("allocations", "must name the payment that paymentId names, and no other")
    return [(require_payment(order, allocation.payment_id), allocation.amount) for allocation in command.allocations]


def _as_asked(asked: Shares, command: RefundOrder) -> Shares:
    for payment, _ in asked:
        if payment.refunding:
            raise RefundInProgress("A refund of this payment is in progress.", paymentId=payment.payment_id)
    for payment, _ in asked:
        if payment.status not in _GIVES_BACK or not payment.captured:
            raise OrderNotRefundable("The payment cannot be refunded.", currentStatus=payment.status)
    for payment, amount in asked:
        if _is_too_late(payment, command):
            raise RefundWindowExpired("The payment was captured too long ago.")
        if amount > payment.refundable:
            raise RefundExceedsBalance(
                "The amount exceeds what can be refunded.", refundableAmount=shortest(payment.refundable)
            )
    return asked


def _newest_first(order: Order, command: RefundOrder) -> Shares:
    """The newest captured payments first, each up to its rest; contested ones are left out (N36)."""
    money = _by_capture(order)
    free = [payment for payment in money if _is_free(payment) and not _is_too_late(payment, command)]
    amount, left = command.amount, sum((payment.refundable for payment in free), ZERO)
    if amount <= left:
        return _shared_out(free, amount)
    left += sum((payment.refundable for payment in money if payment.refunding), ZERO)
    if amount <= left:
        raise RefundInProgress("A refund of this order is in progress.")
    too_late = [payment for payment in money if _is_free(payment) and _is_too_late(payment, command)]
    if amount <= left + sum((payment.refundable for payment in too_late), ZERO):
        raise RefundWindowExpired("The payment was captured too long ago.")
    raise RefundExceedsBalance("The amount exceeds what can be refunded.", refundableAmount=shortest(left))


def _of_the_extra(order: Order, command: RefundOrder) -> Shares:
    """What is held too much, of the money that came last first. Where a reference goes back whole, it does so only if all of
    it is too much.
    """
    shares: Shares = []
    left = command.amount
    for payment in sorted(_by_capture(order), key=lambda payment: payment.arrivals[-1].nth, reverse=True):
        amount = _lowering(order, payment, left)
        if amount <= 0 or not _is_free(payment) or _is_too_late(payment, command):
            continue
        if not command.partial_payouts and _is_a_part(payment, amount):
            continue
        shares.append((payment, amount))
        left -= _lowered(order, payment, amount)
    return shares


def _lowering(order: Order, payment: Payment, extra: Decimal) -> Decimal:
    """The least that the payment has to give back, gross, for the order to be overpaid by `extra` less, or all it has.

    What goes back of a split order takes its surcharge along, which the order's amount is then lowered by.
    """
    steps = int(payment.refundable / order.quantum)
    fits = bisect_left(range(steps), extra, key=lambda n: _lowered(order, payment, n * order.quantum))
    return fits * order.quantum


def _lowered(order: Order, payment: Payment, amount: Decimal) -> Decimal:
    """By how much less the order is overpaid once the payment has given `amount` back."""
    if not order.terms.allow_partials:
        return amount
    after = payment.parts_of_refund(payment.refunded + amount, order.quantum)
    return after.subtotal - payment.refunded_parts(order.quantum).subtotal


def _insist_on_whole_payouts(shares: Shares) -> None:
    """Some rails give back all that came in by a reference or nothing (N39). Raises InvalidField."""
    for payment, amount in shares:
        if _is_a_part(payment, amount):
            raise InvalidField(
                "amount", f"must be {shortest(payment.refundable)}: what came in by this reference goes back whole"
            )


def _is_a_part(payment: Payment, amount: Decimal) -> bool:
    return payment.started.method.type is not MethodType.CARD and amount < payment.refundable


def _by_capture(order: Order) -> list[Payment]:
    brought = (payment for payment in order.payments if payment.captured)
    return sorted(brought, key=lambda payment: payment.capture_ordinal, reverse=True)


def _is_free(payment: Payment) -> bool:
    return payment.status in _GIVES_BACK and not payment.refunding


def _is_too_late(payment: Payment, command: RefundOrder) -> bool:
    if payment.started.method.type is not MethodType.CARD or payment.captured_at is None:
        return False
    return command.at > payment.captured_at + timedelta(seconds=command.card_window_s)


def _shared_out(payments: Iterable[Payment], amount: Decimal) -> Shares:
    shares: Shares = []
    for payment in payments:
        share = min(amount, payment.refundable)
        if share > 0:
            shares.append((payment, share))
            amount -= share
    return shares


def _requested(command: RefundOrder, payment: Payment, amount: Decimal) -> RefundRequested:
    payout = payment.started.method.type is not MethodType.CARD
    return RefundRequested(
        refund_id=command.refund_id,
        payment_id=payment.payment_id,
        amount=shortest(amount),
        reason=command.reason,
        processor=payment.processor,
        idempotency_key=f"{command.refund_id}:{payment.payment_id}",
        deadline_at=command.deadline_at,
        at=command.at,
        external_id=command.external_id,
        payout=payout,
        destination=command.destination if payout else None,
    )
