"""The fold of a subscription: its state after one more event."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, assert_never
from uuid import UUID

from msgspec import UNSET
from msgspec.structs import replace

from ledger.domain.subscriptions.calendar import Period
from ledger.domain.subscriptions.events import (
    BillingCycleReset,
    BillingEvent,
    CancellationScheduled,
    ChargeBegun,
    ChargeDeclined,
    ChargeSurplus,
    ChargeTrigger,
    ChargeUnsent,
    CreditCarried,
    DraftsOpened,
    InvoiceOpened,
    InvoicePaid,
    InvoiceRefunded,
    InvoiceUncollectible,
    InvoiceVoided,
    MetadataChanged,
    MethodReplaced,
    PlanChanged,
    ProrationDeferred,
    SubscriptionActivated,
    SubscriptionCanceled,
    SubscriptionEvent,
    SubscriptionPastDue,
    SubscriptionRefused,
    SubscriptionRenewed,
    SubscriptionRequested,
    SubscriptionResumed,
    SubscriptionStarted,
    SubscriptionUnpaid,
    TrialWillEnd,
)
from ledger.domain.subscriptions.notice_events import NoticeEvent
from ledger.domain.subscriptions.notices import evolve_notices, failure_notice, receipt_notice, trial_notice
from ledger.domain.subscriptions.proration import after_change, after_refund, after_return
from ledger.domain.subscriptions.state import (
    Attempt,
    BilledPlan,
    Charge,
    Invoice,
    InvoiceStatus,
    PricedPlan,
    Subscription,
    SubscriptionStatus,
)


def evolve(subscription: Subscription | None, event: SubscriptionEvent) -> Subscription:
    """Returns the subscription after `event`. `subscription` is None before its first request."""
    if isinstance(event, SubscriptionRequested):
        return _requested(subscription, event)
    assert subscription is not None, "a stream begins with its request"
    if isinstance(event, NoticeEvent):  # it changes nothing that a merchant sees
        return replace(subscription, notices=evolve_notices(subscription.notices, event))
    after = _evolve(subscription, event)
    return replace(after, updated_at=event.at)


def _evolve(state: Subscription, event: BillingEvent) -> Subscription:
    match event:
        case DraftsOpened():
            return _changed(state, event.invoice_ids, event.at, status=InvoiceStatus.OPEN)
        case InvoiceOpened() | InvoicePaid() | InvoiceRefunded() | InvoiceVoided() | InvoiceUncollectible():
            return _invoiced(state, event)
        case CreditCarried() | ProrationDeferred():
            return _carried(state, event)
        case ChargeBegun() | ChargeDeclined() | ChargeUnsent() | ChargeSurplus():
            return _charged(state, event)
        case PlanChanged():
            return _plan_changed(state, event)
        case BillingCycleReset():
            return replace(state, anchor=event.anchor, next_period=0, periods_billed=state.periods_billed - 1)
        case MethodReplaced() | MetadataChanged():
            return _replaced(state, event)
        case TrialWillEnd():
            notice = trial_notice(state.subscription_id, event.at, event.trial_end)
            return replace(state, trial_end_announced=True, notices=(*state.notices, notice))
        case SubscriptionRequested():
            return _requested(state, event)
        case _:
            return _moved(state, event)


def _moved(
    state: Subscription,
    event: SubscriptionStarted
    | SubscriptionRefused
    | SubscriptionActivated
    | SubscriptionRenewed
    | SubscriptionPastDue
    | SubscriptionUnpaid
    | CancellationScheduled
    | SubscriptionResumed
    | SubscriptionCanceled,
) -> Subscription:
    """Returns the subscription after its status or its planned end changed, or after it stayed ACTIVE for a further
    period.
    """
    match event:
        case SubscriptionStarted():
            status = SubscriptionStatus.ACTIVE if state.trial_end is None else SubscriptionStatus.TRIALING
            return replace(state, status=status)
        case SubscriptionRefused():
            return replace(state, refusal=event, invoices=(), charge=None)
        case SubscriptionActivated():
            return replace(state, status=SubscriptionStatus.ACTIVE, cancels_at=None)
        case SubscriptionRenewed():
            return state
        case SubscriptionPastDue():
            return replace(state, status=SubscriptionStatus.PAST_DUE)
        case SubscriptionUnpaid():
            return replace(state, status=SubscriptionStatus.UNPAID, cancels_at=event.cancels_at)
        case CancellationScheduled():
            return replace(state, cancel_at_period_end=True, canceled_at=event.at)
        case SubscriptionResumed():
            return replace(state, cancel_at_period_end=False, canceled_at=None)
        case SubscriptionCanceled():
            return replace(
                state,
                status=SubscriptionStatus.CANCELED,
                ended_at=event.ended_at,
                canceled_at=state.canceled_at or event.ended_at,
                canceled_because=event.because,
                cancels_at=None,
            )
        case _:
            assert_never(event)


def _requested(before: Subscription | None, event: SubscriptionRequested) -> Subscription:
    """Returns a requested subscription. After a refused request, the ordinals of its invoices are used up."""
    return Subscription(
        subscription_id=event.subscription_id,
        customer_id=event.customer_id,
        plan_id=event.plan_id,
        plan_name=event.plan_name,
        terms=event.terms,
        payment_method_id=event.payment_method_id,
        anchor=event.anchor,
        time_zone=event.time_zone,
        current_period_start=event.at,
        current_period_end=event.anchor,
        created_at=event.at,
        updated_at=event.at,
        external_id=event.external_id,
        metadata=None if event.metadata is UNSET else event.metadata,
        trial_start=None if event.trial_end is None else event.at,
        trial_end=event.trial_end,
        last_ordinal=0 if before is None else before.last_ordinal,
    )


def _plan_changed(state: Subscription, event: PlanChanged) -> Subscription:
    anchored = {} if event.anchor is None else {"anchor": event.anchor, "next_period": event.next_period}
    after = replace(state, plan_id=event.plan_id, plan_name=event.plan_name, terms=event.terms, **anchored)
    if event.priced_seconds is None:
        return after
    assert state.priced is not None, "only the rest of a period with a price is settled"
    priced = PricedPlan(event.plan_name, event.terms, event.priced_seconds)
    return replace(after, priced=after_change(state.priced, priced, Period(event.at, state.current_period_end)))


def _replaced(state: Subscription, event: MethodReplaced | MetadataChanged) -> Subscription:
    if isinstance(event, MethodReplaced):
        return replace(state, payment_method_id=event.payment_method_id)
    return replace(state, metadata=None if event.metadata is UNSET else event.metadata)


def _carried(state: Subscription, event: CreditCarried | ProrationDeferred) -> Subscription:
    """Returns the subscription with the lines that wait for its next invoice."""
    earlier = state.carried if isinstance(event, ProrationDeferred) else ()
    return replace(state, carried=(*earlier, *event.lines))


def _invoiced(
    state: Subscription,
    event: InvoiceOpened | InvoicePaid | InvoiceRefunded | InvoiceVoided | InvoiceUncollectible,
) -> Subscription:
    match event:
        case InvoiceOpened():
            return _opened(state, event)
        case InvoicePaid():
            paid = {"status": InvoiceStatus.PAID, "paid_at": event.at, "payment_order_id": event.order_id}
            after = _changed(state, (event.invoice_id,), event.at, next_attempt_at=None, **paid)
            if event.order_id is not None:
                receipt = receipt_notice(event.invoice_id, event.at, _card_of(state, event.order_id))
                after = replace(after, notices=(*after.notices, receipt))
            return _without_charge(after, event.order_id)
        case InvoiceRefunded():
            return _refunded(state, event)
        case InvoiceVoided():
            return _changed(state, (event.invoice_id,), event.at, next_attempt_at=None, status=InvoiceStatus.VOID)
        case InvoiceUncollectible():
            ended = InvoiceStatus.UNCOLLECTIBLE
            return _changed(state, (event.invoice_id,), event.at, next_attempt_at=None, status=ended)
        case _:
            assert_never(event)


def _opened(state: Subscription, event: InvoiceOpened) -> Subscription:
    invoice = Invoice(
        invoice_id=event.invoice_id,
        ordinal=event.ordinal,
        number=event.number,
        plan_id=state.plan_id,
        plan_name=state.plan_name,
        period_start=event.period_start,
        period_end=event.period_end,
        due_at=event.due_at,
        amount=event.amount,
        currency=state.terms.currency,
        lines=event.lines,
        status=InvoiceStatus.DRAFT if event.draft else InvoiceStatus.OPEN,
        created_at=event.at,
        updated_at=event.at,
        period=event.period,
        is_final=event.final,
    )
    after = replace(state, invoices=(*state.invoices, invoice), last_ordinal=event.ordinal, carried=())
    if event.period is None:
        return after
    seconds = (event.period_end - event.period_start) // timedelta(seconds=1)
    return replace(
        after,
        current_period_start=event.period_start,
        current_period_end=event.period_end,
        next_period=event.period + 1,
        periods_billed=state.periods_billed + 1,
        billed=BilledPlan(state.terms, seconds, state.anchor, event.period + 1),
        priced=PricedPlan(state.plan_name, state.terms, seconds),
    )


def _refunded(state: Subscription, event: InvoiceRefunded) -> Subscription:
    """Returns the subscription after money of an invoice went back, or came back. A refund of the current period lowers
    the credit that waits, or that its next change of plan gives.
    """
    invoice = state.invoice(event.invoice_id)
    after = _changed(state, (event.invoice_id,), event.at, amount_refunded=event.amount_refunded)
    if state.priced is None or invoice not in state.period_invoices:
        return after
    refunded = event.amount_refunded - invoice.amount_refunded
    if refunded < 0:
        return replace(after, priced=after_return(state.priced, -refunded))
    end, changed = state.current_period_end, state.has_waiting_change
    return replace(after, priced=after_refund(state.priced, state.carried, end, refunded, changed=changed))


def _charged(state: Subscription, event: ChargeBegun | ChargeDeclined | ChargeUnsent | ChargeSurplus) -> Subscription:
    invoice = state.invoice(event.invoice_id)
    match event:
        case ChargeBegun():
            return _begun(state, invoice, event)
        case ChargeDeclined():
            after = _changed(
                state,
                (event.invoice_id,),
                event.at,
                next_attempt_at=event.next_attempt_at,
                last_decline=event.decline_code,
                refused_by_risk=event.refused_by_risk,
                last_order_unsent=False,
            )
            if state.is_shown:
                card = _card_of(state, event.order_id)
                notice = failure_notice(event.order_id, event.invoice_id, event.at, card, event.next_attempt_at)
                after = replace(after, notices=(*after.notices, notice))
            return _without_charge(after, event.order_id)
        case ChargeUnsent():
            is_retry = state.charge is not None and state.charge.trigger is ChargeTrigger.RETRY
            after = _changed(
                state,
                (event.invoice_id,),
                event.at,
                next_attempt_at=event.next_attempt_at,
                attempt_count=invoice.attempt_count - 1,
                retries=invoice.retries - is_retry,
                last_order_unsent=True,
                last_order_ended=event.order_ended,
            )
            return _without_charge(after, event.order_id)
        case ChargeSurplus():
            return _without_charge(state, event.order_id)
        case _:
            assert_never(event)


def _begun(state: Subscription, invoice: Invoice, event: ChargeBegun) -> Subscription:
    charge = Charge(
        invoice_id=event.invoice_id,
        attempt=event.attempt,
        order_id=event.order_id,
        payment_id=event.payment_id,
        payment_method_id=event.payment_method_id,
        trigger=event.trigger,
        begun_at=event.at,
    )
    scheduled = event.trigger in (ChargeTrigger.DUE, ChargeTrigger.RETRY)
    return _changed(
        replace(state, charge=charge),
        (event.invoice_id,),
        event.at,
        next_attempt_at=None if scheduled else invoice.next_attempt_at,
        status=InvoiceStatus.OPEN,
        attempts=_with_attempt(invoice.attempts, event),
        last_order_unsent=False,
        last_order_ended=False,
        attempt_count=invoice.attempt_count + 1,
        retries=invoice.retries + (event.trigger is ChargeTrigger.RETRY),
        payment_order_id=event.order_id,
    )


def _with_attempt(attempts: tuple[Attempt, ...], event: ChargeBegun) -> tuple[Attempt, ...]:
    """Returns the attempts after one began, for the first time or again."""
    if not attempts or attempts[-1].order_id != event.order_id:
        return (*attempts, Attempt(event.order_id, (event.payment_id,)))
    again = Attempt(event.order_id, (*attempts[-1].payment_ids, event.payment_id))
    return (*attempts[:-1], again)


def _card_of(state: Subscription, order_id: UUID) -> UUID | None:
    """Returns the saved card of the charge in progress, if it is the one by this order."""
    charge = state.charge
    return charge.payment_method_id if charge is not None and charge.order_id == order_id else None


def _without_charge(state: Subscription, order_id: UUID | None) -> Subscription:
    """Returns the subscription without the charge in progress, if it is the one by this order."""
    is_over = state.charge is not None and state.charge.order_id == order_id
    return replace(state, charge=None) if is_over else state


def _changed(state: Subscription, invoice_ids: tuple[UUID, ...], at: datetime, **changes: Any) -> Subscription:
    return replace(
        state,
        invoices=tuple(
            replace(invoice, updated_at=at, **changes) if invoice.invoice_id in invoice_ids else invoice
            for invoice in state.invoices
        ),
    )
