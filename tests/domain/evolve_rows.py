"""Rows for the tests of the fold: an event, and the statuses of the payment and the order after it."""

from __future__ import annotations

from decimal import Decimal
from uuid import UUID

from msgspec import Raw
from tests.domain.builders import (
    DEADLINE,
    MANUAL,
    NOON,
    abandoned,
    authentication_requested,
    authorization_requested,
    authorized,
    capture_requested,
    captured,
    created,
    deposited,
    paid,
    payer_action_required,
    payment_id,
    reference_issued,
    reference_open,
    reference_requested,
    refund_id,
    refund_requested,
    refunded,
    scheduled,
    started,
)
from tests.journal.global_invoice_samples import OF_ORDERS
from tests.journal.invoice_samples import INVOICES
from tests.journal.reminder_samples import REMINDERS

from ledger.domain.orders import events as e
from ledger.domain.orders.statuses import NextAction, OrderStatus, PaymentStatus

P, O = PaymentStatus, OrderStatus  # noqa: E741 - two columns of one table
ONE, REFUND = payment_id(1), refund_id(1)
IN_FLIGHT = (created(), started(1, 10000), authorization_requested(1, 10000))
GRANTED = (
    created(capture_method=MANUAL),
    started(1, 10000),
    authorization_requested(1, 10000, capture=False),
    authorized(1, 10000),
)
CAPTURING = (*GRANTED, scheduled(1, 10000), capture_requested(1, 10000))
HALF_CAPTURED = (*GRANTED, scheduled(1, 6000), capture_requested(1, 6000), captured(1, 6000))
RELEASING = (
    *HALF_CAPTURED,
    e.ReleaseRequested(payment_id=ONE, amount=Decimal(4000), idempotency_key="release-1", deadline_at=NOON, at=NOON),
)
VOIDING = (*GRANTED, e.VoidRequested(payment_id=ONE, idempotency_key="void-1", deadline_at=NOON, at=NOON))
PAID = (created(), *paid(1, 10000))
REFUNDING = (*PAID, refund_requested(1, 4000))
OPEN = (created(), *reference_open(1, 10000))
LISTED = (*PAID, e.SettlementListed(payment_id=ONE, batch_id="lote-1", at=NOON))
DISPUTED = (*PAID, e.DisputeOpened(payment_id=ONE, dispute_id="dsp-1", amount=PAID[1].subtotal, at=NOON))
CHALLENGED = (*IN_FLIGHT, payer_action_required(1))
ASKED_TO_CANCEL = e.CancellationRequested(cancellation_id=UUID(int=3), refund_captured=False, at=NOON)
REFUSED = e.RefundRefused(refund_id=REFUND, payment_id=ONE, code="GENERIC_DECLINE", at=NOON)
LATE_REFUND = e.LateRefundReported(
    refund_id=REFUND, payment_id=ONE, amount=Decimal(4000), processor_reference="ref", at=NOON
)
CAME_BACK = e.RefundReversed(refund_id=REFUND, payment_id=ONE, amount=Decimal(4000), code="UNKNOWN", at=NOON)
REFUSED_AGAIN = e.RefundRefused(refund_id=refund_id(2), payment_id=ONE, code="GENERIC_DECLINE", at=NOON)

