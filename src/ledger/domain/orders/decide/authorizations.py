"""The decider of an authorisation's outcome, and the events that an approval leads to.

Never refuse an outcome. A capture that the processor reports has happened, whatever the ledger recorded before. An
outcome that is recorded already gives no events.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Final, assert_never

from ledger.domain.money import ZERO, shortest
from ledger.domain.orders.commands import RecordAuthenticationOutcome, RecordAuthorizationOutcome, RecordSessionEnd
from ledger.domain.orders.decide.closing import with_cancellation_closed
from ledger.domain.orders.declines import decline
from ledger.domain.orders.events import (
    AbandonedBecause,
    AuthorizationAbandoned,
    AuthorizationOutcomeUnknown,
    CancelledBecause,
    CaptureRequested,
    CaptureScheduled,
    LateAuthorizationReported,
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

_AUTHORIZABLE: Final = frozenset({PaymentStatus.REQUIRES_ACTION, PaymentStatus.PENDING_CANCELLATION})
_ENDED: Final = frozenset({PaymentStatus.FAILED, PaymentStatus.EXPIRED, PaymentStatus.CANCELLED})
_AUTHORIZED: Final = frozenset({PaymentStatus.AUTHORIZED, PaymentStatus.PARTIALLY_AUTHORIZED})
_CAPTURING: Final = frozenset({PaymentStatus.CAPTURING, PaymentStatus.PARTIALLY_CAPTURED})

_RecordOutcome = RecordAuthorizationOutcome | RecordAuthenticationOutcome | RecordSessionEnd


def decide_authorization_outcome(order: Order, command: RecordAuthorizationOutcome) -> list[OrderEvent]:
    """Records the outcome of an authorisation. Returns no events if it is recorded already. Never refuses.

    The first final outcome of a payment counts, with one exception: captured money is always recorded. A payment whose
    cancellation is pending is cancelled if the processor did not authorise it.
    """
    payment, at = order.payment(command.payment_id), command.at
    outcome = command.outcome
    if isinstance(outcome, Approved):
        return with_cancellation_closed(order, _approved(payment, outcome, command))
    if not _is_authorizing(payment):
        return []
    if payment.status is PaymentStatus.PENDING_CANCELLATION and not isinstance(outcome, Unanswered):
        because = CancelledBecause.NEVER_AUTHORIZED
        return with_cancellation_closed(
            order, [PaymentCancelled(payment_id=payment.payment_id, because=because, at=at)]
        )
    return _not_approved(payment, outcome, command)


def _is_authorizing(payment: Payment) -> bool:
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
        case ActionRequired() as required:
            return [action_required(payment, required, command)]
        case Unanswered():
            return [] if _is_marked_unknown(payment) else [_unknown(payment, outcome, at)]
        case NotSent():
            return [_abandoned(payment, AbandonedBecause.NOT_SENT, at)]
        case NotFound():
            return [_abandoned(payment, AbandonedBecause.NOT_FOUND, at)]
        case _:
            assert_never(outcome)


def action_required(
    payment: Payment, required: ActionRequired, command: RecordAuthorizationOutcome | RecordAuthenticationOutcome
) -> PayerActionRequired:
    """Returns the event by which the payment waits for its payer until the session expires.

    A session that ends by a call keeps its end: asking the processor about it gives the payer no more time.
    """
    expires_at = command.at + timedelta(seconds=command.session_s)
    if payment.ends_by_call and payment.action_expires_at is not None:
        expires_at = payment.action_expires_at
    return PayerActionRequired(
        payment_id=payment.payment_id,
        action=_next_action(payment, required),
        expires_at=expires_at,
        at=command.at,
        session=AuthenticationSession(
            transaction_id=required.authentication_transaction_id,
            reference_id=required.reference_id,
            device_data_collection_url=required.device_data_collection_url,
            access_token=required.access_token,
            step_up_url=required.step_up_url,
            three_ds_version=required.three_ds_version,
        ),
        processor_reference=required.processor_reference,
    )


def _next_action(payment: Payment, required: ActionRequired) -> NextAction:
    """Returns the payer's next step. Device data leads to a challenge, framed or by redirect, and never back (2.1)."""
    current = payment.next_action
    if current is None or current is required.next_action:
        return required.next_action
    return NextAction.CHALLENGE if current is NextAction.DEVICE_DATA else current


def _approved(payment: Payment, approval: Approved, command: _RecordOutcome) -> list[OrderEvent]:
    """Returns the events that lead, by legal moves, from the payment's state to what the processor approved."""
    at = command.at
    authorized = shortest(max(approval.authorized, approval.captured))
    assert authorized > 0, "a processor's adapter never reports an approval of zero"
    captured = shortest(approval.captured - payment.captured)
    status = payment.status
    if _is_authorizing(payment) or (status in _AUTHORIZABLE and captured > 0):
        resumed: list[OrderEvent] = []
        if status is PaymentStatus.REQUIRES_ACTION and authorized < payment.amount:
            resumed = [PayerAuthenticated(payment_id=payment.payment_id, at=at, resumed=True, eci=approval.eci)]
        authorization = _authorized(payment, approval, authorized, command)
        capture = _sale(payment, approval, authorized, captured, at) or _capture_due(payment, authorized, at)
        return [*resumed, authorization, *capture]
    if captured <= 0:
        return _late_authorization(payment, approval, authorized, at)
    if status in _AUTHORIZED:
        return _capture_events(payment, approval, captured, at)
    if status is PaymentStatus.PENDING_CAPTURE:
        return _capture_events(payment, approval, captured, at)[1:]
    if status in _CAPTURING and (payment.intent is None or payment.intent.idempotency_key == _key(payment)):
        return _capture_events(payment, approval, captured, at)[2:]
    return [
        LateCaptureReported(
            payment_id=payment.payment_id,
            amount=captured,
            authorized=authorized,
            processor_reference=approval.processor_reference,
            at=at,
        )
    ]


