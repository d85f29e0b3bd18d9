"""One event of every topic about an order's payments after their first call, with every field filled.

As in `samples`, change a sample to fit its golden file.
"""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from ledger.domain.orders import events as orders
from ledger.domain.orders.statuses import NextAction
from ledger.domain.orders.terms import AuthenticationSession, Destination, DestinationType, DeviceInformation, Reference

AT = datetime(2026, 1, 31, 18, 30, 15, 123456, tzinfo=UTC)
LATER = datetime(2026, 1, 31, 18, 45, 15, tzinfo=UTC)
PAYMENT, REFUND, CANCELLATION = (UUID(f"01890a5d-ac96-774b-bcce-b302099a80{n:02x}") for n in (4, 7, 8))
AMOUNT = Decimal("156.03")
CLABE = "646180157000000004"
FEE: dict[str, Any] = {"fee": Decimal("7.64"), "fee_tax": Decimal("1.05"), "fee_currency": "MXN"}

ACTIONS: dict[str, Any] = {
    "payer-action-required.v1": orders.PayerActionRequired(
        payment_id=PAYMENT,
        action=NextAction.CHALLENGE,
        expires_at=LATER,
        at=AT,
        session=AuthenticationSession(
            transaction_id="txn-1",
            reference_id="ref-1",
            device_data_collection_url="https://acs.example/collect",
            access_token="token-1",
            step_up_url="https://acs.example/step-up",
            three_ds_version="2.2.0",
        ),
        processor_reference="pi_1",
    ),
    "authentication-requested.v1": orders.AuthenticationRequested(
        payment_id=PAYMENT,
        step=NextAction.CHALLENGE,
        processor="sandbox",
        idempotency_key="autenticacion-1",
        amount=AMOUNT,
        deadline_at=LATER,
        at=AT,
        transaction_id="txn-1",
        capture=True,
        capture_delay_s=5,
        device_information=DeviceInformation(ip_address="203.0.113.7"),
        account="backup",
    ),
    "payer-authenticated.v1": orders.PayerAuthenticated(
        payment_id=PAYMENT,
        at=AT,
        frictionless=True,
        resumed=True,
        transaction_id="txn-1",
        three_ds_version="2.2.0",
        eci="05",
    ),
    "payer-authentication-failed.v1": orders.PayerAuthenticationFailed(
        payment_id=PAYMENT,
        code="AUTHENTICATION_FAILED",
        at=AT,
        message="The payer could not be authenticated.",
        eci="07",
    ),
    "session-end-requested.v1": orders.SessionEndRequested(
        payment_id=PAYMENT,
        because=orders.SessionEnd.EXPIRED,
        idempotency_key="fin-1",
        deadline_at=LATER,
        at=AT,
    ),
    "capture-refused.v1": orders.CaptureRefused(
        payment_id=PAYMENT, code="GENERIC_DECLINE", retryable=True, at=AT, message="Not now.", kept=True
    ),
    "payment-cancellation-requested.v1": orders.PaymentCancellationRequested(payment_id=PAYMENT, at=AT),
    "void-requested.v1": orders.VoidRequested(
        payment_id=PAYMENT, idempotency_key="anulacion-1", deadline_at=LATER, at=AT
    ),
    "void-refused.v1": orders.VoidRefused(payment_id=PAYMENT, code="GENERIC_DECLINE", at=AT, message="Too late."),
    "release-requested.v1": orders.ReleaseRequested(
        payment_id=PAYMENT, amount=AMOUNT, idempotency_key="liberacion-1", deadline_at=LATER, at=AT
    ),
    "authorization-released.v1": orders.AuthorizationReleased(
        payment_id=PAYMENT,
        amount=AMOUNT,
        because=orders.ReleasedBecause.REQUESTED,
        at=AT,
        processor_reference="sbx-4",
    ),
    "release-refused.v1": orders.ReleaseRefused(payment_id=PAYMENT, code="RELEASE_REFUSED", at=AT, message="Too late."),
    "payment-cancelled.v1": orders.PaymentCancelled(
        payment_id=PAYMENT, because=orders.CancelledBecause.REPLACED, at=AT
    ),
    "payment-expired.v1": orders.PaymentExpired(payment_id=PAYMENT, because=orders.ExpiredBecause.REFERENCE, at=AT),
    "reference-requested.v1": orders.ReferenceRequested(
        payment_id=PAYMENT,
        processor="sandbox",
        idempotency_key="referencia-1",
        amount=AMOUNT,
        expires_at=LATER,
        deadline_at=LATER,
        at=AT,
        account="backup",
    ),
    "reference-issued.v1": orders.ReferenceIssued(
        payment_id=PAYMENT,
        reference=Reference(
            clabe=CLABE,
            reference="9000000001",
            convenio="1234567",
            channel="OXXO",
            voucher_url="https://payments.stripe.com/oxxo/voucher/test",
        ),
        expires_at=LATER,
        processor_reference="sbx-1",
        at=AT,
    ),
    "deposit-received.v1": orders.DepositReceived(
        payment_id=PAYMENT,
        deposit_id="dep-1",
        amount=AMOUNT,
        processor_reference="sbx-2",
        at=AT,
        late=True,
        amount_differs=True,
        sender_clabe=CLABE,
    ),
    "refund-requested.v1": orders.RefundRequested(
        refund_id=REFUND,
        payment_id=PAYMENT,
        amount=AMOUNT,
        reason="devolución",
        processor="sandbox",
        idempotency_key="reembolso-1",
        deadline_at=LATER,
        at=AT,
        external_id="dev-1",
        payout=True,
        destination=Destination(clabe=CLABE, account_holder="Ana López"),
        destination_type=DestinationType.ACCOUNT,
        by_merchant=True,
        account="backup",
    ),
    "refund-destination-changed.v1": orders.RefundDestinationChanged(
        refund_id=REFUND,
        payment_id=PAYMENT,
        at=AT,
        destination=Destination(clabe=CLABE, account_holder="Ana López"),
    ),
    "payout-requested.v1": orders.PayoutRequested(
        refund_id=REFUND,
        payment_id=PAYMENT,
        amount=AMOUNT,
        processor="sandbox",
        idempotency_key="reembolso-1",
        deadline_at=LATER,
        at=AT,
        account="backup",
    ),
    "refund-accepted.v1": orders.RefundAccepted(
        refund_id=REFUND, payment_id=PAYMENT, processor_reference="sbx-3", at=AT
    ),
    "payment-refunded.v1": orders.PaymentRefunded(
        refund_id=REFUND, payment_id=PAYMENT, amount=AMOUNT, processor_reference="sbx-3", at=AT, paid_at=AT
    ),
    "refund-refused.v1": orders.RefundRefused(
        refund_id=REFUND,
        payment_id=PAYMENT,
        code="GENERIC_DECLINE",
        at=AT,
        message="The account is closed.",
        is_final=True,
    ),
    "refund-reopened.v1": orders.RefundReopened(refund_id=REFUND, payment_id=PAYMENT, at=AT),
    "late-refund-reported.v1": orders.LateRefundReported(
        refund_id=REFUND,
        payment_id=PAYMENT,
        amount=AMOUNT,
        processor_reference="sbx-3",
        at=AT,
        reason="Refunded on the processor's own pages.",
        ends_payment=True,
    ),
    "refund-reversed.v1": orders.RefundReversed(
        refund_id=REFUND,
        payment_id=PAYMENT,
        amount=AMOUNT,
        code="EXPIRED_OR_CANCELED_CARD",
        at=AT,
        message="Stripe's refund re_1 failed.",
    ),
    "call-unanswered.v1": orders.CallUnanswered(
        payment_id=PAYMENT,
        call=orders.ProcessorCall.CAPTURE,
        reason="The processor did not answer in time.",
        at=AT,
        came_back_at=LATER,
    ),
    "call-postponed.v1": orders.CallPostponed(payment_id=PAYMENT, call=orders.ProcessorCall.REFUND, until=LATER, at=AT),
    "call-repeated.v1": orders.CallRepeated(
        payment_id=PAYMENT,
        call=orders.ProcessorCall.REFUND,
        idempotency_key="reembolso-1",
        deadline_at=LATER,
        at=AT,
    ),
    "call-abandoned.v1": orders.CallAbandoned(
        payment_id=PAYMENT, call=orders.ProcessorCall.VOID, because=orders.AbandonedBecause.NOT_SENT, at=AT
    ),
    "dispute-opened.v1": orders.DisputeOpened(
        payment_id=PAYMENT,
        dispute_id="dsp-1",
        amount=AMOUNT,
        at=AT,
        reported_amount=2 * AMOUNT,
        reason="FRAUDULENT",
    ),
    "dispute-won.v1": orders.DisputeWon(payment_id=PAYMENT, dispute_id="dsp-1", at=AT),
    "dispute-lost.v1": orders.DisputeLost(
        payment_id=PAYMENT, dispute_id="dsp-1", amount=AMOUNT, at=AT, reported_amount=2 * AMOUNT
    ),
    "settlement-listed.v1": orders.SettlementListed(payment_id=PAYMENT, batch_id="lote-1", at=AT, **FEE),
    "settlement-matched.v1": orders.SettlementMatched(payment_id=PAYMENT, batch_id="lote-1", at=AT, **FEE),
    "settlement-refused.v1": orders.SettlementRefused(payment_id=PAYMENT, batch_id="lote-1", at=AT, **FEE),
    "cancellation-requested.v1": orders.CancellationRequested(
        cancellation_id=CANCELLATION, refund_captured=True, at=AT, reason="ya no"
    ),
    "cancellation-refused.v1": orders.CancellationRefused(at=AT),
    "order-cancelled.v1": orders.OrderCancelled(at=AT, cancellation_id=CANCELLATION, reason="ya no"),
}
"""By topic, in the order of `ledger.domain.orders.events`."""
