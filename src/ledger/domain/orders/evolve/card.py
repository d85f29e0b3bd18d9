"""The fold of the steps of a card payment: authorisation and capture."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from msgspec.structs import replace

from ledger.domain.orders.declines import PROCESSOR_TIMEOUT
from ledger.domain.orders.events import (
    AuthorizationAbandoned,
    AuthorizationOutcomeUnknown,
    AuthorizationRequested,
    CaptureRefused,
    CaptureRequested,
    CaptureScheduled,
    LateAuthorizationReported,
    LateCaptureReported,
    PaymentAuthorized,
    PaymentCaptured,
    PaymentDeclined,
)
from ledger.domain.orders.evolve.history import (
    LATE_REASON,
    PAYER_WAS_QUICKER,
    history_failed,
    history_with,
    inflows_with,
)
from ledger.domain.orders.evolve.payments import Folds, on_payment, with_payment
from ledger.domain.orders.evolve.unanswered_calls import (
    ABANDONED_REASONS,
    came_back,
    requested_amount,
    status_without_capture,
)
from ledger.domain.orders.payment import EntryAction, EntryStatus, Failure, HistoryEntry, Intent, Payment
from ledger.domain.orders.state import Order
from ledger.domain.orders.statuses import PaymentStatus

_REVIVED_BY_MONEY: Final = frozenset({PaymentStatus.EXPIRED, PaymentStatus.CANCELLED})


def _authorization_requested(payment: Payment, event: AuthorizationRequested) -> Payment:
    intent = Intent(
        processor=event.processor,
        idempotency_key=event.idempotency_key,
        amount=event.amount,
        capture=event.capture,
        deadline_at=event.deadline_at,
        payment_id=event.payment_id,
    )
    return replace(
        payment,
        keys=(*payment.keys, event.idempotency_key),
        status=PaymentStatus.PENDING_AUTHORIZATION,
        requested=event,
        intent=intent,
        entries=history_with(payment, EntryAction.AUTHORIZATION, EntryStatus.PENDING, event.amount, event.at),
        updated_at=event.at,
    )


def _authorized(payment: Payment, event: PaymentAuthorized) -> Payment:
    in_full = event.amount >= payment.amount
    return replace(
        payment,
        status=PaymentStatus.AUTHORIZED if in_full else PaymentStatus.PARTIALLY_AUTHORIZED,
        authorized=event.amount,
        processor_reference=event.processor_reference,
        authorization_code=event.authorization_code,
        lapses_at=event.at + timedelta(seconds=event.validity_s),
        next_action=None,
        action_expires_at=None,
        intent=None,
        entries=_entries_after(payment, event),
        updated_at=event.at,
    )


def _entries_after(payment: Payment, event: PaymentAuthorized) -> tuple[HistoryEntry, ...]:
    """Returns the entries after an authorisation. A session's end has failed: its payer was quicker."""
    intent = payment.intent
    if intent is not None and intent.ends is not None:
        entries = history_with(payment, intent.entry, EntryStatus.FAILED, payment.amount, event.at, PAYER_WAS_QUICKER)
        payment = replace(payment, entries=entries)
    return history_with(payment, EntryAction.AUTHORIZATION, EntryStatus.SUCCESS, event.amount, event.at)


def _capture_scheduled(payment: Payment, event: CaptureScheduled) -> Payment:
    return replace(
        payment,
        status=PaymentStatus.PENDING_CAPTURE,
        capture_due_at=event.due_at,
        capture_amount=event.amount,
        entries=history_with(payment, EntryAction.CAPTURE, EntryStatus.PENDING, event.amount, event.at),
        updated_at=event.at,
    )


def _capture_requested(payment: Payment, event: CaptureRequested) -> Payment:
    intent = Intent(
        action=EntryAction.CAPTURE,
        processor=payment.processor,
        idempotency_key=event.idempotency_key,
        amount=event.amount,
        capture=True,
        deadline_at=event.deadline_at,
        payment_id=event.payment_id,
        final=event.final,
    )
    return replace(
        payment,
        keys=(*payment.keys, event.idempotency_key),
        status=PaymentStatus.CAPTURING,
        intent=intent,
        entries=history_with(payment, EntryAction.CAPTURE, EntryStatus.PENDING, event.amount, event.at),
        updated_at=event.at,
    )


def _captured(order: Order, event: PaymentCaptured) -> Order:
    payment = order.payment(event.payment_id)
    captured = payment.captured + event.amount
    in_full = captured >= payment.amount
    after = replace(
        payment,
        status=PaymentStatus.CAPTURED if in_full else PaymentStatus.PARTIALLY_CAPTURED,
        authorized=max(payment.authorized, captured),  # the processor had authorised all that it captured
        captured=captured,
        captured_at=event.at,
        capture_keys=_with_key(payment, _capture_key(payment)),
        capture_due_at=None,
        inflows=inflows_with(order, payment, captured, event.at),
        processor_reference=payment.processor_reference or event.processor_reference,
        intent=None,
        entries=history_with(payment, EntryAction.CAPTURE, EntryStatus.SUCCESS, event.amount, event.at),
        updated_at=event.at,
    )
    return with_payment(order, event, payment, after)


