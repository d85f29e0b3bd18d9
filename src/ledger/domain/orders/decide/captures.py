"""The deciders of captures: requested by the merchant, started by the clock, and the outcome of a capture's call.

Always record captured money, whatever the payment's status is by then.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Final

from ledger.domain.fold import fold
from ledger.domain.money import shortest
from ledger.domain.orders.commands import CapturePayment, RecordCaptureOutcome, StartScheduledCapture
from ledger.domain.orders.decide.closing import with_cancellation_closed
from ledger.domain.orders.decide.guards import (
    require_chargeable,
    require_multiple,
    require_payment,
    rules_of,
    wrong_state,
)
from ledger.domain.orders.decide.releases import released
from ledger.domain.orders.decide.unanswered_calls import call_postponed, call_unanswered
from ledger.domain.orders.declines import decline
from ledger.domain.orders.events import (
    AbandonedBecause,
    CallAbandoned,
    CaptureRefused,
    CaptureRequested,
    CaptureScheduled,
    LateCaptureReported,
    OrderEvent,
    PaymentCaptured,
    ProcessorCall,
    ReleasedBecause,
    VoidRefused,
)
from ledger.domain.orders.evolve.order import evolve
from ledger.domain.orders.payment import EntryAction, EntryStatus, Payment
from ledger.domain.orders.processor_outcomes import Captured, NotFound, NotSent, Released, Unanswered
from ledger.domain.orders.processor_outcomes import CaptureRefused as Refusal
from ledger.domain.orders.state import Order
from ledger.domain.orders.statuses import UNCAPTURED_STATUSES, OrderStatus, PaymentStatus
from ledger.domain.orders.surcharge import split_capture
from ledger.domain.orders.terms import CaptureMethod, MethodType
from ledger.domain.rejections import AmountExceedsPending, CaptureExceedsAuthorized

RETRY_REFUSED: Final = timedelta(hours=1)
RETRY_UNSENT: Final = timedelta(minutes=1)
"""The first delay before an automatic capture is tried again: after a refusal, and after a call that was never sent.

Each further delay is twice as long, at most a day.
"""
_RETRY_MAX: Final = timedelta(days=1)
_DOUBLINGS_MAX: Final = 16


def decide_capture(order: Order, command: CapturePayment) -> list[OrderEvent]:
    """Captures an authorisation, all of it or a part (contract N41, amounts gross). The same key again is absorbed.

    Raises InvalidField for `amount`, PaymentNotFound, InvalidOrderState, CaptureExceedsAuthorized, AmountNotChargeable
    and, if the rest of a partly captured authorisation has been paid otherwise, AmountExceedsPending.
    """
    if any(command.idempotency_key in payment.keys for payment in order.payments):
        return []
    if command.amount is not None:
        require_multiple(order, command.amount)
    payment = _capturable(order, command)
    left = payment.capturable
    amount = left if command.amount is None else command.amount
    if amount > left:
        raise CaptureExceedsAuthorized(
            "The amount exceeds the rest of the authorisation: capture at most authorizedAmount.",
            authorizedAmount=shortest(left),
        )
    if payment.captured:
        _require_unpaid(order, payment, amount)
    rules = rules_of(command.rules, payment)
    if command.amount is not None:
        require_chargeable(amount, rules.smallest_amount)
    amount, at, payment_id = shortest(amount), command.at, payment.payment_id
    requested = CaptureRequested(
        payment_id=payment_id,
        amount=amount,
        idempotency_key=command.idempotency_key,
        deadline_at=command.deadline_at,
        at=at,
        final=command.final or rules.releases_rest,
    )
    if payment.status in {PaymentStatus.AUTHORIZED, PaymentStatus.PARTIALLY_AUTHORIZED}:
        return [CaptureScheduled(payment_id=payment_id, amount=amount, due_at=at, at=at), requested]
    return [requested]


def decide_scheduled_capture(order: Order, command: StartScheduledCapture) -> list[OrderEvent]:
    """Starts a scheduled capture. Returns no events before it is due, after a cancellation, or for the same key."""
    payment = order.payment(command.payment_id)
    scheduled = payment.status is PaymentStatus.PENDING_CAPTURE and payment.capture_due_at is not None
    cancelled = payment.cancellation_requested or order.cancel_requested
    if not scheduled or cancelled or command.idempotency_key in payment.keys:
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
    """Records the outcome of a capture's call. Returns no events if it is recorded already. Never refuses."""
    payment, at = order.payment(command.payment_id), command.at
    intent = payment.intent
    is_open_call = intent is not None and intent.idempotency_key == command.idempotency_key
    match command.outcome:
        case Captured() as outcome:
            is_final = is_open_call and intent is not None and intent.final
            events = _captured(payment, command, outcome, is_open_call=is_open_call)
            ended = _rest_released(order, events, command, outcome, is_final=is_final)
            return with_cancellation_closed(order, [*events, *ended])
        case Refusal(code=code, message=message, retryable=retryable) if is_open_call:
            declined = decline(code)
            refused = CaptureRefused(
                payment_id=payment.payment_id,
                code=declined.code,
                retryable=retryable,
                at=at,
                message=message or declined.message,
                kept=order.terms.capture_method is CaptureMethod.MANUAL,
            )
            retry = _retry(order, payment, at, RETRY_REFUSED) if retryable else []
            return with_cancellation_closed(order, [refused, *retry])
        case Unanswered() as outcome if is_open_call and intent is not None and not intent.unknown:
            return [call_unanswered(payment, ProcessorCall.CAPTURE, outcome, at)]
        case NotSent(until=datetime() as until) if is_open_call:
            return call_postponed(payment, ProcessorCall.CAPTURE, until, at)
        case NotSent() | NotFound() if is_open_call:
            sent = isinstance(command.outcome, NotFound)
            because = AbandonedBecause.NOT_FOUND if sent else AbandonedBecause.NOT_SENT
            abandoned = CallAbandoned(payment_id=payment.payment_id, call=ProcessorCall.CAPTURE, because=because, at=at)
            return with_cancellation_closed(order, [abandoned, *_retry(order, payment, at, RETRY_UNSENT)])
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
        order,
        "The order has no authorised payment to capture.",
        OrderStatus.AUTHORIZED,
        OrderStatus.PARTIALLY_AUTHORIZED,
    )


