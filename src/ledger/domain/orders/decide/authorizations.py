"""What follows from a processor's word about an authorisation: the outcome of an intent.

The rule a stranger would break: this refuses nothing. A capture that the processor reports has happened, whatever we
had recorded before, and what is already recorded gives no events.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Final, assert_never

from ledger.domain.money import ZERO, shortest
from ledger.domain.orders.commands import RecordAuthenticationOutcome, RecordAuthorizationOutcome
from ledger.domain.orders.decide.closing import with_cancellation_closed
from ledger.domain.orders.declines import decline
from ledger.domain.orders.events import (
    AbandonedBecause,
    AuthorizationAbandoned,
    AuthorizationOutcomeUnknown,
    CancelledBecause,
    CaptureRequested,
    CaptureScheduled,
    LateCaptureReported,
    OrderEvent,
    PayerActionRequired,
    PayerAuthenticated,
    PaymentAuthorized,
    PaymentCancelled,
    PaymentCaptured,
    PaymentDeclined,
)
from ledger.domain.orders.payment import EntryAction, Payment
from ledger.domain.orders.processor_outcomes import ActionRequired, Approved, Declined, NotFound, NotSent, Unanswered
from ledger.domain.orders.state import Order
from ledger.domain.orders.statuses import NextAction, PaymentStatus
from ledger.domain.orders.terms import AuthenticationSession

_NOT_YET_GRANTED: Final = frozenset({PaymentStatus.REQUIRES_ACTION, PaymentStatus.PENDING_CANCELLATION})
_GRANTED: Final = frozenset({PaymentStatus.AUTHORIZED, PaymentStatus.PARTIALLY_AUTHORIZED})
_CAPTURING: Final = frozenset({PaymentStatus.CAPTURING, PaymentStatus.PARTIALLY_CAPTURED})

_Settle = RecordAuthorizationOutcome | RecordAuthenticationOutcome


def decide_authorization_outcome(order: Order, command: RecordAuthorizationOutcome) -> list[OrderEvent]:
    """Record what became of an authorisation; no events where that is known already.

    The first final word about a payment stands, with one exception: money that was taken is always recorded.
    """
    payment, at = order.payment(command.payment_id), command.at
    outcome = command.outcome
    if isinstance(outcome, Approved):
        return with_cancellation_closed(order, _approved(payment, outcome, command))
    if not _is_being_asked(payment):
        return []
    if payment.status is PaymentStatus.PENDING_CANCELLATION and not isinstance(outcome, Unanswered):
        because = CancelledBecause.NEVER_AUTHORIZED
        return with_cancellation_closed(
            order, [PaymentCancelled(payment_id=payment.payment_id, because=because, at=at)]
        )
    return _not_approved(payment, outcome, command)


def _is_being_asked(payment: Payment) -> bool:
    return payment.intent is not None and payment.intent.action is EntryAction.AUTHORIZATION


def _not_approved(
    payment: Payment,
    outcome: Declined | ActionRequired | Unanswered | NotSent | NotFound,
    command: RecordAuthorizationOutcome,
) -> list[OrderEvent]:
    at = command.at
    match outcome:
        case Declined() as refusal:
            return [payment_declined(payment, refusal, at)]
        case ActionRequired() as needed:
            return [action_required(payment, needed, command)]
        case Unanswered(reason=reason):
            return [] if _is_known_to_be_unknown(payment) else [_unknown(payment, reason, at)]
        case NotSent():
            return [_abandoned(payment, AbandonedBecause.NOT_SENT, at)]
        case NotFound():
            return [_abandoned(payment, AbandonedBecause.NOT_FOUND, at)]
        case _:
            assert_never(outcome)


def action_required(payment: Payment, needed: ActionRequired, command: _Settle) -> PayerActionRequired:
    """The payment waits for its payer, for the length of a session."""
    return PayerActionRequired(
        payment_id=payment.payment_id,
        action=_next_action(payment, needed),
        expires_at=command.at + timedelta(seconds=command.session_s),
        at=command.at,
        session=AuthenticationSession(
            transaction_id=needed.authentication_transaction_id,
            reference_id=needed.reference_id,
            device_data_collection_url=needed.device_data_collection_url,
            access_token=needed.access_token,
            step_up_url=needed.step_up_url,
            three_ds_version=needed.three_ds_version,
        ),
    )


def _next_action(payment: Payment, needed: ActionRequired) -> NextAction:
    """What the payer has to do. Device data leads to a challenge, in a frame or behind a redirect, and never back (2.1)."""
    now = payment.next_action
    if now is None or now is needed.next_action:
        return needed.next_action
    return NextAction.CHALLENGE if now is NextAction.DEVICE_DATA else now


def _approved(payment: Payment, approval: Approved, command: _Settle) -> list[OrderEvent]:
    """The events that lead from where the payment stands to what the processor granted and took, by legal moves."""
    at = command.at
    authorized = shortest(max(approval.authorized, approval.captured))
    assert authorized > 0, "a gateway reports an approval of nothing as something else"
    taken = shortest(approval.captured - payment.captured)
    status = payment.status
    if _is_being_asked(payment) or (status in _NOT_YET_GRANTED and taken > 0):
        resumed: list[OrderEvent] = []
        if status is PaymentStatus.REQUIRES_ACTION and authorized < payment.amount:
            resumed = [PayerAuthenticated(payment_id=payment.payment_id, at=at, resumed=True, eci=approval.eci)]
        return [*resumed, _granted(payment, approval, authorized, command), *_capture(payment, approval, taken, at)]
    if taken <= 0:
        return []
    if status in _GRANTED:
        return _capture(payment, approval, taken, at)
    if status is PaymentStatus.PENDING_CAPTURE:
        return _capture(payment, approval, taken, at)[1:]
    if status in _CAPTURING and (payment.intent is None or payment.intent.idempotency_key == _key(payment)):
        return _capture(payment, approval, taken, at)[2:]
    return [
        LateCaptureReported(
            payment_id=payment.payment_id,
            amount=taken,
            authorized=authorized,
            processor_reference=approval.processor_reference,
            at=at,
        )
    ]


def late_capture(payment: Payment, approval: Approved, command: _Settle) -> list[OrderEvent]:
    """What an approval says that comes after its call was given up: only money that was taken counts."""
    return _approved(payment, approval, command) if approval.captured > payment.captured else []


def authorized_and_captured(payment: Payment, approval: Approved, command: _Settle) -> list[OrderEvent]:
    """The authorisation that an approval grants, and the capture that happened with it."""
    authorized = shortest(max(approval.authorized, approval.captured))
    taken = shortest(approval.captured)
    return [_granted(payment, approval, authorized, command), *_capture(payment, approval, taken, command.at)]


def _key(payment: Payment) -> str | None:
    return None if payment.requested is None else payment.requested.idempotency_key


def _granted(payment: Payment, approval: Approved, amount: Decimal, command: _Settle) -> PaymentAuthorized:
    return PaymentAuthorized(
        payment_id=payment.payment_id,
        amount=amount,
        processor_reference=approval.processor_reference,
        at=command.at,
        authorization_code=approval.authorization_code,
        validity_s=command.authorization_s,
    )


def _capture(payment: Payment, approval: Approved, amount: Decimal, at: datetime) -> list[OrderEvent]:
    """The three steps of a capture that happened in the authorisation's own call, under its idempotency key."""
    if amount == ZERO:
        return []
    requested = payment.requested
    assert requested is not None, "an authorisation was asked for"
    return [
        CaptureScheduled(payment_id=payment.payment_id, amount=amount, due_at=at, at=at),
        CaptureRequested(
            payment_id=payment.payment_id,
            amount=amount,
            idempotency_key=requested.idempotency_key,
            deadline_at=requested.deadline_at,
            at=at,
        ),
        PaymentCaptured(
            payment_id=payment.payment_id,
            amount=amount,
            processor_reference=approval.processor_reference,
            at=at,
        ),
    ]


def payment_declined(payment: Payment, refusal: Declined, at: datetime) -> PaymentDeclined:
    """The payment was refused, under a code of the contract."""
    known = decline(refusal.code)
    return PaymentDeclined(
        payment_id=payment.payment_id,
        code=known.code,
        at=at,
        message=refusal.message or known.message,
        refused_by=refusal.refused_by,
    )


def _is_known_to_be_unknown(payment: Payment) -> bool:
    return payment.intent is not None and payment.intent.unknown


def _unknown(payment: Payment, reason: str, at: datetime) -> AuthorizationOutcomeUnknown:
    return AuthorizationOutcomeUnknown(payment_id=payment.payment_id, reason=reason, at=at)


def _abandoned(payment: Payment, because: AbandonedBecause, at: datetime) -> AuthorizationAbandoned:
    return AuthorizationAbandoned(payment_id=payment.payment_id, because=because, at=at)
