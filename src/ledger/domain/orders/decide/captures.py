"""Taking what was authorised: by the merchant's word or by the clock, and what the processor says to it.

The rule a stranger would break: money that was taken is always recorded, whatever the payment had become meanwhile.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Final

from ledger.domain.money import shortest
from ledger.domain.orders.commands import CapturePayment, RecordCaptureOutcome, StartScheduledCapture
from ledger.domain.orders.decide.closing import with_cancellation_closed
from ledger.domain.orders.decide.guards import require_multiple, require_payment, wrong_state
from ledger.domain.orders.events import (
    AbandonedBecause,
    CallAbandoned,
    CallUnanswered,
    CaptureRefused,
    CaptureRequested,
    CaptureScheduled,
    LateCaptureReported,
    OrderEvent,
    PaymentCaptured,
    ProcessorCall,
    VoidRefused,
)
from ledger.domain.orders.payment import UNCAPTURED, EntryAction, Payment
from ledger.domain.orders.processor_outcomes import Captured, NotFound, NotSent, Unanswered
from ledger.domain.orders.processor_outcomes import CaptureRefused as Refusal
from ledger.domain.orders.state import Order
from ledger.domain.orders.statuses import OrderStatus, PaymentStatus
from ledger.domain.orders.surcharge import split_capture
from ledger.domain.orders.terms import CaptureMethod, MethodType
from ledger.domain.rejections import AmountExceedsPending, CaptureExceedsAuthorized

RETRY_REFUSED: Final = timedelta(hours=1)
RETRY_UNSENT: Final = timedelta(minutes=1)
"""When an automatic capture is tried again."""


def decide_capture(order: Order, command: CapturePayment) -> list[OrderEvent]:
    """Capture an authorisation, all of it or a part (contract N41, amounts gross). The same key again is absorbed.

    Raises InvalidField, PaymentNotFound, InvalidOrderState, CaptureExceedsAuthorized and, where the rest of an authorisation
    that was captured in part has been paid otherwise, AmountExceedsPending.
    """
    if any(command.idempotency_key in payment.keys for payment in order.payments):
        return []
    if command.amount is not None:
        require_multiple(order, command.amount)
    payment = _capturable(order, command)
    left = payment.authorized - payment.captured
    amount = left if command.amount is None else command.amount
    if amount > left:
        raise CaptureExceedsAuthorized("The amount exceeds what was authorised.", authorizedAmount=shortest(left))
    if payment.captured:
        _insist_on_room(order, payment, amount)
    amount, at, payment_id = shortest(amount), command.at, payment.payment_id
    requested = CaptureRequested(
        payment_id=payment_id,
        amount=amount,
        idempotency_key=command.idempotency_key,
        deadline_at=command.deadline_at,
        at=at,
    )
    if payment.status in {PaymentStatus.AUTHORIZED, PaymentStatus.PARTIALLY_AUTHORIZED}:
        return [CaptureScheduled(payment_id=payment_id, amount=amount, due_at=at, at=at), requested]
    return [requested]


def decide_scheduled_capture(order: Order, command: StartScheduledCapture) -> list[OrderEvent]:
    """Begin a capture that is due. No events where it is not due, or not wanted any more."""
    payment = order.payment(command.payment_id)
    due = payment.status is PaymentStatus.PENDING_CAPTURE and payment.capture_due_at is not None
    if not due or payment.cancel_asked or order.cancel_requested or command.idempotency_key in payment.keys:
        return []
    if payment.capture_due_at is not None and payment.capture_due_at > command.at:
        return []
    return [
        CaptureRequested(
            payment_id=payment.payment_id,
            amount=payment.capture_amount,
            idempotency_key=command.idempotency_key,
            deadline_at=command.deadline_at,
            at=command.at,
        )
    ]


def decide_capture_outcome(order: Order, command: RecordCaptureOutcome) -> list[OrderEvent]:
    """Record what became of a capture's call; no events where that is known already."""
    payment, at = order.payment(command.payment_id), command.at
    intent = payment.intent
    asking = intent is not None and intent.idempotency_key == command.idempotency_key
    match command.outcome:
        case Captured() as taken:
            return with_cancellation_closed(order, _taken(payment, command, taken, asking=asking))
        case Refusal(code=code, message=message, retryable=retryable) if asking:
            refused = CaptureRefused(
                payment_id=payment.payment_id, code=code, retryable=retryable, at=at, message=message
            )
            again = _again(order, payment, at, RETRY_REFUSED) if retryable else []
            return with_cancellation_closed(order, [refused, *again])
        case Unanswered(reason=reason) if asking and intent is not None and not intent.unknown:
            return [CallUnanswered(payment_id=payment.payment_id, call=ProcessorCall.CAPTURE, reason=reason, at=at)]
        case NotSent() | NotFound() if asking:
            sent = isinstance(command.outcome, NotFound)
            because = AbandonedBecause.NOT_FOUND if sent else AbandonedBecause.NOT_SENT
            given_up = CallAbandoned(payment_id=payment.payment_id, call=ProcessorCall.CAPTURE, because=because, at=at)
            return with_cancellation_closed(order, [given_up, *_again(order, payment, at, RETRY_UNSENT)])
        case _:
            return []