def _authorization_reported_late(payment: Payment, event: LateAuthorizationReported) -> Payment:
    entry = HistoryEntry(EntryAction.AUTHORIZATION, EntryStatus.SUCCESS, event.amount, event.at, LATE_REASON)
    reference = payment.processor_reference or event.processor_reference
    entries = (*payment.entries, entry)
    return replace(payment, processor_reference=reference, entries=entries, updated_at=event.at)


def _capture_reported_late(order: Order, event: LateCaptureReported) -> Order:
    payment = order.payment(event.payment_id)
    captured = payment.captured + event.amount
    entry = HistoryEntry(EntryAction.CAPTURE, EntryStatus.SUCCESS, event.amount, event.at, LATE_REASON)
    released = payment.hold_ended_at is not None or payment.is_being_released
    completed = released and payment.status is PaymentStatus.PARTIALLY_CAPTURED and captured >= payment.amount
    after = replace(
        payment,
        status=PaymentStatus.CAPTURED if payment.status in _REVIVED_BY_MONEY or completed else payment.status,
        authorized=max(event.authorized, captured),
        captured=captured,
        captured_at=event.at,
        capture_keys=_with_key(payment, event.idempotency_key),
        inflows=inflows_with(order, payment, captured, event.at),
        processor_reference=payment.processor_reference or event.processor_reference,
        entries=(*payment.entries, entry),
        updated_at=event.at,
    )
    return with_payment(order, event, payment, after)


def _capture_key(payment: Payment) -> str | None:
    """Returns the idempotency key of the call that captured: of the capture's own, else of the authorisation's."""
    if payment.intent is not None:
        return payment.intent.idempotency_key
    return None if payment.requested is None else payment.requested.idempotency_key


def _with_key(payment: Payment, key: str | None) -> tuple[str, ...]:
    return payment.capture_keys if key is None else (*payment.capture_keys, key)


def _capture_refused(payment: Payment, event: CaptureRefused) -> Payment:
    failure = Failure(code=event.code, message=event.message, at=event.at)
    reason = event.message or event.code
    return replace(
        payment,
        status=status_without_capture(payment, retryable=event.retryable or event.kept),
        failure=failure,
        intent=None,
        capture_due_at=None,
        entries=history_with(
            payment, EntryAction.CAPTURE, EntryStatus.FAILED, requested_amount(payment), event.at, reason
        ),
        updated_at=event.at,
    )


def _declined(payment: Payment, event: PaymentDeclined) -> Payment:
    failure = Failure(
        code=event.code,
        message=event.message,
        at=event.at,
        refused_by=event.refused_by,
        network_advice=event.network_advice,
        available_installments=event.available_installments,
    )
    after = _failed(payment, failure)
    if event.processor_reference is not None and after.processor_reference is None:
        after = replace(after, processor_reference=event.processor_reference)
    key = event.idempotency_key
    return after if key is None else replace(after, keys=(*after.keys, key))


def _abandoned(payment: Payment, event: AuthorizationAbandoned) -> Payment:
    message = ABANDONED_REASONS[event.because]
    return _failed(payment, Failure(code=PROCESSOR_TIMEOUT, message=message, at=event.at, given_up=event.because))


def _failed(payment: Payment, failure: Failure) -> Payment:
    reason = failure.message or failure.code
    return replace(
        payment,
        status=PaymentStatus.FAILED,
        failure=failure,
        next_action=None,
        action_expires_at=None,
        intent=None,
        entries=history_failed(payment, failure.at, reason),
        updated_at=failure.at,
    )


def _outcome_unknown(payment: Payment, event: AuthorizationOutcomeUnknown) -> Payment:
    return replace(
        payment,
        intent=came_back(payment.intent, event),
        entries=history_with(
            payment, EntryAction.AUTHORIZATION, EntryStatus.UNKNOWN, payment.amount, event.at, event.reason
        ),
        updated_at=event.at,
    )


EVOLVE: Final[Folds] = {
    AuthorizationRequested: on_payment(_authorization_requested),
    PaymentAuthorized: on_payment(_authorized),
    CaptureScheduled: on_payment(_capture_scheduled),
    CaptureRequested: on_payment(_capture_requested),
    PaymentCaptured: _captured,
    CaptureRefused: on_payment(_capture_refused),
    PaymentDeclined: on_payment(_declined),
    AuthorizationOutcomeUnknown: on_payment(_outcome_unknown),
    AuthorizationAbandoned: on_payment(_abandoned),
    LateAuthorizationReported: on_payment(_authorization_reported_late),
    LateCaptureReported: _capture_reported_late,
}