ACTION_STEPS = [
    (payer_action_required(1), IN_FLIGHT, P.REQUIRES_ACTION, O.PAYER_AUTHENTICATION_CHALLENGE_REQUIRED),
    (payer_action_required(1, NextAction.REDIRECT), IN_FLIGHT, P.REQUIRES_ACTION, O.ACTION_REQUIRED),
    (authentication_requested(1, 10000), CHALLENGED, P.REQUIRES_ACTION, O.PAYER_AUTHENTICATION_CHALLENGE_REQUIRED),
    (
        e.PayerAuthenticated(payment_id=ONE, at=NOON, resumed=True),
        CHALLENGED,
        P.PENDING_AUTHORIZATION,
        O.PROCESSING,
    ),
    (
        e.PayerAuthenticationFailed(payment_id=ONE, code="AUTHENTICATION_FAILED", at=NOON),
        CHALLENGED,
        P.FAILED,
        O.FAILED,
    ),
    (
        e.SessionEndRequested(
            payment_id=ONE, because=e.SessionEnd.EXPIRED, idempotency_key="end-1", deadline_at=NOON, at=NOON
        ),
        CHALLENGED,
        P.REQUIRES_ACTION,
        O.PAYER_AUTHENTICATION_CHALLENGE_REQUIRED,
    ),
    (e.CaptureRefused(payment_id=ONE, code="X", retryable=True, at=NOON), CAPTURING, P.AUTHORIZED, O.AUTHORIZED),
    (e.CaptureRefused(payment_id=ONE, code="X", retryable=False, at=NOON), CAPTURING, P.FAILED, O.FAILED),
    (
        e.PaymentCancellationRequested(payment_id=ONE, at=NOON),
        IN_FLIGHT,
        P.PENDING_CANCELLATION,
        O.CANCELLATION_REQUESTED,
    ),
    (VOIDING[-1], GRANTED, P.PENDING_CANCELLATION, O.CANCELLATION_REQUESTED),
    (e.VoidRefused(payment_id=ONE, code="X", at=NOON), VOIDING, P.AUTHORIZED, O.AUTHORIZED),
    (e.PaymentCancelled(payment_id=ONE, because=e.CancelledBecause.REPLACED, at=NOON), OPEN, P.CANCELLED, O.FAILED),
    (e.PaymentExpired(payment_id=ONE, because=e.ExpiredBecause.REFERENCE, at=NOON), OPEN, P.EXPIRED, O.PENDING),
    (reference_requested(1, 10000), OPEN[:2], P.CREATED, O.PROCESSING),
    (reference_issued(1), OPEN[:3], P.REQUIRES_ACTION, O.REFERENCE_GENERATED),
    (deposited(1, 10000), OPEN, P.CAPTURED, O.COMPLETED),
    (deposited(1, 9999), OPEN, P.PARTIALLY_CAPTURED, O.PARTIALLY_PAID),
    (refund_requested(1, 4000), PAID, P.PENDING_REFUND, O.REFUND_PROCESSING),
    (
        e.RefundAccepted(refund_id=REFUND, payment_id=ONE, processor_reference="ref", at=NOON),
        REFUNDING,
        P.PENDING_REFUND,
        O.REFUND_PROCESSING,
    ),
    (refunded(1, 4000), REFUNDING, P.PARTIALLY_REFUNDED, O.PARTIALLY_REFUNDED),
    (REFUSED, REFUNDING, P.CAPTURED, O.COMPLETED),
    (
        e.RefundReopened(refund_id=REFUND, payment_id=ONE, at=NOON),
        (*REFUNDING, REFUSED),
        P.PENDING_REFUND,
        O.REFUND_PROCESSING,
    ),
    (
        e.LateAuthorizationReported(payment_id=ONE, amount=Decimal(10000), processor_reference="ref", at=NOON),
        (*IN_FLIGHT, abandoned(1)),
        P.FAILED,
        O.FAILED,
    ),
    (
        LATE_REFUND,
        (*REFUNDING, REFUSED, refund_requested(1, 4000, 2)),
        P.PENDING_REFUND,
        O.REFUND_PROCESSING,
    ),
    (
        REFUSED_AGAIN,
        (*REFUNDING, REFUSED, refund_requested(1, 4000, 2), LATE_REFUND),
        P.PARTIALLY_REFUNDED,
        O.PARTIALLY_REFUNDED,
    ),
    (
        e.CallUnanswered(payment_id=ONE, call=e.ProcessorCall.CAPTURE, reason="no answer", at=NOON),
        CAPTURING,
        P.CAPTURING,
        O.AUTHORIZED,
    ),
    (
        e.CallPostponed(payment_id=ONE, call=e.ProcessorCall.CAPTURE, until=DEADLINE, at=NOON),
        CAPTURING,
        P.CAPTURING,
        O.AUTHORIZED,
    ),
    (
        e.CallRepeated(
            payment_id=ONE, call=e.ProcessorCall.REFUND, idempotency_key="refund-1", deadline_at=DEADLINE, at=NOON
        ),
        REFUNDING,
        P.PENDING_REFUND,
        O.REFUND_PROCESSING,
    ),
    (
        e.CallAbandoned(payment_id=ONE, call=e.ProcessorCall.VOID, because=e.AbandonedBecause.NOT_SENT, at=NOON),
        VOIDING,
        P.AUTHORIZED,
        O.AUTHORIZED,
    ),
    (
        e.CallAbandoned(payment_id=ONE, call=e.ProcessorCall.REFUND, because=e.AbandonedBecause.NOT_FOUND, at=NOON),
        REFUNDING,
        P.CAPTURED,
        O.COMPLETED,
    ),
    (RELEASING[-1], HALF_CAPTURED, P.PARTIALLY_CAPTURED, O.PARTIALLY_PAID),
    (
        e.AuthorizationReleased(payment_id=ONE, amount=Decimal(4000), because=e.ReleasedBecause.REQUESTED, at=NOON),
        RELEASING,
        P.PARTIALLY_CAPTURED,
        O.PARTIALLY_PAID,
    ),
    (e.ReleaseRefused(payment_id=ONE, code="X", at=NOON), RELEASING, P.PARTIALLY_CAPTURED, O.PARTIALLY_PAID),
    (
        e.RefundDestinationChanged(refund_id=REFUND, payment_id=ONE, at=NOON),
        REFUNDING,
        P.PENDING_REFUND,
        O.REFUND_PROCESSING,
    ),
    (
        e.PayoutRequested(
            refund_id=REFUND,
            payment_id=ONE,
            amount=Decimal(4000),
            processor="sandbox",
            idempotency_key="refund-1",
            deadline_at=DEADLINE,
            at=NOON,
        ),
        REFUNDING,
        P.PENDING_REFUND,
        O.REFUND_PROCESSING,
    ),
    (CAME_BACK, (*REFUNDING, refunded(1, 4000)), P.CAPTURED, O.COMPLETED),
    (DISPUTED[-1], PAID, P.DISPUTED, O.COMPLETED),
    (e.DisputeWon(payment_id=ONE, dispute_id="dsp-1", at=NOON), DISPUTED, P.CAPTURED, O.COMPLETED),
    (
        e.DisputeLost(payment_id=ONE, dispute_id="dsp-1", amount=DISPUTED[-1].amount, at=NOON),
        DISPUTED,
        P.REFUNDED,
        O.REFUNDED,
    ),
    (LISTED[-1], PAID, P.PENDING_SETTLEMENT, O.COMPLETED),
    (e.SettlementMatched(payment_id=ONE, batch_id="lote-1", at=NOON), LISTED, P.SETTLED, O.COMPLETED),
    (e.SettlementRefused(payment_id=ONE, batch_id="lote-1", at=NOON), LISTED, P.CAPTURED, O.COMPLETED),
    (ASKED_TO_CANCEL, GRANTED, P.AUTHORIZED, O.CANCELLATION_REQUESTED),
    (e.CancellationRefused(at=NOON), (*GRANTED, ASKED_TO_CANCEL), P.AUTHORIZED, O.AUTHORIZED),
    (e.OrderCancelled(at=NOON), (created(),), None, O.CANCELLED),
]
"""Rows of: the event, the history before it, the status of the payment after it (None without one), that of the
order."""