def _is_capturable(payment: Payment) -> bool:
    if payment.status in UNCAPTURED_STATUSES:
        return True
    further = payment.status is PaymentStatus.PARTIALLY_CAPTURED and payment.capturable > 0 and payment.intent is None
    return further and not payment.refunded and payment.started.method.type is MethodType.CARD


def _require_unpaid(order: Order, payment: Payment, amount: Decimal) -> None:
    """Raises AmountExceedsPending if a further capture of `amount` exceeds the unpaid, unreserved subtotal.

    The first capture releases the rest of its authorisation, so another payment may have paid it since.
    """
    after = split_capture(payment.captured + amount, payment.requested_split, order.quantum)
    further = after.subtotal - payment.captured_split(order.quantum).subtotal
    if further > order.unpaid_subtotal - order.reserved:
        raise AmountExceedsPending(
            "The amount exceeds what is unpaid and not reserved by other payments.",
            amountPending=order.amount_pending,
            amountReserved=order.reserved,
        )


def _retry(order: Order, payment: Payment, at: datetime, delay: timedelta) -> list[OrderEvent]:
    """Returns the event that schedules an automatic capture again. A merchant repeats its own captures itself.

    Returns no event if the authorisation lapses before that: then its expiry ends the payment.
    """
    automatic = order.terms.capture_method is CaptureMethod.AUTOMATIC
    if not automatic or payment.captured or order.cancel_requested:
        return []
    failures = sum(
        entry.action is EntryAction.CAPTURE and entry.status is EntryStatus.FAILED for entry in payment.entries
    )
    due_at = at + min(delay * 2 ** min(failures, _DOUBLINGS_MAX), _RETRY_MAX)
    if payment.lapses_at is not None and due_at >= payment.lapses_at:
        return []
    return [CaptureScheduled(payment_id=payment.payment_id, amount=payment.capture_amount, due_at=due_at, at=at)]


def _captured(
    payment: Payment, command: RecordCaptureOutcome, outcome: Captured, *, is_open_call: bool
) -> list[OrderEvent]:
    """Returns the events that lead, by legal moves, from the payment's state to the captured money."""
    if command.idempotency_key in payment.capture_keys:
        return []
    payment_id, at, amount = payment.payment_id, command.at, shortest(outcome.amount)
    captured = PaymentCaptured(
        payment_id=payment_id, amount=amount, processor_reference=outcome.processor_reference, at=at
    )
    if is_open_call and payment.status is PaymentStatus.CAPTURING:
        return [captured]
    scheduled = CaptureScheduled(payment_id=payment_id, amount=amount, due_at=at, at=at)
    requested = CaptureRequested(
        payment_id=payment_id, amount=amount, idempotency_key=command.idempotency_key, deadline_at=at, at=at
    )
    match payment.status:
        case PaymentStatus.AUTHORIZED | PaymentStatus.PARTIALLY_AUTHORIZED:
            return [scheduled, requested, captured]
        case PaymentStatus.PENDING_CAPTURE:
            return [requested, captured]
        case PaymentStatus.PARTIALLY_CAPTURED if payment.intent is None and payment.hold_ended_at is None:
            return [requested, captured]
        case PaymentStatus.PENDING_CANCELLATION if payment.intent and payment.intent.action is EntryAction.CANCELLATION:
            void_refused = VoidRefused(payment_id=payment_id, code="ALREADY_CAPTURED", at=at)
            return [void_refused, scheduled, requested, captured]
        case _:
            return [
                LateCaptureReported(
                    payment_id=payment_id,
                    amount=amount,
                    authorized=max(payment.authorized, payment.captured + amount),
                    processor_reference=outcome.processor_reference,
                    at=at,
                    idempotency_key=command.idempotency_key,
                )
            ]


def _rest_released(
    order: Order, events: list[OrderEvent], command: RecordCaptureOutcome, outcome: Captured, *, is_final: bool
) -> list[OrderEvent]:
    """Returns the events of a rest that a final capture has released: as reported, else all that is left."""
    if not events:
        return []
    after = fold(evolve, order, events)
    payment = after.payment(command.payment_id)
    amount = payment.capturable if outcome.released is None and is_final else outcome.released
    if not amount:
        return []
    rest = Released(amount=amount, processor_reference=outcome.processor_reference)
    return released(after, payment, rest, ReleasedBecause.FINAL_CAPTURE, command.at)
