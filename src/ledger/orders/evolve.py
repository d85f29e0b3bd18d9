"""The fold of a payment order: what is true after one more event.

The rule a stranger would break: nothing here says no, and no rule of the business is read. A stream that was written
under yesterday's rules must load for ever.
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Final, assert_never

from msgspec.structs import replace

from ledger.orders.declines import PROCESSOR_TIMEOUT
from ledger.orders.events import (
    PERSONAL,
    AbandonedBecause,
    AuthorizationAbandoned,
    AuthorizationOutcomeUnknown,
    AuthorizationRequested,
    CaptureRequested,
    CaptureScheduled,
    LateCaptureReported,
    OrderCreated,
    OrderEvent,
    PayerForgotten,
    PaymentAuthorized,
    PaymentCaptured,
    PaymentDeclined,
    PaymentStarted,
)
from ledger.orders.state import Entry, EntryAction, EntryStatus, Failure, Intent, Order, Payment, PaymentStatus
from ledger.personal import without

_PaymentStep = (
    AuthorizationRequested
    | PaymentAuthorized
    | CaptureScheduled
    | CaptureRequested
    | PaymentCaptured
    | PaymentDeclined
    | AuthorizationOutcomeUnknown
    | AuthorizationAbandoned
    | LateCaptureReported
)

_GIVEN_UP: Final = {
    AbandonedBecause.NOT_SENT: "The payment processor could not be reached; nothing was sent.",
    AbandonedBecause.NOT_FOUND: "The payment processor did not carry out the payment.",
}
_REVIVED_BY_MONEY: Final = frozenset({PaymentStatus.EXPIRED, PaymentStatus.CANCELLED})
_UNSETTLED: Final = frozenset({EntryStatus.PENDING, EntryStatus.UNKNOWN})


def evolve(order: Order | None, event: OrderEvent) -> Order:
    """The order after `event`. None is an order that does not exist yet; `OrderCreated` is what follows it."""
    if isinstance(event, OrderCreated):
        return Order(terms=event, updated_at=event.at)
    assert order is not None, "a stream begins with its creation"
    if isinstance(event, PaymentStarted):
        return replace(order, payments=(*order.payments, _opened(event)), updated_at=event.at)
    if isinstance(event, PayerForgotten):
        return _forgotten(order, event)
    before = order.payment(event.payment_id)
    after = _evolve_payment(order, before, event)
    payments = tuple(after if payment is before else payment for payment in order.payments)
    # Money that comes in after all takes a closing back (section 8.1).
    closed = order.closed and after.captured == before.captured
    return replace(order, payments=payments, updated_at=event.at, closed=closed)


def _forgotten(order: Order, event: PayerForgotten) -> Order:
    payments = tuple(
        replace(payment, started=without(payment.started, PERSONAL[PaymentStarted])) for payment in order.payments
    )
    terms = without(order.terms, PERSONAL[OrderCreated])
    return replace(order, terms=terms, payments=payments, payer_forgotten=True, updated_at=event.at)


def _opened(event: PaymentStarted) -> Payment:
    amount = event.subtotal + event.surcharge
    entry = Entry(EntryAction.CREATION, EntryStatus.SUCCESS, amount, event.at)
    return Payment(started=event, status=PaymentStatus.CREATED, updated_at=event.at, entries=(entry,))


def _evolve_payment(order: Order, payment: Payment, event: _PaymentStep) -> Payment:
    match event:
        case AuthorizationRequested():
            return _asked(payment, event)
        case PaymentAuthorized():
            return _granted(payment, event)
        case CaptureScheduled():
            entries = _entered(payment, EntryAction.CAPTURE, EntryStatus.PENDING, event.amount, event.at)
            return replace(payment, status=PaymentStatus.PENDING_CAPTURE, entries=entries, updated_at=event.at)
        case CaptureRequested():
            return _being_captured(payment, event)
        case PaymentCaptured():
            return _captured(order, payment, event)
        case PaymentDeclined():
            failure = Failure(code=event.code, message=event.message, at=event.at, refused_by=event.refused_by)
            return _failed(payment, failure)
        case AuthorizationOutcomeUnknown():
            return _unanswered(payment, event)
        case AuthorizationAbandoned():
            message = _GIVEN_UP[event.because]
            failure = Failure(code=PROCESSOR_TIMEOUT, message=message, at=event.at, given_up=event.because)
            return _failed(payment, failure)
        case LateCaptureReported():
            return _captured_late(order, payment, event)
        case _:
            assert_never(event)


def _asked(payment: Payment, event: AuthorizationRequested) -> Payment:
    intent = Intent(
        processor=event.processor,
        idempotency_key=event.idempotency_key,
        amount=event.amount,
        capture=event.capture,
        deadline_at=event.deadline_at,
    )
    return replace(
        payment,
        status=PaymentStatus.PENDING_AUTHORIZATION,
        requested=event,
        intent=intent,
        entries=_entered(payment, EntryAction.AUTHORIZATION, EntryStatus.PENDING, event.amount, event.at),
        updated_at=event.at,
    )


def _granted(payment: Payment, event: PaymentAuthorized) -> Payment:
    in_full = event.amount >= payment.amount
    return replace(
        payment,
        status=PaymentStatus.AUTHORIZED if in_full else PaymentStatus.PARTIALLY_AUTHORIZED,
        authorized=event.amount,
        processor_reference=event.processor_reference,
        authorization_code=event.authorization_code,
        intent=None,
        entries=_entered(payment, EntryAction.AUTHORIZATION, EntryStatus.SUCCESS, event.amount, event.at),
        updated_at=event.at,
    )


def _being_captured(payment: Payment, event: CaptureRequested) -> Payment:
    intent = Intent(
        action=EntryAction.CAPTURE,
        processor=payment.requested.processor if payment.requested is not None else "",
        idempotency_key=event.idempotency_key,
        amount=event.amount,
        capture=True,
        deadline_at=event.deadline_at,
    )
    return replace(
        payment,
        status=PaymentStatus.CAPTURING,
        intent=intent,
        entries=_entered(payment, EntryAction.CAPTURE, EntryStatus.PENDING, event.amount, event.at),
        updated_at=event.at,
    )


def _captured(order: Order, payment: Payment, event: PaymentCaptured) -> Payment:
    captured = payment.captured + event.amount
    in_full = captured >= payment.amount
    return replace(
        payment,
        status=PaymentStatus.CAPTURED if in_full else PaymentStatus.PARTIALLY_CAPTURED,
        authorized=max(payment.authorized, captured),  # what was taken had been granted
        captured=captured,
        capture_ordinal=_ordinal(order, payment),
        processor_reference=event.processor_reference,
        intent=None,
        entries=_entered(payment, EntryAction.CAPTURE, EntryStatus.SUCCESS, event.amount, event.at),
        updated_at=event.at,
    )


def _captured_late(order: Order, payment: Payment, event: LateCaptureReported) -> Payment:
    captured = payment.captured + event.amount
    entry = Entry(EntryAction.CAPTURE, EntryStatus.SUCCESS, event.amount, event.at, "Reported late by the processor.")
    return replace(
        payment,
        status=PaymentStatus.CAPTURED if payment.status in _REVIVED_BY_MONEY else payment.status,
        authorized=max(event.authorized, captured),
        captured=captured,
        capture_ordinal=_ordinal(order, payment),
        processor_reference=event.processor_reference,
        entries=(*payment.entries, entry),
        updated_at=event.at,
    )


def _failed(payment: Payment, failure: Failure) -> Payment:
    reason = failure.message or failure.code
    return replace(
        payment,
        status=PaymentStatus.FAILED,
        failure=failure,
        intent=None,
        entries=_entered(payment, EntryAction.AUTHORIZATION, EntryStatus.FAILED, payment.amount, failure.at, reason),
        updated_at=failure.at,
    )


def _unanswered(payment: Payment, event: AuthorizationOutcomeUnknown) -> Payment:
    return replace(
        payment,
        intent=None if payment.intent is None else replace(payment.intent, unknown=True),
        entries=_entered(
            payment, EntryAction.AUTHORIZATION, EntryStatus.UNKNOWN, payment.amount, event.at, event.reason
        ),
        updated_at=event.at,
    )


def _ordinal(order: Order, payment: Payment) -> int:
    """The place of a payment among those that brought money, by the order in which they did."""
    return payment.capture_ordinal or 1 + max((other.capture_ordinal for other in order.payments), default=0)


def _entered(
    payment: Payment, action: EntryAction, status: EntryStatus, amount: Decimal, at: datetime, reason: str | None = None
) -> tuple[Entry, ...]:
    """The payment's entries with this step begun, or settled in its place: an entry keeps its id and its beginning."""
    entries = payment.entries
    for place in range(len(entries) - 1, -1, -1):
        entry = entries[place]
        if entry.action is action and entry.status in _UNSETTLED:
            return (*entries[:place], Entry(action, status, amount, entry.at, reason), *entries[place + 1 :])
    return (*entries, Entry(action, status, amount, at, reason))
