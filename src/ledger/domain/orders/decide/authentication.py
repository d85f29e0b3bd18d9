"""The deciders of payer authentication: the payer's steps and the processor's answers (contract N17, N18, N41, N42).

A 3-D Secure session reserves nothing until the processor is asked to authorise (section 8.3). Check here, before that
call, that the order's subtotal is still unpaid and unreserved.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal

from ledger.domain.money import ZERO, shortest
from ledger.domain.orders.commands import (
    RecordAuthenticationOutcome,
    RecordSessionEnd,
    SubmitDeviceData,
    ValidateAuthentication,
)
from ledger.domain.orders.decide.authorizations import (
    action_required,
    authorized_and_captured,
    late_capture,
    payment_declined,
)
from ledger.domain.orders.decide.closing import with_cancellation_closed
from ledger.domain.orders.decide.guards import wrong_state
from ledger.domain.orders.decide.sessions import session_end_requested
from ledger.domain.orders.decide.unanswered_calls import call_unanswered
from ledger.domain.orders.events import (
    AbandonedBecause,
    AuthenticationRequested,
    CallAbandoned,
    CaptureScheduled,
    OrderEvent,
    PayerAuthenticated,
    PayerAuthenticationFailed,
    PaymentDeclined,
    ProcessorCall,
    SessionEnd,
)
from ledger.domain.orders.payment import Payment
from ledger.domain.orders.processor_outcomes import ActionRequired, Approved, Declined, NotFound, NotSent, Unanswered
from ledger.domain.orders.state import Order
from ledger.domain.orders.statuses import NextAction, OrderStatus, PaymentStatus
from ledger.domain.orders.terms import CaptureMethod
from ledger.domain.rejections import InvalidField, RequestInProgress
from ledger.personal_data import without

AMOUNT_EXCEEDS_PENDING = "AMOUNT_EXCEEDS_PENDING"
"""The failure code of a payment whose part of the order was paid otherwise before its payer came back."""

PAID_OTHERWISE = "Other payments covered the order before the payer was authenticated."

_AUTHENTICATION_FAILED = "AUTHENTICATION_FAILED"


def decide_device_data(order: Order, command: SubmitDeviceData) -> list[OrderEvent]:
    """Continues the payment that waits for its payer's device data (contract N18). Absorbs the same key.

    The payment fails with AMOUNT_EXCEEDS_PENDING if its part of the order was paid otherwise meanwhile. Raises
    InvalidField for `referenceId`, InvalidOrderState, RequestInProgress.
    """
    if any(command.idempotency_key in payment.keys for payment in order.payments):
        return []
    payment = _payment_awaiting_payer(order, command, (NextAction.DEVICE_DATA,))
    if payment is None:
        return []
    session = payment.session
    expected = None if session is None else session.reference_id
    if command.reference_id is not None and expected is not None and command.reference_id != expected:
        raise InvalidField("referenceId", "must be the reference id of the payment's session")
    return _continue_authentication(order, payment, command, NextAction.DEVICE_DATA)


def decide_validation(order: Order, command: ValidateAuthentication) -> list[OrderEvent]:
    """Continues the payment whose payer came back from a challenge or redirect (contract N42). Absorbs the same key.

    The payment fails with AMOUNT_EXCEEDS_PENDING if its part of the order was paid otherwise meanwhile. Raises
    InvalidField for `authenticationTransactionId`, InvalidOrderState, RequestInProgress.
    """
    if any(command.idempotency_key in payment.keys for payment in order.payments):
        return []
    payment = _payment_awaiting_payer(order, command, (NextAction.CHALLENGE, NextAction.REDIRECT))
    if payment is None:
        return []
    assert payment.next_action is not None, "the payment waits for its payer"
    return _continue_authentication(order, payment, command, payment.next_action)


def decide_authentication_outcome(order: Order, command: RecordAuthenticationOutcome) -> list[OrderEvent]:
    """Records the outcome of the call that followed the payer's action. Returns no events if it is recorded already.

    Never refuses. After another outcome of the same call, only money that was captured is recorded.
    """
    payment, at = order.payment(command.payment_id), command.at
    intent = payment.intent
    is_open_call = intent is not None and intent.idempotency_key == command.idempotency_key
    if not is_open_call or intent is None:
        if not isinstance(command.outcome, Approved):
            return []
        return with_cancellation_closed(order, late_capture(payment, command.outcome, command))
    match command.outcome:
        case Approved() as approval:
            return with_cancellation_closed(order, _approved(order, payment, approval, command))
        case Declined() as refusal:
            return with_cancellation_closed(order, [authentication_declined(payment, refusal, at)])
        case ActionRequired() as required:
            return [action_required(payment, required, command)]
        case Unanswered() as outcome:
            return [] if intent.unknown else [call_unanswered(payment, ProcessorCall.AUTHENTICATION, outcome, at)]
        case NotSent() | NotFound():
            sent = isinstance(command.outcome, NotFound)
            because = AbandonedBecause.NOT_FOUND if sent else AbandonedBecause.NOT_SENT
            return [
                CallAbandoned(payment_id=payment.payment_id, call=ProcessorCall.AUTHENTICATION, because=because, at=at)
            ]


def _payment_awaiting_payer(
    order: Order, command: SubmitDeviceData | ValidateAuthentication, actions: tuple[NextAction, ...]
) -> Payment | None:
    """Returns the newest payment that waits for one of `actions`.

    Returns None if it failed with AMOUNT_EXCEEDS_PENDING, or if it is known what its payer has done. A session
    that ends by a call is continued until that call: the payer may have paid in time.
    """
    named = [p for p in reversed(order.payments) if command.payment_id in {None, p.payment_id}]
    pending = [p for p in named if p.status is PaymentStatus.REQUIRES_ACTION and p.next_action in actions]
    pending = [p for p in pending if p.ends_by_call or p.action_expires_at is None or command.at < p.action_expires_at]
    if isinstance(command, ValidateAuthentication):
        named = [p for p in named if p.account in command.simulated or _has_session(p, command.transaction_id)]
        if pending and not any(p in named for p in pending):
            raise InvalidField("authenticationTransactionId", "must be the transaction id of the payment's challenge")
        pending = [p for p in pending if p in named]
    for payment in pending:
        if payment.intent is not None:
            raise RequestInProgress(
                "Another request is authenticating the payment: read the order until the payment has an outcome."
            )
        return payment
    if any(p.failure is not None and p.failure.code == AMOUNT_EXCEEDS_PENDING for p in named):
        return None
    if isinstance(command, ValidateAuthentication) and any(_was_continued(p) for p in named):
        return None
    raise wrong_state(
        order,
        "No payment of the order waits for this step of its payer: read nextAction of its payments.",
        *(_STATUS_BY_ACTION[action] for action in actions),
    )


def _was_continued(payment: Payment) -> bool:
    """Returns whether it is recorded what the payer's own action has come to: an authorisation, or a failure."""
    return payment.session_reference is not None and (payment.authorized > 0 or payment.failure is not None)


