"""One event of every topic of subscriptions, with every field filled."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from uuid import UUID

from msgspec import Raw

from ledger.domain.payment_methods import events as payment_methods
from ledger.domain.plans.terms import Interval, OnRetriesExhausted, PlanTerms
from ledger.domain.subscriptions import events, notice_events

_AT = datetime(2026, 1, 31, 18, 30, 15, 123456, tzinfo=UTC)
_END = datetime(2026, 2, 28, 18, 30, 15, 123456, tzinfo=UTC)
_SUBSCRIPTION, _CUSTOMER, _PLAN, _METHOD, _INVOICE, _ORDER, _PAYMENT, _NOTICE = (
    UUID(f"01890a5d-ac96-774b-bcce-b302099a81{n:02x}") for n in range(1, 9)
)
_TERMS = PlanTerms(
    amount=Decimal(38900),
    currency="MXN",
    interval=Interval.MONTH,
    interval_count=1,
    trial_period_days=14,
    expiry_count=12,
    max_retries=3,
    retry_delay_hours=72,
    on_retries_exhausted=OnRetriesExhausted.CANCEL,
)
_LINE = events.InvoiceLine(
    description="Café del mes",
    unit_amount=Decimal(38900),
    amount=Decimal(77800),
    quantity=2,
    proration=True,
    period_start=_AT,
    period_end=_END,
    charged_before=True,
)

SUBSCRIPTIONS = {
    "payment-method-attached.v1": payment_methods.PaymentMethodAttached(
        payment_method_id=_METHOD, subscription_id=_SUBSCRIPTION, at=_AT
    ),
    "payment-method-detached.v1": payment_methods.PaymentMethodDetached(
        payment_method_id=_METHOD, subscription_id=_SUBSCRIPTION, at=_AT
    ),
    "subscription-requested.v1": events.SubscriptionRequested(
        subscription_id=_SUBSCRIPTION,
        customer_id=_CUSTOMER,
        plan_id=_PLAN,
        plan_name="Café del mes",
        terms=_TERMS,
        payment_method_id=_METHOD,
        anchor=_END,
        time_zone="America/Mexico_City",
        at=_AT,
        trial_end=_END,
        external_id="suscripcion-7",
        metadata=Raw(b'{"channel":"web"}'),
    ),
    "subscription-started.v1": events.SubscriptionStarted(at=_AT),
    "subscription-refused.v1": events.SubscriptionRefused(
        because=events.RefusedBecause.DECLINED, at=_AT, decline_code="INSUFFICIENT_FUNDS", refused_by_risk=True
    ),
    "subscription-trial-will-end.v1": events.TrialWillEnd(trial_end=_END, at=_AT),
    "subscription-invoice-opened.v1": events.InvoiceOpened(
        invoice_id=_INVOICE,
        ordinal=3,
        number="9K2M4P7QRS-0003",
        period_start=_AT,
        period_end=_END,
        due_at=_AT,
        amount=Decimal(77800),
        lines=(_LINE,),
        at=_AT,
        period=2,
        draft=True,
        final=True,
    ),
    "subscription-drafts-opened.v1": events.DraftsOpened(invoice_ids=(_INVOICE,), at=_AT),
    "subscription-billing-cycle-reset.v1": events.BillingCycleReset(anchor=_AT, at=_AT),
    "subscription-credit-carried.v1": events.CreditCarried(lines=(_LINE,), at=_AT),
    "subscription-proration-deferred.v1": events.ProrationDeferred(lines=(_LINE,), at=_AT),
    "subscription-charge-begun.v1": events.ChargeBegun(
        invoice_id=_INVOICE,
        attempt=2,
        order_id=_ORDER,
        payment_id=_PAYMENT,
        payment_method_id=_METHOD,
        trigger=events.ChargeTrigger.RETRY,
        at=_AT,
    ),
    "subscription-charge-declined.v1": events.ChargeDeclined(
        invoice_id=_INVOICE,
        order_id=_ORDER,
        decline_code="INSUFFICIENT_FUNDS",
        at=_AT,
        hard=True,
        refused_by_risk=True,
        next_attempt_at=_END,
    ),
    "subscription-charge-unsent.v1": events.ChargeUnsent(
        invoice_id=_INVOICE, order_id=_ORDER, at=_AT, next_attempt_at=_AT + timedelta(minutes=5), order_ended=True
    ),
    "subscription-charge-surplus.v1": events.ChargeSurplus(invoice_id=_INVOICE, order_id=_ORDER, at=_AT),
    "subscription-invoice-paid.v1": events.InvoicePaid(invoice_id=_INVOICE, at=_AT, order_id=_ORDER),
    "subscription-invoice-refunded.v1": events.InvoiceRefunded(
        invoice_id=_INVOICE, order_id=_ORDER, amount_refunded=Decimal(38900), at=_AT
    ),
    "subscription-invoice-voided.v1": events.InvoiceVoided(invoice_id=_INVOICE, at=_AT),
    "subscription-invoice-uncollectible.v1": events.InvoiceUncollectible(invoice_id=_INVOICE, at=_AT),
    "subscription-activated.v1": events.SubscriptionActivated(at=_AT),
    "subscription-renewed.v1": events.SubscriptionRenewed(invoice_id=_INVOICE, at=_AT),
    "subscription-past-due.v1": events.SubscriptionPastDue(invoice_id=_INVOICE, at=_AT),
    "subscription-unpaid.v1": events.SubscriptionUnpaid(invoice_id=_INVOICE, cancels_at=_END, at=_AT),
    "subscription-cancellation-scheduled.v1": events.CancellationScheduled(at=_AT),
    "subscription-resumed.v1": events.SubscriptionResumed(at=_AT),
    "subscription-canceled.v1": events.SubscriptionCanceled(
        because=events.CanceledBecause.EXPIRED, ended_at=_END, at=_AT
    ),
    "subscription-plan-changed.v1": events.PlanChanged(
        plan_id=_PLAN,
        plan_name="Café doble",
        terms=_TERMS,
        at=_AT,
        anchor=_END,
        priced_seconds=2_419_200,
        next_period=7,
    ),
    "subscription-method-replaced.v1": events.MethodReplaced(payment_method_id=_METHOD, at=_AT),
    "subscription-metadata-changed.v1": events.MetadataChanged(at=_AT, metadata=Raw(b'{"channel":"app"}')),
    "subscription-notice-requested.v1": notice_events.NoticeRequested(
        notice_id=_NOTICE, kind=notice_events.NoticeKind.PAYMENT_FAILED, notifier="smtp", deadline_at=_END, at=_AT
    ),
    "subscription-notice-postponed.v1": notice_events.NoticePostponed(
        notice_id=_NOTICE, code="DATA TIMEOUT", retry_at=_END, at=_AT, unknown=True
    ),
    "subscription-notice-sent.v1": notice_events.NoticeSent(notice_id=_NOTICE, at=_AT),
    "subscription-notice-dropped.v1": notice_events.NoticeDropped(
        notice_id=_NOTICE,
        kind=notice_events.NoticeKind.RECEIPT,
        because=notice_events.NoticeDroppedBecause.REFUSED,
        at=_AT,
        code="RCPT 550 5.1.1",
    ),
}