def _late_authorization(payment: Payment, approval: Approved, amount: Decimal, at: datetime) -> list[OrderEvent]:
    """Returns the event of an approval after the payment had ended, once; none if its authorisation is recorded."""
    if payment.status not in _ENDED or payment.processor_reference is not None:
        return []
    return [
        LateAuthorizationReported(
            payment_id=payment.payment_id,
            amount=amount,
            processor_reference=approval.processor_reference,
            at=at,
        )
    ]


def late_capture(payment: Payment, approval: Approved, command: _RecordOutcome) -> list[OrderEvent]:
    """Returns the events of an approval that arrives after its call was abandoned: only captured money counts."""
    return _approved(payment, approval, command) if approval.captured > payment.captured else []


def authorized_and_captured(payment: Payment, approval: Approved, command: _RecordOutcome) -> list[OrderEvent]:
    """Returns the events of the authorisation that an approval grants, and of the capture in the same call."""
    authorized = shortest(max(approval.authorized, approval.captured))
    captured = shortest(approval.captured)
    authorization = _authorized(payment, approval, authorized, command)
    return [authorization, *_sale(payment, approval, authorized, captured, command.at)]


def _key(payment: Payment) -> str | None:
    return None if payment.requested is None else payment.requested.idempotency_key


def _authorized(payment: Payment, approval: Approved, amount: Decimal, command: _RecordOutcome) -> PaymentAuthorized:
    return PaymentAuthorized(
        payment_id=payment.payment_id,
        amount=amount,
        processor_reference=approval.processor_reference,
        at=command.at,
        authorization_code=approval.authorization_code,
        validity_s=command.authorization_s,
        network_transaction_id=approval.network_transaction_id,
    )


def _capture_due(payment: Payment, amount: Decimal, at: datetime) -> list[OrderEvent]:
    """Returns the event that schedules a capture that was requested with the authorisation and not made with the
    approval.

    Returns no event if the payment is being cancelled.
    """
    requested = payment.requested
    if requested is None or not requested.capture or payment.status is not PaymentStatus.PENDING_AUTHORIZATION:
        return []
    return [CaptureScheduled(payment_id=payment.payment_id, amount=amount, due_at=at, at=at)]


def _sale(
    payment: Payment, approval: Approved, authorized: Decimal, captured: Decimal, at: datetime
) -> list[OrderEvent]:
    """Returns the events of a capture in the call that authorised the payment; none for a capture of zero.

    All that was authorised is captured by one event (decision 0034); a part of it by the steps of a later capture.
    """
    if captured == authorized:
        return [_captured(payment, approval, captured, at)]
    return _capture_events(payment, approval, captured, at)


def _capture_events(payment: Payment, approval: Approved, amount: Decimal, at: datetime) -> list[OrderEvent]:
    """Returns the three steps of a capture by the authorisation's own call, under that call's idempotency key.

    They are scheduled, requested and captured. Returns an empty list for an amount of zero.
    """
    if amount == ZERO:
        return []
    requested = payment.requested
    assert requested is not None, "an authorisation was requested"
    return [
        CaptureScheduled(payment_id=payment.payment_id, amount=amount, due_at=at, at=at),
        CaptureRequested(
            payment_id=payment.payment_id,
            amount=amount,
            idempotency_key=requested.idempotency_key,
            deadline_at=requested.deadline_at,
            at=at,
        ),
        _captured(payment, approval, amount, at),
    ]


def _captured(payment: Payment, approval: Approved, amount: Decimal, at: datetime) -> PaymentCaptured:
    return PaymentCaptured(
        payment_id=payment.payment_id, amount=amount, processor_reference=approval.processor_reference, at=at
    )


def payment_declined(payment: Payment, refusal: Declined, at: datetime) -> PaymentDeclined:
    """Returns the event of a declined payment, with a decline code of the contract (5.1)."""
    declined = decline(refusal.code)
    return PaymentDeclined(
        payment_id=payment.payment_id,
        code=declined.code,
        at=at,
        message=refusal.message or declined.message,
        refused_by=refusal.refused_by,
        network_advice=refusal.network_advice,
        available_installments=refusal.available_installments,
        processor_reference=refusal.processor_reference,
    )


def _is_marked_unknown(payment: Payment) -> bool:
    return payment.intent is not None and payment.intent.unknown


def _unknown(payment: Payment, outcome: Unanswered, at: datetime) -> AuthorizationOutcomeUnknown:
    return AuthorizationOutcomeUnknown(
        payment_id=payment.payment_id, reason=outcome.reason, at=at, came_back_at=outcome.came_back_at
    )


def _abandoned(payment: Payment, because: AbandonedBecause, at: datetime) -> AuthorizationAbandoned:
    return AuthorizationAbandoned(payment_id=payment.payment_id, because=because, at=at)