def _has_session(payment: Payment, transaction_id: str) -> bool:
    return payment.session is not None and payment.session.transaction_id == transaction_id


_STATUS_BY_ACTION = {
    NextAction.DEVICE_DATA: OrderStatus.PAYER_AUTHENTICATION_DEVICE_DATA_REQUIRED,
    NextAction.CHALLENGE: OrderStatus.PAYER_AUTHENTICATION_CHALLENGE_REQUIRED,
    NextAction.REDIRECT: OrderStatus.ACTION_REQUIRED,
}


def _continue_authentication(
    order: Order, payment: Payment, command: SubmitDeviceData | ValidateAuthentication, step: NextAction
) -> list[OrderEvent]:
    if payment.started.subtotal > order.unpaid_subtotal - order.reserved:
        if payment.ends_by_call:  # the payer may have paid there already
            key, deadline_at = command.idempotency_key, command.deadline_at
            return [session_end_requested(payment, SessionEnd.REPLACED, key, deadline_at, command.at)]
        return [
            PaymentDeclined(
                payment_id=payment.payment_id,
                code=AMOUNT_EXCEEDS_PENDING,
                at=command.at,
                message=PAID_OTHERWISE,
                idempotency_key=command.idempotency_key,
            )
        ]
    automatic = order.terms.capture_method is CaptureMethod.AUTOMATIC
    session = payment.session
    device = command.device_information if isinstance(command, SubmitDeviceData) else None
    submitted = command.transaction_id if isinstance(command, ValidateAuthentication) else None
    requested = AuthenticationRequested(
        payment_id=payment.payment_id,
        step=step,
        processor=payment.processor,
        account=payment.account_in_event,
        idempotency_key=command.idempotency_key,
        amount=shortest(payment.amount),
        deadline_at=command.deadline_at,
        at=command.at,
        transaction_id=submitted or (None if session is None else session.transaction_id),
        capture=automatic and command.capture_delay_s == 0,
        capture_delay_s=command.capture_delay_s,
        device_information=device,
    )
    return [without(requested, ("device_information",)) if order.payer_forgotten else requested]


def _approved(
    order: Order, payment: Payment, approval: Approved, command: RecordAuthenticationOutcome
) -> list[OrderEvent]:
    return [
        *authenticated(payment, approval, command),
        *capture_after_authentication(order, payment, approval, command.at),
    ]


def authenticated(
    payment: Payment, approval: Approved, command: RecordAuthenticationOutcome | RecordSessionEnd
) -> list[OrderEvent]:
    """Returns the events of a payer who was authenticated, of the authorisation, and of a capture in the same call."""
    session, payment_id, at = payment.session, payment.payment_id, command.at
    frictionless = payment.next_action is NextAction.DEVICE_DATA
    passed = PayerAuthenticated(
        payment_id=payment_id,
        at=at,
        frictionless=frictionless,
        resumed=frictionless or approval.authorized < payment.amount,
        transaction_id=None if session is None else session.transaction_id,
        three_ds_version=None if session is None else session.three_ds_version,
        eci=approval.eci,
    )
    return [passed, *authorized_and_captured(payment, approval, command)]


def capture_after_authentication(order: Order, payment: Payment, approval: Approved, at: datetime) -> list[OrderEvent]:
    """Returns the event that schedules the capture of what was authorised and not captured, if it is automatic."""
    if approval.captured > 0 or order.terms.capture_method is not CaptureMethod.AUTOMATIC:
        return []
    due_at = at + timedelta(seconds=payment.capture_delay_s)
    amount: Decimal = shortest(max(approval.authorized, ZERO))
    return [CaptureScheduled(payment_id=payment.payment_id, amount=amount, due_at=due_at, at=at)]


def authentication_declined(
    payment: Payment, refusal: Declined, at: datetime
) -> PayerAuthenticationFailed | PaymentDeclined:
    """Returns the event of a payer who was not authenticated, or whose bank declined the payment all the same."""
    if refusal.code != _AUTHENTICATION_FAILED:
        return payment_declined(payment, refusal, at)
    return PayerAuthenticationFailed(
        payment_id=payment.payment_id, code=refusal.code, at=at, message=refusal.message, eci=refusal.eci
    )
