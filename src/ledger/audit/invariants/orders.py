"""The rules of one payment order: its sums (I1 to I5), its status (I6) and its moves (I7) after an event.

Compute what a rule compares from the payments and from the event, by none of the order's own properties that the rule
is about: a wrong property would agree with itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any, Final

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
_MOVES: Final = frozenset({*_BRINGS, *_GIVES_BACK, events.RefundReversed})
_WAITING: Final = {
    NextAction.DEVICE_DATA: OrderStatus.PAYER_AUTHENTICATION_DEVICE_DATA_REQUIRED,
    NextAction.CHALLENGE: OrderStatus.PAYER_AUTHENTICATION_CHALLENGE_REQUIRED,
    NextAction.DISPLAY_REFERENCE: OrderStatus.REFERENCE_GENERATED,
    NextAction.REDIRECT: OrderStatus.ACTION_REQUIRED,
    None: OrderStatus.ACTION_REQUIRED,
}


def broken_order(before: Order | None, event: Any, after: Order) -> list[Broken]:
    """Returns the rules that an order breaks after an event. `before` is None for its first event."""
    found: list[Broken] = []
    now = after.status
    status, known, has_other_money = None, tuple[Payment, ...](), True
    if before is not None:
        status, known, has_other_money = before.status, before.payments, before.terms is not after.terms
    if status is not now and not is_legal_move(status, now, split=after.terms.allow_partials):
        found.append(Broken("I7", f"the order moved from {status} to {now}"))
    if known is not after.payments:
        has_other_money = _check_payments(found, known, event, after) or has_other_money
    if has_other_money:
        _check_sums(found, after)
    _check_status(found, after)
    return found


def broken_sums(order: Order) -> list[Broken]:
    """Returns the rules about sums and the status that an order breaks: I1, I2, I3, I5 and I6."""
    found: list[Broken] = []
    _check_sums(found, order)
    _check_status(found, order)
    return found


def status_of(order: Order) -> OrderStatus:
    """Returns an order's status by the list of contract 2.2, line by line."""
    paid = refunded = ZERO
    is_refunding, live = False, None
    for payment in order.payments:
        if payment.captured:
            paid += payment.captured
            refunded += payment.refunded
        status = payment.status
        is_refunding = is_refunding or status is PaymentStatus.PENDING_REFUND
        live = payment if status in LIVE else live
    net = paid - refunded if paid else ZERO
    if order.closed and net <= 0:
        return OrderStatus.REFUNDED if refunded else OrderStatus.CANCELLED
    if order.cancel_requested:
        return OrderStatus.CANCELLATION_REQUESTED
    if is_refunding:
        return OrderStatus.REFUND_PROCESSING
    if refunded and not order.terms.allow_partials:
        return OrderStatus.REFUNDED if net <= 0 else OrderStatus.PARTIALLY_REFUNDED
    if paid and (net > 0 or order.terms.allow_partials):
        return OrderStatus.COMPLETED if net >= order.amount else OrderStatus.PARTIALLY_PAID
    return _status_without_live_payment(order) if live is None else _status_with_live_payment(live)


def _check_sums(found: list[Broken], order: Order) -> None:
    """Adds the rules about sums that an order breaks."""
    paid = refunded = ZERO
    for payment in order.payments:
        paid += payment.captured
        refunded += payment.refunded
    if order.amount != order.terms.amount + (order.surcharge_amount or 0):
        what = f"the amount {order.amount} is not the subtotal {order.terms.amount} plus the surcharge"
        found.append(Broken("I1", what))
    pending = order.amount_pending
    if pending != max(ZERO, order.amount - (paid - refunded)):
        what = f"{pending} is pending of {order.amount}, with {paid} paid, {refunded} refunded"
        found.append(Broken("I2", what))
    if order.amount_paid != paid:
        found.append(Broken("I3", f"the amount paid {order.amount_paid} is not what was captured, {paid}"))
    if order.amount_refunded != refunded:
        what = f"the amount refunded {order.amount_refunded} is not what was given back, {refunded}"
        found.append(Broken("I3", what))
    if order.terms.allow_partials and pending and pending != (open_ := _open_subtotal(order)):
        found.append(Broken("I5", f"{pending} is pending, and {open_} of the subtotal is not paid"))


def _check_status(found: list[Broken], order: Order) -> None:
    """Adds that an order's status is not the one of contract 2.2, if it is not."""
    expected = status_of(order)
    if order.status is not expected:
        found.append(Broken("I6", f"the order is {order.status}, and {expected} by its payments"))


def _check_payments(found: list[Broken], known: Sequence[Payment], event: Any, after: Order) -> bool:
    """Adds the rules that payments break, of those that the event changed: the others are in `known`.

    Returns whether the sums of the order may be others. An amount that an event leaves alone stays the same object.
    """
    is_quoted = after.terms.surcharge is not None and len(known) != len(after.payments)
    has_other_money = is_quoted or len(known) > len(after.payments)
    for n, payment in enumerate(after.payments):  # payments keep their places
        stood = known[n] if n < len(known) else None
        if stood is payment:
            continue
        if stood is not None and stood.started is not payment.started and stood.payment_id != payment.payment_id:
            found.append(Broken("I3", f"payment {stood.payment_id} is no longer in its place, {payment.payment_id} is"))
            stood = None
        origin, status = None if stood is None else stood.status, payment.status
        if origin is not status and (origin, status) not in PAYMENT_EDGES:
            reports = isinstance(event, events.RefundReversed | events.LateRefundReported)
            if not reports or (origin, status) not in REPORTED_PAYMENT_EDGES:
                found.append(Broken("I7", f"payment {payment.payment_id} moved from {origin} to {status}"))
        was_captured, was_refunded = (ZERO, ZERO) if stood is None else (stood.captured, stood.refunded)
        is_moved = payment.captured is not was_captured or payment.refunded is not was_refunded
        if is_moved or type(event) in _MOVES:
            has_other_money = True
            found += _broken_moves_of_money(event, payment, was_captured, was_refunded)
        if not ZERO <= payment.refunded + payment.refunding <= payment.captured <= payment.authorized:
            what = f"payment {payment.payment_id} has {payment.refunded} refunded and {payment.refunding} to refund"
            what = f"{what}, {payment.captured} captured, {payment.authorized} authorised"
            found.append(Broken("I4", what))
    for payment in known[len(after.payments) :]:
        found.append(Broken("I3", f"payment {payment.payment_id} is no longer among those of the order"))
    return has_other_money


def _broken_moves_of_money(
    event: Any, payment: Payment, was_captured: Decimal, was_refunded: Decimal
) -> Iterator[Broken]:
    """Yields where the money of a payment moved otherwise than the event states."""
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
