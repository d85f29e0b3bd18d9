"""The rules of one payment order: its sums (I1 to I5), its status (I6) and its moves (I7) after an event.

Compute what a rule compares from the payments and from the event, by none of the order's own properties that the rule
is about: a wrong property would agree with itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from ledger.audit.invariants.broken import Broken
from ledger.domain.money import ZERO
from ledger.domain.orders import events
from ledger.domain.orders.payment import Payment
from ledger.domain.orders.state import LIVE, Order
from ledger.domain.orders.statuses import (
    PAYMENT_EDGES,
    REPORTED_PAYMENT_EDGES,
    NextAction,
    OrderStatus,
    PaymentStatus,
    is_legal_move,
)

_BRINGS: Final = (events.PaymentCaptured, events.LateCaptureReported, events.DepositReceived)
_GIVES_BACK: Final = (events.PaymentRefunded, events.LateRefundReported, events.DisputeLost)
_WAITING: Final = {
    NextAction.DEVICE_DATA: OrderStatus.PAYER_AUTHENTICATION_DEVICE_DATA_REQUIRED,
    NextAction.CHALLENGE: OrderStatus.PAYER_AUTHENTICATION_CHALLENGE_REQUIRED,
    NextAction.DISPLAY_REFERENCE: OrderStatus.REFERENCE_GENERATED,
    NextAction.REDIRECT: OrderStatus.ACTION_REQUIRED,
    None: OrderStatus.ACTION_REQUIRED,
}


def broken_order(before: Order | None, event: Any, after: Order) -> Iterator[Broken]:
    """Yields the rules that an order breaks after an event. `before` is None for its first event."""
    if before is None or before.payments is not after.payments:
        yield from _broken_payments(before, event, after)
    status = None if before is None else before.status
    if status is not after.status and not is_legal_move(status, after.status, split=after.terms.allow_partials):
        yield Broken("I7", f"the order moved from {status} to {after.status}")
    if before is not None and before.payments is after.payments and before.terms.amount == after.terms.amount:
        if after.status is not status:  # no money moved
            yield from _broken_status(after)
        return
    yield from broken_sums(after)


def broken_sums(order: Order) -> Iterator[Broken]:
    """Yields the rules about sums and the status that an order breaks: I1, I2, I3, I5 and I6."""
    paid, refunded = _captured(order.payments), _refunded(order.payments)
    if order.amount != order.terms.amount + (order.surcharge_amount or 0):
        yield Broken("I1", f"the amount {order.amount} is not the subtotal {order.terms.amount} plus the surcharge")
    if order.amount_pending != max(ZERO, order.amount - (paid - refunded)):
        yield Broken(
            "I2", f"{order.amount_pending} is pending of {order.amount}, with {paid} paid, {refunded} refunded"
        )
    if order.amount_paid != paid:
        yield Broken("I3", f"the amount paid {order.amount_paid} is not what was captured, {paid}")
    if order.amount_refunded != refunded:
        yield Broken("I3", f"the amount refunded {order.amount_refunded} is not what was given back, {refunded}")
    if order.terms.allow_partials and order.amount_pending and order.amount_pending != (open_ := _open_subtotal(order)):
        yield Broken("I5", f"{order.amount_pending} is pending, and {open_} of the subtotal is not paid")
    yield from _broken_status(order)


def status_of(order: Order) -> OrderStatus:
    """Returns an order's status by the list of contract 2.2, line by line."""
    paid, refunded = _captured(order.payments), _refunded(order.payments)
    net, split = paid - refunded, order.terms.allow_partials
    covered = OrderStatus.COMPLETED if net >= order.amount else OrderStatus.PARTIALLY_PAID
    if order.closed and net <= 0:
        return OrderStatus.REFUNDED if refunded else OrderStatus.CANCELLED
    if order.cancel_requested:
        return OrderStatus.CANCELLATION_REQUESTED
    if any(payment.status is PaymentStatus.PENDING_REFUND for payment in order.payments):
        return OrderStatus.REFUND_PROCESSING
    if split and paid > 0:
        return covered
    if not split and refunded > 0:
        return OrderStatus.REFUNDED if net <= 0 else OrderStatus.PARTIALLY_REFUNDED
    if net > 0:
        return covered
    live = [payment for payment in order.payments if payment.status in LIVE]
    return _status_with_live_payment(live[-1]) if live else _status_without_live_payment(order)


