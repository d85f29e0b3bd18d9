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
from ledger.domain.orders.evolve.after_capture import refund_ended, with_unsuccessful_refund
from ledger.domain.orders.evolve.history import history_with
from ledger.domain.orders.evolve.payments import Folds, on_payment, with_payment
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
    ProcessorCall.RELEASE: EntryAction.RELEASE,
}
_POSTPONED_REASON: Final = "The payment processor could not be reached; the request is sent again."


def _unanswered(payment: Payment, event: CallUnanswered) -> Payment:
    after = replace(payment, intent=came_back(payment.intent, event))
    return _with_step(after, payment, event, EntryStatus.UNKNOWN, event.reason)


def _postponed(payment: Payment, event: CallPostponed) -> Payment:
    intent = payment.intent
    after = replace(payment, intent=None if intent is None else replace(intent, unsent=True, came_back_at=event.until))
    return _with_step(after, payment, event, EntryStatus.PENDING, _POSTPONED_REASON)


def _repeated(payment: Payment, event: CallRepeated) -> Payment:
    after = replace(payment, intent=None if payment.intent is None else _sent_again(payment.intent, event))
    return _with_step(after, payment, event, EntryStatus.PENDING)


def _abandoned(order: Order, event: CallAbandoned) -> Order:
    payment = order.payment(event.payment_id)
    after = replace(_after_abandoned_call(payment, event), intent=None)
    after = _with_step(after, payment, event, EntryStatus.FAILED, ABANDONED_REASONS[event.because])
    if event.call is ProcessorCall.REFUND:
        order = with_unsuccessful_refund(order, payment, event)
    return with_payment(order, event, payment, after)


def _with_step(
    after: Payment,
    before: Payment,
    event: CallUnanswered | CallPostponed | CallRepeated | CallAbandoned,
    status: EntryStatus,
    reason: str | None = None,
) -> Payment:
    """Returns the payment `after` the event, with the step of the call that was open `before` in this status."""
    action = before.intent.entry if before.intent is not None else _ENTRY_OF[event.call]
    entries = history_with(before, action, status, requested_amount(before), event.at, reason)
    return replace(after, entries=entries, updated_at=event.at)


def came_back(intent: Intent | None, event: CallUnanswered | AuthorizationOutcomeUnknown) -> Intent | None:
    """Returns the open call after it came back without an answer."""
    return None if intent is None else replace(intent, unknown=True, came_back_at=event.came_back_at)


def _sent_again(intent: Intent, event: CallRepeated) -> Intent:
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
        case ProcessorCall.AUTHENTICATION | ProcessorCall.RELEASE:
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


EVOLVE: Final[Folds] = {
    CallUnanswered: on_payment(_unanswered),
    CallPostponed: on_payment(_postponed),
    CallRepeated: on_payment(_repeated),
    CallAbandoned: _abandoned,
}