def _capturable(order: Order, command: CapturePayment) -> Payment:
    named = None if command.payment_id is None else require_payment(order, command.payment_id)
    candidates = order.payments if named is None else (named,)
    if not order.cancel_requested:
        for payment in reversed(candidates):
            if _is_capturable(payment):
                return payment
    raise wrong_state(
        order, "Nothing is authorised on this order.", OrderStatus.AUTHORIZED, OrderStatus.PARTIALLY_AUTHORIZED
    )


def _is_capturable(payment: Payment) -> bool:
    if payment.status in UNCAPTURED:
        return True
    untouched = not payment.refunded and payment.started.method.type is MethodType.CARD
    return payment.status is PaymentStatus.PARTIALLY_CAPTURED and untouched and payment.authorized > payment.captured


def _insist_on_room(order: Order, payment: Payment, amount: Decimal) -> None:
    """The rest of an authorisation was let go by its first capture: others may have paid it since."""
    whole = split_capture(payment.captured + amount, payment.requested_split, order.quantum)
    more = whole.subtotal - payment.captured_split(order.quantum).subtotal
    if more > order.unpaid_subtotal - order.reserved:
        raise AmountExceedsPending(
            "The amount exceeds what is still to be paid.",
            amountPending=order.amount_pending,
            amountReserved=order.reserved,
        )


def _again(order: Order, payment: Payment, at: datetime, after: timedelta) -> list[OrderEvent]:
    """An automatic capture is tried once more, later; a merchant's own is the merchant's to repeat."""
    automatic = order.terms.capture_method is CaptureMethod.AUTOMATIC
    if not automatic or payment.captured or order.cancel_requested:
        return []
    amount = payment.capture_amount
    return [CaptureScheduled(payment_id=payment.payment_id, amount=amount, due_at=at + after, at=at)]


def _taken(payment: Payment, command: RecordCaptureOutcome, taken: Captured, *, asking: bool) -> list[OrderEvent]:
    """The events that lead from where the payment stands to the money that was taken, by legal moves."""
    if command.idempotency_key in payment.capture_keys:
        return []
    payment_id, at, amount = payment.payment_id, command.at, shortest(taken.amount)
    captured = PaymentCaptured(
        payment_id=payment_id, amount=amount, processor_reference=taken.processor_reference, at=at
    )
    if asking and payment.status is PaymentStatus.CAPTURING:
        return [captured]
    scheduled = CaptureScheduled(payment_id=payment_id, amount=amount, due_at=at, at=at)
    requested = CaptureRequested(
        payment_id=payment_id, amount=amount, idempotency_key=command.idempotency_key, deadline_at=at, at=at
    )
    match payment.status:
        case PaymentStatus.AUTHORIZED | PaymentStatus.PARTIALLY_AUTHORIZED:
            return [scheduled, requested, captured]
        case PaymentStatus.PENDING_CAPTURE | PaymentStatus.PARTIALLY_CAPTURED:
            return [requested, captured]
        case PaymentStatus.PENDING_CANCELLATION if payment.intent and payment.intent.action is EntryAction.CANCELLATION:
            kept = VoidRefused(payment_id=payment_id, code="ALREADY_CAPTURED", at=at)
            return [kept, scheduled, requested, captured]
        case _:
            return [
                LateCaptureReported(
                    payment_id=payment_id,
                    amount=amount,
                    authorized=max(payment.authorized, payment.captured + amount),
                    processor_reference=taken.processor_reference,
                    at=at,
                    idempotency_key=command.idempotency_key,
                )
            ]
