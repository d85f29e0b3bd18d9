"""The payer's authentication: what the payer does, and what the processor then says (contract N17, N18, N41, N42).

The rule a stranger would break: a 3-D Secure session reserves nothing until the processor is asked to go on, so whether the
part still fits is decided here, before anything can be authorised (section 8.3).
"""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

from ledger.domain.money import ZERO, shortest
from ledger.domain.orders.commands import RecordAuthenticationOutcome, SubmitDeviceData, ValidateAuthentication
from ledger.domain.orders.decide.authorizations import (
    action_required,
    authorized_and_captured,
    late_capture,
    payment_declined,
)
from ledger.domain.orders.decide.closing import with_cancellation_closed
from ledger.domain.orders.decide.guards import wrong_state
from ledger.domain.orders.events import (
    AbandonedBecause,
    AuthenticationRequested,
    CallAbandoned,
    CallUnanswered,
    CaptureScheduled,
    OrderEvent,
    PayerAuthenticated,
    PayerAuthenticationFailed,
    PaymentDeclined,
    ProcessorCall,
)
from ledger.domain.orders.payment import Payment
from ledger.domain.orders.processor_outcomes import ActionRequired, Approved, Declined, NotFound, NotSent, Unanswered
from ledger.domain.orders.state import Order
from ledger.domain.orders.statuses import NextAction, OrderStatus, PaymentStatus
from ledger.domain.orders.terms import CaptureMethod
from ledger.domain.personal_data import without
from ledger.domain.rejections import InvalidField, RequestInProgress

AMOUNT_EXCEEDS_PENDING = "AMOUNT_EXCEEDS_PENDING"
"""Why a part failed that no longer fitted when its payer came back."""

_AUTHENTICATION_FAILED = "AUTHENTICATION_FAILED"


def decide_device_data(order: Order, command: SubmitDeviceData) -> list[OrderEvent]:
    """Go on with the payment that waits for its payer's device data.

    Where the part no longer fits, the payment fails with AMOUNT_EXCEEDS_PENDING. Raises InvalidField on `referenceId`,
    InvalidOrderState, RequestInProgress.
    """
    if any(command.idempotency_key in payment.keys for payment in order.payments):
        return []
    payment = _waiting(order, command, (NextAction.DEVICE_DATA,))
    if payment is None:
        return []
    session = payment.session
    known = None if session is None else session.reference_id
    if command.reference_id is not None and known is not None and command.reference_id != known:
        raise InvalidField("referenceId", "must be that of the payment's session")
    return _go_on(order, payment, command, NextAction.DEVICE_DATA)


def decide_validation(order: Order, command: ValidateAuthentication) -> list[OrderEvent]:
    """Go on with the payment whose payer came back. `is_simulated` leaves the transaction's id to the sandbox.

    Where the part no longer fits, the payment fails with AMOUNT_EXCEEDS_PENDING. Raises InvalidField on
    `authenticationTransactionId`, InvalidOrderState, RequestInProgress.
    """
    if any(command.idempotency_key in payment.keys for payment in order.payments):
        return []
    payment = _waiting(order, command, (NextAction.CHALLENGE, NextAction.REDIRECT))
    if payment is None:
        return []
    assert payment.next_action is not None, "it waits for its payer"
    return _go_on(order, payment, command, payment.next_action)


def decide_authentication_outcome(order: Order, command: RecordAuthenticationOutcome) -> list[OrderEvent]:
    """Record what became of the call after the payer had acted; no events where that is known already."""
    payment, at = order.payment(command.payment_id), command.at
    intent = payment.intent
    asking = intent is not None and intent.idempotency_key == command.idempotency_key
    if not asking or intent is None:
        if not isinstance(command.outcome, Approved):
            return []
        return with_cancellation_closed(order, late_capture(payment, command.outcome, command))
    match command.outcome:
        case Approved() as approval:
            return with_cancellation_closed(order, _authenticated(order, payment, approval, command))
        case Declined(code=code) as refusal if code == _AUTHENTICATION_FAILED:
            failed = PayerAuthenticationFailed(
                payment_id=payment.payment_id, code=code, at=at, message=refusal.message, eci=refusal.eci
            )
            return with_cancellation_closed(order, [failed])
        case Declined() as refusal:
            return with_cancellation_closed(order, [payment_declined(payment, refusal, at)])
        case ActionRequired() as needed:
            return [action_required(payment, needed, command)]
        case Unanswered(reason=reason):
            unknown = CallUnanswered(
                payment_id=payment.payment_id, call=ProcessorCall.AUTHENTICATION, reason=reason, at=at
            )
            return [] if intent.unknown else [unknown]
        case NotSent() | NotFound():
            sent = isinstance(command.outcome, NotFound)
            because = AbandonedBecause.NOT_FOUND if sent else AbandonedBecause.NOT_SENT
            return [
                CallAbandoned(payment_id=payment.payment_id, call=ProcessorCall.AUTHENTICATION, because=because, at=at)
            ]


