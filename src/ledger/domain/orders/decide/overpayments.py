"""The decider of an overpayment's refund: which payments give back the money that exceeds the order's amount."""

from __future__ import annotations

from bisect import bisect_left
from decimal import Decimal

from ledger.domain.money import is_multiple
from ledger.domain.orders.commands import RefundOrder, RefundOverpayment
from ledger.domain.orders.decide.guards import rules_of
from ledger.domain.orders.decide.refunds import (
    Shares,
    is_free,
    is_kept,
    is_refused_part,
    is_too_late,
    newest_capture_first,
    refund_requested,
)
from ledger.domain.orders.events import OrderEvent
from ledger.domain.orders.payment import Payment
from ledger.domain.orders.state import Order


def decide_overpayment_refund(order: Order, command: RefundOverpayment) -> list[OrderEvent]:
    """Refunds the money that is held beyond the order's amount (section 4.6), as far as it can be refunded now.

    Returns no events for the same refund again, or while a cancellation is pending. Never refuses.
    """
    if order.refund(command.refund_id) is not None or order.cancel_requested:
        return []
    refund = RefundOrder(
        refund_id=command.refund_id,
        amount=order.overpaid_amount,
        reason="overpayment",
        deadline_at=command.deadline_at,
        at=command.at,
        rules=command.rules,
    )
    return [refund_requested(refund, payment, amount) for payment, amount in _overpayment_shares(order, refund)]


def _overpayment_shares(order: Order, command: RefundOrder) -> Shares:
    """Returns the shares of an overpayment's refund, newest money first.

    A payment that the processor refunds only as a whole is included only if all of its money is overpaid.
    """
    shares: Shares = []
    overpaid = command.amount
    for payment in sorted(newest_capture_first(order), key=lambda payment: payment.inflows[-1].ordinal, reverse=True):
        amount = _amount_to_give_back(order, payment, overpaid)
        if amount <= 0 or not is_free(payment) or is_kept(payment, command.rules) or is_too_late(payment, command):
            continue
        if is_refused_part(payment, amount, command) or not is_multiple(
            amount, rules_of(command.rules, payment).smallest_amount
        ):
            continue
        shares.append((payment, amount))
        overpaid -= _overpayment_removed(order, payment, amount)
    return shares


def _amount_to_give_back(order: Order, payment: Payment, overpaid: Decimal) -> Decimal:
    """Returns the least amount (gross) that the payment must refund to lower the overpayment by `overpaid`; at most all
    that it holds.

    On a split order a refund takes its surcharge along, which lowers the order's amount as well.
    """
    steps = int(payment.refundable / order.quantum)
    needed = bisect_left(range(steps), overpaid, key=lambda n: _overpayment_removed(order, payment, n * order.quantum))
    return needed * order.quantum


def _overpayment_removed(order: Order, payment: Payment, amount: Decimal) -> Decimal:
    """Returns by how much a refund of `amount` (gross) of the payment lowers the order's overpayment."""
    if not order.terms.allow_partials:
        return amount
    after = payment.parts_of_refund(payment.refunded + amount, order.quantum)
    return after.subtotal - payment.refunded_split(order.quantum).subtotal