def _broken_status(order: Order) -> Iterator[Broken]:
    expected = status_of(order)
    if order.status is not expected:
        yield Broken("I6", f"the order is {order.status}, and {expected} by its payments")


def _broken_payments(before: Order | None, event: Any, after: Order) -> Iterator[Broken]:
    known: dict[UUID, Payment] = {}
    if before is not None:
        known = {payment.started.payment_id: payment for payment in before.payments}
    edges = PAYMENT_EDGES | REPORTED_PAYMENT_EDGES if isinstance(event, events.RefundReversed) else PAYMENT_EDGES
    for payment in after.payments:
        stood = known.pop(payment.started.payment_id, None)
        if stood is payment:
            continue
        name = payment.started.payment_id
        move = (None if stood is None else stood.status, payment.status)
        if move[0] is not move[1] and move not in edges:
            yield Broken("I7", f"payment {name} moved from {move[0]} to {move[1]}")
        if not ZERO <= payment.refunded + payment.refunding <= payment.captured <= payment.authorized:
            yield Broken(
                "I4",
                f"payment {name} has {payment.refunded} refunded and {payment.refunding} to refund, "
                f"{payment.captured} captured, {payment.authorized} authorised",
            )
        yield from _broken_moves_of_money(stood, event, payment)
    for payment_id in known:
        yield Broken("I3", f"payment {payment_id} is no longer among those of the order")


def _broken_moves_of_money(stood: Payment | None, event: Any, payment: Payment) -> Iterator[Broken]:
    """Yields where the money of a payment moved otherwise than the event states."""
    was_captured, was_refunded = (ZERO, ZERO) if stood is None else (stood.captured, stood.refunded)
    captured, refunded = payment.captured - was_captured, payment.refunded - was_refunded
    is_its = getattr(event, "payment_id", None) == payment.started.payment_id
    stated = event.amount if is_its and isinstance(event, _BRINGS) else ZERO
    if captured != stated:
        yield Broken("I3", f"payment {payment.payment_id}: {captured} more captured, and its event states {stated}")
    given = ZERO
    if is_its and isinstance(event, _GIVES_BACK):  # a bank may report more than the payment holds
        given = min(event.amount, was_captured - was_refunded)
    if is_its and isinstance(event, events.RefundReversed) and -event.amount <= refunded <= ZERO:
        return
    if refunded != given:
        yield Broken("I3", f"payment {payment.payment_id}: {refunded} more refunded, and its event states {given}")


def _captured(payments: Sequence[Payment]) -> Decimal:
    return sum([payment.captured for payment in payments], ZERO)


def _refunded(payments: Sequence[Payment]) -> Decimal:
    return sum([payment.refunded for payment in payments], ZERO)


def _open_subtotal(order: Order) -> Decimal:
    """Returns the subtotal less what was captured of it and not refunded."""
    held = ZERO
    for payment in order.payments:
        held += payment.captured_split(order.quantum).subtotal - payment.refunded_split(order.quantum).subtotal
    return max(ZERO, order.terms.amount - held)


def _status_with_live_payment(payment: Payment) -> OrderStatus:
    if payment.status is PaymentStatus.REQUIRES_ACTION:
        return _WAITING[payment.next_action]
    if payment.status in {PaymentStatus.CREATED, PaymentStatus.PENDING_AUTHORIZATION}:
        return OrderStatus.PROCESSING
    if payment.status is PaymentStatus.PENDING_CANCELLATION:
        return OrderStatus.CANCELLATION_REQUESTED
    less = payment.authorized < payment.amount
    return OrderStatus.PARTIALLY_AUTHORIZED if less else OrderStatus.AUTHORIZED


def _status_without_live_payment(order: Order) -> OrderStatus:
    if not order.payments or order.terms.allow_partials:
        return OrderStatus.PENDING
    expired = order.payments[-1].status is PaymentStatus.EXPIRED
    return OrderStatus.PENDING if expired and order.terms.pending else OrderStatus.FAILED