ACTION_STEPS += [(event, IN_FLIGHT, P.PENDING_AUTHORIZATION, O.PROCESSING) for event in INVOICES.values()]
CHANGES = (
    e.OrderDescriptionChanged(description="x", at=NOON),
    e.OrderInvoiceNumberChanged(invoice_number="F-1", at=NOON),
    e.OrderMetadataChanged(patch=Raw(b'{"a":1}'), at=NOON),
    e.OrderDueDateChanged(at=NOON),
    e.OrderLineItemsChanged(at=NOON),
    e.OrderReceiverChanged(at=NOON),
)
ACTION_STEPS += [(event, IN_FLIGHT, P.PENDING_AUTHORIZATION, O.PROCESSING) for event in CHANGES]
ACTION_STEPS += [(e.OrderAmountChanged(amount=Decimal(1), at=NOON), (created(),), None, O.PENDING)]
ACTION_STEPS += [(event, PAID, P.CAPTURED, O.COMPLETED) for event in OF_ORDERS.values()]
REMINDED = (*IN_FLIGHT, REMINDERS["reminders-scheduled.v1"], REMINDERS["reminder-due.v1"])
ACTION_STEPS += [(event, REMINDED, P.PENDING_AUTHORIZATION, O.PROCESSING) for event in REMINDERS.values()]
