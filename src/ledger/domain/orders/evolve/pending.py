"""The fold of what a payment waits for: the payer's authentication, a reference, a deposit, a void, an expiry."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from ledger.domain.orders.events import (
    AuthenticationRequested,
    CancelledBecause,
    DepositReceived,
    ExpiredBecause,
    PayerActionRequired,
    PayerAuthenticated,
    PayerAuthenticationFailed,
    PaymentCancellationRequested,
    PaymentCancelled,
    PaymentExpired,
    ReferenceIssued,
    ReferenceRequested,
    SessionEnd,
    SessionEndRequested,
    VoidRefused,
    VoidRequested,
)
from ledger.domain.orders.evolve.history import history_ended, history_failed, history_with, inflows_with
from ledger.domain.orders.evolve.payments import Folds, on_payment, with_payment
from ledger.domain.orders.payment import EntryAction, EntryStatus, Failure, HistoryEntry, Intent, Payment
from ledger.domain.orders.state import Order
from ledger.domain.orders.statuses import NextAction, PaymentStatus

_ENTRY_ACTIONS: Final = {
    NextAction.DEVICE_DATA: EntryAction.DEVICE_DATA,
    NextAction.CHALLENGE: EntryAction.AUTHENTICATION,
    NextAction.REDIRECT: EntryAction.AUTHENTICATION,
    NextAction.DISPLAY_REFERENCE: EntryAction.REFERENCE,
}
_CANCELLED_REASONS: Final = {
    CancelledBecause.ORDER_CANCELLED: "The order was cancelled.",
    CancelledBecause.PAYMENT_CANCELLED: "The payment was cancelled.",
    CancelledBecause.REPLACED: "The order is paid in another way.",
    CancelledBecause.VOIDED: "The authorisation was let go.",
    CancelledBecause.NEVER_AUTHORIZED: "The payment was cancelled and not authorised.",
    CancelledBecause.RELEASED: "The order was finished with what was captured.",
}
_EXPIRED_REASONS: Final = {
    ExpiredBecause.REFERENCE: "The reference expired.",
    ExpiredBecause.SESSION: "The payer did not come back in time.",
    ExpiredBecause.AUTHORIZATION: "The authorisation lapsed.",
}


def authorized_status(payment: Payment) -> PaymentStatus:
    """Returns the status of a valid authorisation: AUTHORIZED in full, or PARTIALLY_AUTHORIZED."""
    in_full = payment.authorized >= payment.amount
    return PaymentStatus.AUTHORIZED if in_full else PaymentStatus.PARTIALLY_AUTHORIZED


def _authentication_requested(payment: Payment, event: AuthenticationRequested) -> Payment:
    intent = Intent(
        action=_ENTRY_ACTIONS[event.step],
        processor=event.processor,
        idempotency_key=event.idempotency_key,
        amount=event.amount,
        capture=event.capture,
        deadline_at=event.deadline_at,
        payment_id=event.payment_id,
        transaction_id=event.transaction_id,
    )
    return replace(
        payment,
        intent=intent,
        keys=(*payment.keys, event.idempotency_key),
        capture_delay_s=event.capture_delay_s,
        entries=history_with(payment, _ENTRY_ACTIONS[event.step], EntryStatus.PENDING, event.amount, event.at),
        updated_at=event.at,
    )


def _authenticated(payment: Payment, event: PayerAuthenticated) -> Payment:
    step = EntryAction.AUTHENTICATION
    if payment.next_action is NextAction.DEVICE_DATA:
        step = EntryAction.DEVICE_DATA
    entries = history_with(payment, step, EntryStatus.SUCCESS, payment.amount, event.at)
    status = PaymentStatus.PENDING_AUTHORIZATION if event.resumed else payment.status
    return replace(payment, status=status, authenticated=event, entries=entries, updated_at=event.at)


def _authentication_failed(payment: Payment, event: PayerAuthenticationFailed) -> Payment:
    reason = event.message or event.code
    return replace(
        _ended(payment),
        status=PaymentStatus.FAILED,
        failure=Failure(code=event.code, message=event.message, at=event.at, eci=event.eci),
        authentication_failed=True,
        entries=history_failed(payment, event.at, reason),
        updated_at=event.at,
    )


def _action_required(payment: Payment, event: PayerActionRequired) -> Payment:
    if payment.next_action is NextAction.DEVICE_DATA:
        entries = history_with(payment, EntryAction.DEVICE_DATA, EntryStatus.SUCCESS, payment.amount, event.at)
        payment = replace(payment, entries=entries)
    return replace(
        payment,
        status=PaymentStatus.REQUIRES_ACTION,
        next_action=event.action,
        action_expires_at=event.expires_at,
        session=event.session or payment.session,
        session_reference=event.processor_reference or payment.session_reference,
        intent=None,
        entries=history_with(payment, _ENTRY_ACTIONS[event.action], EntryStatus.PENDING, payment.amount, event.at),
        updated_at=event.at,
    )


def _reference_requested(payment: Payment, event: ReferenceRequested) -> Payment:
    intent = Intent(
        action=EntryAction.REFERENCE,
        processor=event.processor,
        idempotency_key=event.idempotency_key,
        amount=event.amount,
        capture=False,
        deadline_at=event.deadline_at,
        payment_id=event.payment_id,
    )
    entries = history_with(payment, EntryAction.REFERENCE, EntryStatus.PENDING, event.amount, event.at)
    return replace(
        payment,
        reference_asked=event,
        intent=intent,
        keys=(*payment.keys, event.idempotency_key),
        entries=entries,
        updated_at=event.at,
    )


def _reference_issued(payment: Payment, event: ReferenceIssued) -> Payment:
    # A reference that is issued after the payment has ended is kept: the payer can still send money to it.
    created = payment.status is PaymentStatus.CREATED
    return replace(
        payment,
        status=PaymentStatus.REQUIRES_ACTION if created else payment.status,
        next_action=NextAction.DISPLAY_REFERENCE if created else None,
        action_expires_at=event.expires_at if created else None,
        reference=event.reference,
        reference_issued_at=event.at,
        reference_expires_at=event.expires_at,
        processor_reference=event.processor_reference,
        intent=None,
        entries=history_with(payment, EntryAction.REFERENCE, EntryStatus.SUCCESS, payment.amount, event.at),
        updated_at=event.at,
    )


_MOVED_BY_DEPOSIT: Final = frozenset({PaymentStatus.REQUIRES_ACTION, PaymentStatus.PARTIALLY_CAPTURED})
_LATE_REASON: Final = "Received after the payment had ended."
_AMOUNT_REASON: Final = "The store took another amount than it was to take."
_REVIVED_BY_DEPOSIT: Final = frozenset({PaymentStatus.EXPIRED, PaymentStatus.CANCELLED})


def _deposited(order: Order, event: DepositReceived) -> Order:
    payment = order.payment(event.payment_id)
    captured = payment.captured + event.amount
    status = payment.status
    if status in _REVIVED_BY_DEPOSIT:
        status = PaymentStatus.CAPTURED
    elif status in _MOVED_BY_DEPOSIT:
        status = PaymentStatus.CAPTURED if captured >= payment.amount else PaymentStatus.PARTIALLY_CAPTURED
    reasons = [_LATE_REASON] * event.late + [_AMOUNT_REASON] * event.amount_differs
    after = replace(
        _ended(payment),
        status=status,
        authorized=max(payment.authorized, captured),
        captured=captured,
        captured_at=event.at,
        inflows=inflows_with(order, payment, captured, event.at),
        deposits=(*payment.deposits, event.deposit_id),
        late=payment.late or event.late,
        senders=(*payment.senders, None if order.payer_forgotten else event.sender_clabe),
        entries=(
            *payment.entries,
            HistoryEntry(EntryAction.DEPOSIT, EntryStatus.SUCCESS, event.amount, event.at, " ".join(reasons) or None),
        ),
        updated_at=event.at,
        intent=payment.intent,
    )
    return with_payment(order, event, payment, after)


def _cancellation_requested(payment: Payment, event: PaymentCancellationRequested) -> Payment:
    entries = history_with(payment, EntryAction.CANCELLATION, EntryStatus.PENDING, payment.amount, event.at)
    return replace(
        payment,
        status=PaymentStatus.PENDING_CANCELLATION,
        cancellation_requested=True,
        entries=entries,
        updated_at=event.at,
    )


def _session_end_requested(payment: Payment, event: SessionEndRequested) -> Payment:
    intent = Intent(
        action=EntryAction.CANCELLATION,
        processor=payment.processor,
        idempotency_key=event.idempotency_key,
        amount=payment.amount,
        capture=False,
        deadline_at=event.deadline_at,
        payment_id=event.payment_id,
        ends=event.because,
    )
    return replace(
        payment,
        cancellation_requested=event.because is not SessionEnd.EXPIRED,
        intent=intent,
        keys=(*payment.keys, event.idempotency_key),
        entries=history_with(payment, intent.entry, EntryStatus.PENDING, payment.amount, event.at),
        updated_at=event.at,
    )


def _void_requested(payment: Payment, event: VoidRequested) -> Payment:
    intent = Intent(
        action=EntryAction.CANCELLATION,
        processor=payment.processor,
        idempotency_key=event.idempotency_key,
        amount=payment.authorized,
        capture=False,
        deadline_at=event.deadline_at,
        payment_id=event.payment_id,
    )
    failed = payment.status is PaymentStatus.FAILED  # by a refused capture: only its authorisation is released
    return replace(
        payment,
        status=payment.status if failed else PaymentStatus.PENDING_CANCELLATION,
        returns_to=payment.status if failed else authorized_status(payment),
        cancellation_requested=not failed,
        void_refused=False,
        intent=intent,
        keys=(*payment.keys, event.idempotency_key),
        entries=history_with(payment, EntryAction.CANCELLATION, EntryStatus.PENDING, payment.authorized, event.at),
        updated_at=event.at,
    )


def _void_refused(payment: Payment, event: VoidRefused) -> Payment:
    reason = event.message or event.code
    return replace(
        payment,
        status=payment.returns_to or authorized_status(payment),
        returns_to=None,
        cancellation_requested=False,
        void_refused=True,
        intent=None,
        entries=history_with(
            payment, EntryAction.CANCELLATION, EntryStatus.FAILED, payment.authorized, event.at, reason
        ),
        updated_at=event.at,
    )


def _cancelled(payment: Payment, event: PaymentCancelled) -> Payment:
    entries = history_ended(
        payment, EntryAction.CANCELLATION, event.at, _CANCELLED_REASONS[event.because], amount=payment.amount
    )
    # The call for a reference goes on: the payer can still send money to what it issues.
    intent = payment.intent if payment.status is PaymentStatus.CREATED else None
    ended = replace(_ended(payment), intent=intent, entries=entries, updated_at=event.at)
    if payment.status is PaymentStatus.FAILED:
        return replace(ended, returns_to=None, lapses_at=None)
    return replace(ended, status=PaymentStatus.CANCELLED)


def _expired(payment: Payment, event: PaymentExpired) -> Payment:
    entries = history_ended(payment, EntryAction.EXPIRATION, event.at, _EXPIRED_REASONS[event.because])
    return replace(_ended(payment), status=PaymentStatus.EXPIRED, entries=entries, updated_at=event.at)


def _ended(payment: Payment) -> Payment:
    """Returns the payment without its pending action, call and capture."""
    return replace(
        payment,
        next_action=None,
        action_expires_at=None,
        intent=None,
        capture_due_at=None,
    )


EVOLVE: Final[Folds] = {
    PayerActionRequired: on_payment(_action_required),
    AuthenticationRequested: on_payment(_authentication_requested),
    PayerAuthenticated: on_payment(_authenticated),
    PayerAuthenticationFailed: on_payment(_authentication_failed),
    ReferenceRequested: on_payment(_reference_requested),
    ReferenceIssued: on_payment(_reference_issued),
    DepositReceived: _deposited,
    PaymentCancellationRequested: on_payment(_cancellation_requested),
    SessionEndRequested: on_payment(_session_end_requested),
    VoidRequested: on_payment(_void_requested),
    VoidRefused: on_payment(_void_refused),
    PaymentCancelled: on_payment(_cancelled),
    PaymentExpired: on_payment(_expired),
}
