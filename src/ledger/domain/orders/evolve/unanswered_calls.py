"""The fold of a call to a processor that got no answer, or that is known to have had no effect.

Never treat unknown as refused: the intent stays open until its outcome is recorded.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Final

from msgspec.structs import replace

from ledger.domain.orders.declines import PROCESSOR_TIMEOUT
from ledger.domain.orders.events import (
    AbandonedBecause,
    AuthorizationOutcomeUnknown,
    CallAbandoned,
    CallPostponed,
    CallRepeated,
    CallUnanswered,
    ProcessorCall,
)
from ledger.domain.orders.evolve.after_capture import evolve_refunds, refund_ended
from ledger.domain.orders.evolve.history import history_with
from ledger.domain.orders.payment import EntryAction, EntryStatus, Failure, Intent, Payment
from ledger.domain.orders.state import Order
from ledger.domain.orders.statuses import PaymentStatus

ABANDONED_REASONS: Final = {
    AbandonedBecause.NOT_SENT: "The payment processor could not be reached; nothing was sent.",
    AbandonedBecause.NOT_FOUND: "The payment processor did not carry out the payment.",
}
_ENTRY_OF: Final = {
    ProcessorCall.AUTHENTICATION: EntryAction.AUTHENTICATION,
    ProcessorCall.CAPTURE: EntryAction.CAPTURE,
    ProcessorCall.VOID: EntryAction.CANCELLATION,
    ProcessorCall.REFUND: EntryAction.REFUND,
    ProcessorCall.REFERENCE: EntryAction.REFERENCE,
}


_POSTPONED_REASON: Final = "The payment processor could not be reached; the request is sent again."


def evolve_unanswered(
    order: Order, payment: Payment, event: CallUnanswered | CallPostponed | CallRepeated | CallAbandoned
) -> Order:
    """Returns the order after a call of this payment that got no answer, is sent again, or was abandoned."""
    action = payment.intent.action if payment.intent is not None else _ENTRY_OF[event.call]
    amount = requested_amount(payment)
    if isinstance(event, CallUnanswered):
        after = replace(
            payment,
            intent=came_back(payment.intent, event),
            entries=history_with(payment, action, EntryStatus.UNKNOWN, amount, event.at, event.reason),
            updated_at=event.at,
        )
    elif isinstance(event, CallPostponed | CallRepeated):
        reason = _POSTPONED_REASON if isinstance(event, CallPostponed) else None
        after = replace(
            payment,
            intent=_sent_again(payment.intent, event),
            entries=history_with(payment, action, EntryStatus.PENDING, amount, event.at, reason),
            updated_at=event.at,
        )
    else:
        entries = history_with(payment, action, EntryStatus.FAILED, amount, event.at, ABANDONED_REASONS[event.because])
        after = replace(_after_abandoned_call(payment, event), intent=None, entries=entries, updated_at=event.at)
        if event.call is ProcessorCall.REFUND:
            order = replace(order, refunds=evolve_refunds(order, payment, event))
    payments = tuple(after if other is payment else other for other in order.payments)
    return replace(order, payments=payments, updated_at=event.at)


def came_back(intent: Intent | None, event: CallUnanswered | AuthorizationOutcomeUnknown) -> Intent | None:
    """Returns the open call after it came back without an answer."""
    return None if intent is None else replace(intent, unknown=True, came_back_at=event.came_back_at)


def _sent_again(intent: Intent | None, event: CallPostponed | CallRepeated) -> Intent | None:
    """Returns the open call after it was postponed, or announced once more."""
    if intent is None:
        return None
    if isinstance(event, CallPostponed):
        return replace(intent, unsent=True, came_back_at=event.until)
    return replace(
        intent,
        unsent=False,
        unknown=False,
        came_back_at=None,
        deadline_at=event.deadline_at,
        tries=intent.tries + 1,
        first_deadline_at=intent.first_deadline_at or intent.deadline_at,
    )


def _after_abandoned_call(payment: Payment, event: CallAbandoned) -> Payment:
    """Returns the payment in the status that it has after an abandoned call. Most calls can be requested again."""
    message = ABANDONED_REASONS[event.because]
    match event.call:
        case ProcessorCall.AUTHENTICATION:
            return payment
        case ProcessorCall.CAPTURE:
            return replace(payment, status=status_without_capture(payment, retryable=True))
        case ProcessorCall.VOID:
            return replace(payment, status=payment.returns_to or payment.status, returns_to=None)
        case ProcessorCall.REFUND:
            return refund_ended(payment)
        case ProcessorCall.REFERENCE:
            if payment.status is not PaymentStatus.CREATED:
                return payment
            failure = Failure(code=PROCESSOR_TIMEOUT, message=message, at=event.at, given_up=event.because)
            return replace(payment, status=PaymentStatus.FAILED, failure=failure)


def status_without_capture(payment: Payment, *, retryable: bool) -> PaymentStatus:
    """Returns the payment's status after a capture that took nothing. Money from earlier captures stays captured."""
    if payment.captured:
        return PaymentStatus.PARTIALLY_CAPTURED
    if not retryable:
        return PaymentStatus.FAILED
    return PaymentStatus.AUTHORIZED  # even if it was authorised in part: the table of moves has this way back only


def requested_amount(payment: Payment) -> Decimal:
    """Returns the amount of the payment's open call, or of the payment if it has none: gross, in minor units."""
    return payment.amount if payment.intent is None else payment.intent.amount