def _waiting(
    order: Order, command: SubmitDeviceData | ValidateAuthentication, actions: tuple[NextAction, ...]
) -> Payment | None:
    """The newest payment that waits for this, or None where it has just failed because it no longer fitted."""
    named = [p for p in reversed(order.payments) if command.payment_id in {None, p.payment_id}]
    waiting = [p for p in named if p.status is PaymentStatus.REQUIRES_ACTION and p.next_action in actions]
    waiting = [p for p in waiting if p.action_expires_at is None or command.at < p.action_expires_at]
    if isinstance(command, ValidateAuthentication) and not command.is_simulated:
        named = [p for p in named if p.session is not None and p.session.transaction_id == command.transaction_id]
        if waiting and not any(p in named for p in waiting):
            raise InvalidField("authenticationTransactionId", "must be that of the payment's challenge")
        waiting = [p for p in waiting if p in named]
    for payment in waiting:
        if payment.intent is not None:
            raise RequestInProgress("The payment is being authenticated.")
        return payment
    if any(p.failure is not None and p.failure.code == AMOUNT_EXCEEDS_PENDING for p in named):
        return None
    raise wrong_state(
        order,
        "No payment of the order waits for its payer in this way.",
        *(_STATUS[action] for action in actions),
    )


_STATUS = {
    NextAction.DEVICE_DATA: OrderStatus.PAYER_AUTHENTICATION_DEVICE_DATA_REQUIRED,
    NextAction.CHALLENGE: OrderStatus.PAYER_AUTHENTICATION_CHALLENGE_REQUIRED,
    NextAction.REDIRECT: OrderStatus.ACTION_REQUIRED,
}


def _go_on(
    order: Order, payment: Payment, command: SubmitDeviceData | ValidateAuthentication, step: NextAction
) -> list[OrderEvent]:
    if payment.started.subtotal > order.unpaid_subtotal - order.reserved:
        message = "The order was paid otherwise before the payer came back."
        return [
            PaymentDeclined(
                payment_id=payment.payment_id,
                code=AMOUNT_EXCEEDS_PENDING,
                at=command.at,
                message=message,
                idempotency_key=command.idempotency_key,
            )
        ]
    automatic = order.terms.capture_method is CaptureMethod.AUTOMATIC
    session = payment.session
    device = command.device_information if isinstance(command, SubmitDeviceData) else None
    typed = command.transaction_id if isinstance(command, ValidateAuthentication) else None
    requested = AuthenticationRequested(
        payment_id=payment.payment_id,
        step=step,
        processor=payment.processor,
        idempotency_key=command.idempotency_key,
        amount=shortest(payment.amount),
        deadline_at=command.deadline_at,
        at=command.at,
        transaction_id=typed or (None if session is None else session.transaction_id),
        capture=automatic and command.capture_delay_s == 0,
        capture_delay_s=command.capture_delay_s,
        device_information=device,
    )
    return [without(requested, ("device_information",)) if order.payer_forgotten else requested]


def _authenticated(
    order: Order, payment: Payment, approval: Approved, command: RecordAuthenticationOutcome
) -> list[OrderEvent]:
    session, payment_id, at = payment.session, payment.payment_id, command.at
    frictionless = payment.next_action is NextAction.DEVICE_DATA
    authenticated = PayerAuthenticated(
        payment_id=payment_id,
        at=at,
        frictionless=frictionless,
        resumed=frictionless or approval.authorized < payment.amount,
        transaction_id=None if session is None else session.transaction_id,
        three_ds_version=None if session is None else session.three_ds_version,
        eci=approval.eci,
    )
    granted = authorized_and_captured(payment, approval, command)
    automatic = order.terms.capture_method is CaptureMethod.AUTOMATIC
    if approval.captured > 0 or not automatic:
        return [authenticated, *granted]
    due_at = at + timedelta(seconds=payment.capture_delay_s)
    amount: Decimal = shortest(max(approval.authorized, ZERO))
    return [authenticated, *granted, CaptureScheduled(payment_id=payment_id, amount=amount, due_at=due_at, at=at)]
